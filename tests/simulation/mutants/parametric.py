"""Engines that take the wrong tuples of parameters for active; see `table`."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from dataflow.engine import parametric_rows
from dataflow.engine.flights import LookupQuery
from dataflow.engine.parametric_rows import ParametricRows
from dataflow.types import Key, Row


def tuples_of_one_cover() -> AbstractContextManager[Any]:
    """A change is compared with the tuples of keys that are covered in one of several ways."""
    delta = ParametricRows.delta
    return patch.object(ParametricRows, "delta", lambda self, gone, come, keys: delta(self, gone, come, keys[:1]))


def tuples_that_are_covered_only() -> AbstractContextManager[Any]:
    """Changes that a lookup does not see are compared with nothing that it looks up."""
    return patch.object(LookupQuery, "source_keys", lambda _: [])


def null_is_no_value() -> AbstractContextManager[Any]:
    """A tuple with NULL in it is not active."""
    original = parametric_rows._ActiveTuples.of

    def without_nulls(self: Any, row: Row) -> Iterator[Key]:
        return (values for values in original(self, row) if None not in values)

    return patch.object(parametric_rows._ActiveTuples, "of", without_nulls)


def texts_of_the_upstream() -> AbstractContextManager[Any]:
    """Rows of lookups keep the texts that the upstream gives parameters."""
    return patch.object(ParametricRows, "normal", lambda _self, rows, _group: rows)
