"""Refused statements, each with the reason and the place: ``refused.sql`` has the statement and, behind it, the error.

Regenerate with ``python -m tests.sql.test_refused``, and read the difference.
"""

import re
from pathlib import Path

import pytest

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.sql import plan_view
from tests.plans.news_site import CATALOG

FILE = Path(__file__).parent / "refused.sql"
#: A statement may have semicolons; the error ends it.
_CASE = re.compile(r"(.+?)\n--> ([^\n]*)\n", re.DOTALL)


def cases() -> list[tuple[str, str]]:
    text = FILE.read_text(encoding="utf-8").partition("\n\n")[2]
    return [(sql.strip("\n"), error) for sql, error in _CASE.findall(text)]


def refusal(sql: str) -> str:
    """The error of planning `sql`, on one line."""
    try:
        plan_view("v", sql, CATALOG)
    except (UnsupportedQuery, InvalidQuery) as error:
        kind = "unsupported" if isinstance(error, UnsupportedQuery) else "invalid"
        place = "" if error.span is None else f" at [{sql[error.span.start : error.span.end]}]"
        hint = f" ({error.hint})" if isinstance(error, InvalidQuery) and error.hint else ""
        return f"{kind}{place}: {error.reason}{hint}"
    return "planned"


@pytest.mark.parametrize(("sql", "error"), cases())
def test_refused(sql: str, error: str) -> None:
    assert error != "planned"
    assert refusal(sql) == error


def test_deep_nesting_is_refused_and_no_crash() -> None:
    sql = f"SELECT id FROM stories WHERE {'(' * 3000}score{')' * 3000} > 1"
    assert refusal(sql).startswith(("unsupported", "invalid"))


if __name__ == "__main__":
    head = FILE.read_text(encoding="utf-8").partition("\n\n")[0]
    body = "\n".join(f"{sql}\n--> {refusal(sql)}\n" for sql, _ in cases())
    FILE.write_text(f"{head}\n\n{body}", encoding="utf-8")
