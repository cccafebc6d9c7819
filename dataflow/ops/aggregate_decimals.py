"""AVG of MariaDB and MySQL: a DECIMAL that is cut behind the digits that its type has (`functions.mysql_numbers`)."""

from decimal import Decimal

from dataflow.functions.mysql_numbers import divided
from dataflow.ops.aggregate_sums import IntegerSum, NumericSum
from dataflow.types import Value


class CutIntegerAverage(IntegerSum):
    """AVG of integers, with `scale` digits behind the point."""

    __slots__ = ("_scale",)

    def __init__(self, scale: int) -> None:
        super().__init__()
        self._scale = scale

    def result(self) -> Value:
        return divided(Decimal(self.sum), Decimal(self.count), self._scale) if self.count else None


class CutNumericAverage(NumericSum):
    """AVG of DECIMALs, with `scale` digits behind the point."""

    __slots__ = ("_scale",)

    def __init__(self, scale: int) -> None:
        super().__init__()
        self._scale = scale

    def result(self) -> Value:
        count = self.count()
        return divided(self.total(), Decimal(count), self._scale) if count else None
