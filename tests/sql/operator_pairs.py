"""Expressions of two operators without parentheses: every one as an operand of every other that takes its type."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count


@dataclass(frozen=True, slots=True)
class Operator:
    """Form of an operator, with ``%%`` for each operand; the kinds of the operands, and that of the result."""

    written: str
    operands: str
    result: str

    def applied(self, operands: Sequence[str]) -> str:
        """The operator with its operands written in."""
        pieces = self.written.split("%%")
        return "".join(p + o for p, o in zip(pieces, (*operands, ""), strict=True))


def pairs(operators: Sequence[Operator]) -> Iterator[str]:
    """The expressions, over columns of which the first letter is the kind: ``i1``."""
    for outer in operators:
        for inner in operators:
            for slot, kind in enumerate(outer.operands):
                if kind == inner.result:
                    numbers = count(1)
                    written = inner.applied([f"{k}{next(numbers)}" for k in inner.operands])
                    yield outer.applied(
                        [written if i == slot else f"{k}{next(numbers)}" for i, k in enumerate(outer.operands)]
                    )
