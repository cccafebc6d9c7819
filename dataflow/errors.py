"""Errors of the engine, by whose fault they are."""

from dataclasses import dataclass


class InvariantViolation(AssertionError):
    """Ours: the engine's state contradicts one of its invariants."""


class EvaluationError(Exception):
    """The upstream's data made an expression fail (an overflow, say) where the upstream would fail too."""


def contained(error: Exception) -> Exception:
    """`error`, if everything else can go on beside what raised it. Raises an `InvariantViolation` again: the state, or
    the stream, is not what the engine takes it for, so nothing that was made of it is trusted."""
    if isinstance(error, InvariantViolation):
        raise error
    return error


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a SQL text: offsets of its first character and behind its last."""

    start: int
    end: int


class UnsupportedQuery(Exception):
    """A query without an incremental plan: normal flow, with the reason and the place in the text."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


class UnsupportedParameter(UnsupportedQuery):
    """A parameter where it cannot be a column of the plan's rows. It could be one of a chain, then of `type`
    (`dataflow.types.SqlType`) if that is known; `below`: of one of the queries in FROM. `bound`: it is the value that a
    condition on the current time has (`dataflow.plan.clock_bounds.ClockBound`)."""

    def __init__(
        self,
        reason: str,
        span: Span | None,
        name: str,
        type_: object = None,
        *,
        below: bool = False,
        bound: object = None,
    ) -> None:
        super().__init__(reason, span)
        self.name = name
        self.type = type_
        self.below = below
        self.bound = bound


class UnsupportedRoute(UnsupportedQuery):
    """A plan without a route from its key to the rows that a free parameter picks."""


class InvalidQuery(Exception):
    """The user's: not a SELECT that the upstream would run (syntax, unknown names, side effects)."""

    def __init__(self, reason: str, span: Span | None = None, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span
        self.hint = hint
