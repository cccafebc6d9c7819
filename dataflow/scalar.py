"""Scalar expressions of plans: frozen trees over the columns of one row. Evaluated by `evaluate`, printed as SQL by
`plan.render`.
"""

from dataclasses import dataclass

from dataflow.cached_hash import CachedHash, cached_hash
from dataflow.schema import SqlType
from dataflow.types import Value


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """The value of one column of the input row."""

    index: int
    type: SqlType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant, in the upstream's text form; ``None`` is NULL."""

    value: Value
    type: SqlType


@cached_hash
@dataclass(frozen=True, slots=True)
class Call(CachedHash):
    """A pure function or operator of the list in `evaluate`, by its canonical name (``=``, ``and``, ``coalesce``)."""

    function: str
    arguments: tuple["Scalar", ...]
    type: SqlType


Scalar = ColumnRef | Literal | Call
