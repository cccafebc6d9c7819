"""A thing to compare: an expression of the server's over some columns, and what is computed here for the same row."""

from collections.abc import Callable
from dataclasses import dataclass

from dataflow.types import Row, Value


@dataclass(frozen=True, slots=True)
class Subject:
    """An expression over columns ``c0``, ``c1`` … Subjects of one name share its number of values and its line."""

    name: str
    types: tuple[str, ...]
    sql: str
    compute: Callable[[Row], Value]
