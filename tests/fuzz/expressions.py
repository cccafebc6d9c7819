"""Random scalar expressions and predicates over the columns that are in scope."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.fuzz.dialect import BOOL, SAME, TRUTHS, Dialect

_HOLE = re.compile(r"\{(\w+)(\.?)\}")


@dataclass(frozen=True, slots=True)
class Named:
    """A column in scope: how it is written, and its kind."""

    name: str
    kind: str


#: Makes a predicate or scalar with a subquery: over which columns, of which kind.
Subquery = Callable[[list[Named], str], str]


class Expressions:
    """Draws expressions. `subquery` is asked for those that contain a SELECT."""

    def __init__(self, rng: Random, dialect: Dialect, subquery: Subquery) -> None:
        self._rng = rng
        self._dialect = dialect
        self._subquery = subquery

    def columns(self, scope: list[Named], kind: str) -> list[str]:
        """The names of the columns of a kind."""
        members = self._dialect.members(kind)
        return [column.name for column in scope if column.kind in members]

    def scalar(self, kind: str, scope: list[Named], depth: int = 2) -> str:
        """An expression of some kind."""
        rng, dialect = self._rng, self._dialect
        columns = self.columns(scope, kind)
        choice = rng.random()
        if columns and (depth <= 0 or choice < 0.55):
            return rng.choice(columns)
        if depth <= 0 or choice < 0.65:
            return dialect.literal(kind, rng)
        forms = dialect.choices if choice < 0.82 else dialect.forms.get(kind, dialect.choices)
        return self.filled(rng.choice(forms), kind, scope, depth - 1)

    def predicate(self, scope: list[Named], depth: int = 2) -> str:
        """A condition."""
        rng, dialect = self._rng, self._dialect
        choice = rng.random()
        if depth > 0 and choice < 0.3:
            return self.filled(rng.choice(TRUTHS), BOOL, scope, depth - 1)
        if depth > 0 and choice < 0.42:
            return self._subquery(scope, BOOL)
        kind = rng.choice(dialect.kinds)
        if not self.columns(scope, kind):
            kind = rng.choice(scope).kind
        forms = dialect.null_tests if choice < 0.55 else dialect.comparisons.get(kind, dialect.comparisons[SAME])
        return self.filled(rng.choice(forms), kind, scope, depth - 1)

    def filled(self, template: str, kind: str, scope: list[Named], depth: int) -> str:
        """A template of the dialect with expressions that are at most so deep."""
        last = ""

        def part(hole: re.Match[str]) -> str:
            nonlocal last
            if hole[1] != "again":
                last = self._part(hole[1], kind, scope, 0 if hole[2] else depth)
            return last

        return _HOLE.sub(part, template)

    def _part(self, hole: str, kind: str, scope: list[Named], depth: int) -> str:
        rng, dialect = self._rng, self._dialect
        match hole:
            case "condition":
                return self.predicate(scope, depth)
            case "distinct":
                return "DISTINCT " if rng.random() < 0.2 else ""
            case "constant":
                return dialect.constant(kind, rng)
            case "list":
                return ", ".join(dialect.constant(kind, rng) for _ in range(rng.randint(1, 3)))
            case "any":
                return self.scalar(rng.choice(dialect.kinds), scope, depth)
        return self.scalar(kind if hole == SAME else hole, scope, depth)
