"""The state of STDDEV and VARIANCE, of samples and populations, over integers and numeric: sums of values and squares.

Follows the server's `numeric_stddev_internal`: the variance has the decimals of a quotient of numerics
(`select_div_scale`), and the root is taken of that rounded variance, with as many decimals.

Not here: floats, whose variance depends on the order of the rows in the server.
"""

from collections.abc import Sequence
from decimal import Decimal

from dataflow import arithmetic, numeric
from dataflow.errors import EvaluationError
from dataflow.ops.aggregate_sums import SPECIAL, NumericSum
from dataflow.sizing import NUMBER_BYTES
from dataflow.types import Value

#: Decimals take more time for squares and roots of longer numbers than the upstream does.
_MAX_DIGITS = 5_000


class NumericSpread(NumericSum):
    """Variance, or its root, of integers or numeric: of a sample, or of the whole population."""

    __slots__ = ("_root", "_sample", "long", "squares")
    recorded: tuple[str, ...] = ("by_scale", "special", "long", "squares")
    width = 2

    def __init__(self, sample: bool, root: bool) -> None:
        super().__init__()
        self._sample = sample
        self._root = root
        #: Values of more digits than are computed with; they are in no sum.
        self.long = 0
        #: The sum of the squares of the finite values; NaN and the infinities are counted beside it.
        self.squares = Decimal(0)

    def add(self, value: Value, times: int) -> None:
        if value is not None and len(value) > _MAX_DIGITS:
            self.long += times
            return
        NumericSum.add(self, value, times)
        if value is not None and value not in SPECIAL:
            number = numeric.parse(value)
            square = numeric.EXACT.multiply(number, number)
            self.squares = numeric.EXACT.fma(square, times, self.squares) if self.by_scale else Decimal(0)

    def merge(self, partial: Sequence[Value]) -> None:
        self.add(partial[0], int(partial[1] or 0))

    def state_bytes(self) -> int:
        return NumericSum.state_bytes(self) + NUMBER_BYTES

    def result(self) -> Value:
        if self.long:
            raise EvaluationError(f"not computed: the variance of numbers of more than {_MAX_DIGITS} digits")
        count = self.count()
        if count <= self._sample:
            return None
        if any(self.special.values()):
            return "NaN"
        # N * sum(x * x) - sum(x) * sum(x), which has twice the decimals of the sum.
        total = self.total()
        above = numeric.EXACT.subtract(
            numeric.EXACT.multiply(self.squares, count), numeric.EXACT.multiply(total, total)
        )
        if not above:
            return "0"
        below = Decimal(count * (count - self._sample))
        scale = numeric.quotient_scale(above, 2 * max(self.by_scale), below, 0)
        variance = numeric.quotient(above, below, scale)
        return numeric.render(arithmetic.root(variance, scale) if self._root else variance)
