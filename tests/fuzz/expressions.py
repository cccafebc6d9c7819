"""Random scalar expressions and predicates over the columns that are in scope."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.fuzz.schema import BOOL, DATE, INT, KINDS, NUM, TEXT, literal


@dataclass(frozen=True, slots=True)
class Named:
    """A column in scope: how it is written, and its kind."""

    name: str
    kind: str


#: Makes a predicate or scalar with a subquery: over which columns, of which kind.
Subquery = Callable[[list[Named], str], str]


class Expressions:
    """Draws expressions. `subquery` is asked for those that contain a SELECT."""

    def __init__(self, rng: Random, subquery: Subquery) -> None:
        self._rng = rng
        self._subquery = subquery

    def columns(self, scope: list[Named], kind: str) -> list[str]:
        """The names of the columns of a kind."""
        return [column.name for column in scope if column.kind == kind]

    def scalar(self, kind: str, scope: list[Named], depth: int = 2) -> str:
        """An expression of some kind."""
        rng = self._rng
        columns = self.columns(scope, kind)
        choice = rng.random()
        if columns and (depth <= 0 or choice < 0.55):
            return rng.choice(columns)
        if depth <= 0 or choice < 0.65:
            return literal(kind, rng)
        if choice < 0.7:
            return f"coalesce({self.scalar(kind, scope, depth - 1)}, {self.scalar(kind, scope, depth - 1)})"
        if choice < 0.76:
            then, otherwise = self.scalar(kind, scope, depth - 1), self.scalar(kind, scope, depth - 1)
            return f"CASE WHEN {self.predicate(scope, depth - 1)} THEN {then} ELSE {otherwise} END"
        if choice < 0.79:
            return f"nullif({self.scalar(kind, scope, depth - 1)}, {literal(kind, rng)})"
        if choice < 0.82:
            word = rng.choice(("greatest", "least"))
            return f"{word}({self.scalar(kind, scope, depth - 1)}, {self.scalar(kind, scope, depth - 1)})"
        return self._of_kind(kind, scope, depth - 1)

    def _of_kind(self, kind: str, scope: list[Named], depth: int) -> str:
        rng = self._rng
        if kind == INT:
            a, b = self.scalar(INT, scope, depth), self.scalar(INT, scope, depth)
            return rng.choice(
                (f"({a} + {b})", f"({a} - {b})", f"({a} * 2)", f"abs({a})", f"({a} / 3)", f"({a} % 4)", f"(- {a})",
                 f"length({self.scalar(TEXT, scope, depth)})", f"position('a' IN {self.scalar(TEXT, scope, 0)})")
            )  # fmt: skip
        if kind == NUM:
            a, b = self.scalar(NUM, scope, depth), self.scalar(NUM, scope, depth)
            return rng.choice((f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"round({a}, 1)", f"({a} + 1)",
                               f"{self.scalar(INT, scope, 0)}::numeric"))  # fmt: skip
        if kind == TEXT:
            a, b = self.scalar(TEXT, scope, depth), self.scalar(TEXT, scope, depth)
            return rng.choice(
                (f"({a} || {b})", f"upper({a})", f"lower({a})", f"substring({a} FROM 2 FOR 3)",
                 f"replace({a}, 'a', 'oo')", f"left({a}, 2)", f"trim({a})", f"concat({a}, {b})",
                 f"{self.scalar(INT, scope, 0)}::text")
            )  # fmt: skip
        if kind == DATE:
            return f"({self.scalar(DATE, scope, 0)} + {rng.choice((1, 31, -7))})"
        return f"({self.predicate(scope, depth)})"

    def predicate(self, scope: list[Named], depth: int = 2) -> str:
        """A condition."""
        rng = self._rng
        choice = rng.random()
        if depth > 0 and choice < 0.3:
            a, b = self.predicate(scope, depth - 1), self.predicate(scope, depth - 1)
            return rng.choice((f"({a} AND {b})", f"({a} OR {b})", f"NOT ({a})", f"({a}) IS NOT TRUE"))
        if depth > 0 and choice < 0.42:
            return self._subquery(scope, BOOL)
        kind = rng.choice(KINDS)
        if not self.columns(scope, kind):
            kind = rng.choice(scope).kind
        a, b = self.scalar(kind, scope, depth - 1), self.scalar(kind, scope, depth - 2)
        if choice < 0.55:
            return rng.choice((f"{a} IS NULL", f"{a} IS NOT NULL", f"{a} IS DISTINCT FROM {b}"))
        if kind == BOOL:
            return rng.choice((a, f"{a} = {b}", f"{a} IS NOT FALSE"))
        if choice < 0.65:
            values = ", ".join(literal(kind, rng) for _ in range(rng.randint(1, 3)))
            return f"{a} {rng.choice(('IN', 'NOT IN'))} ({values})"
        if choice < 0.7:
            return f"{a} BETWEEN {literal(kind, rng)} AND {b}"
        if kind == TEXT and choice < 0.8:
            return f"{a} LIKE '{rng.choice(('a%', '%o%', '_o%', '%', ''))}'"
        return f"{a} {rng.choice(('=', '=', '<>', '<', '<=', '>', '>='))} {b}"
