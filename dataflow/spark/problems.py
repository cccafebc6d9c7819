"""Errors on Spark's side for users: a code, what happened, what helps.

*Invariants*: a detail holds no SQL, no password and no stack trace.

Not here: what the service makes of them (`service.engine.builds`).
"""

import json
import re
from typing import Final

#: Marks a problem that a task reported to the driver, inside the message that Spark makes of it.
_MARK: Final = "upquery-problem:"
_MARKED = re.compile(re.escape(_MARK) + r"(\{.*?\}):end", re.DOTALL)


class SparkProblem(Exception):
    """A problem for users. `code` is stable; `retryable`: the same might go well another time."""

    def __init__(self, code: str, detail: str, hint: str = "", retryable: bool = False) -> None:
        super().__init__(code, detail, hint, retryable)
        self.code = code
        self.detail = detail
        self.hint = hint
        self.retryable = retryable

    def __str__(self) -> str:
        return " ".join(filter(None, (self.detail, self.hint)))

    def marked(self) -> str:
        """Text in which `found_in` finds the problem, whatever is wrapped around it."""
        return f"{_MARK}{json.dumps(self.as_json())}:end"

    def as_json(self) -> dict[str, str | bool]:
        """The last line of a job that failed."""
        return {"error": self.code, "detail": self.detail, "hint": self.hint, "retryable": self.retryable}


class RequirementMissing(SparkProblem):
    """A requirement of Spark is missing, or too old: it can never run in this installation."""


def found_in(text: str) -> SparkProblem | None:
    """The problem that a task reported in this text (Spark's message about a task that failed), if there is one."""
    found = None
    for match in _MARKED.finditer(text):
        try:
            fields = json.loads(match.group(1))
        except ValueError:
            # A message that is itself inside of JSON or of repr() has its quotes escaped.
            fields = _unescaped(match.group(1))
        if fields is not None:
            found = SparkProblem(fields["error"], fields["detail"], fields["hint"], fields["retryable"])
    return found


def _unescaped(text: str) -> dict[str, str] | None:
    try:
        fields = json.loads(text.replace('\\"', '"').replace("\\\\", "\\"))
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


__all__ = ["RequirementMissing", "SparkProblem", "found_in"]
