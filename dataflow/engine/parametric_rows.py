"""Rows of a parametric chain: those of its table, once for each active tuple of the parameters' values.

Active for a row of the table are the tuples of those keys, covered or looked up, that have its values in the table's
own columns: an equality is a hash lookup, and what is left is a filter over the tuples.

Not here: chains without parameters, whose rows are the same for every node (`ops.chain`).
"""

from collections.abc import Iterable, Iterator, Sequence

from dataflow.ops.chain import ChainFunction
from dataflow.plan.nodes import passed_through
from dataflow.plan.parametric import parameter_columns
from dataflow.state.coverage import Coverage
from dataflow.state.materialization import consolidate
from dataflow.types import Columns, Delta, Key, Row
from dataflow.types.rules import TextForm

#: Columns of a chain, and keys on them.
Keys = tuple[Columns, Coverage]


class ParametricRows:
    """A parametric chain's rows, under keys that each have all of its parameters."""

    def __init__(self, function: ChainFunction) -> None:
        assert function.chain.parameters is not None
        self._function = function
        self._first = function.chain.parameters.first
        self._parameters = parameter_columns(function.chain)
        self._plain = passed_through(function.chain)

    def delta(self, removed: Sequence[Row], added: Sequence[Row], keys: Iterable[Keys]) -> Delta:
        """The chain's change, under `keys`, of a change of the table."""
        active = [self._active(*each) for each in keys]
        return consolidate((self._rows(removed, active), self._rows(added, active)))

    def _rows(self, rows: Sequence[Row], active: Sequence["_ActiveTuples"]) -> list[Row]:
        widened: list[Row] = []
        for row in rows:
            tuples = dict.fromkeys(values for each in active for values in each.of(row))
            # A column that was added since the view was planned is behind those that it knows.
            own = row[: self._first]
            widened += [(*own, *values) for values in tuples]
        return self._function.rows(widened)

    def normal(self, rows: list[Row], group: Columns | None) -> list[Row]:
        """Rows of a lookup (of an aggregate by `group`: state rows) with the normal forms of parameters, which keys and
        changes have, in the place of the texts that the upstream gave them."""
        types = self._function.chain.columns
        places = {c: i for i, c in enumerate(range(len(types)) if group is None else group)}
        forms = [(places[c], form) for c in self._parameters if (form := types[c].type.normal_form) is not None]
        return [_with_forms(row, forms) for row in rows] if forms else rows

    def surplus(self, rows: Iterable[Row], keys: Keys, most: int) -> dict[Key, None]:
        """The keys beyond `most` that have the values of one row of the table: those that were covered first."""
        active = self._active(*keys)
        found: dict[Key, None] = {}
        for row in rows:
            agreeing = active.keys(row)
            found.update(dict.fromkeys(agreeing[: max(0, len(agreeing) - most)]))
        return found

    def _active(self, columns: Columns, coverage: Coverage) -> "_ActiveTuples":
        values = tuple([columns.index(column) for column in self._parameters])
        positions = tuple([p for p in range(len(columns)) if p not in values])
        types = self._function.chain.columns
        own = [(self._plain[columns[p]], types[columns[p]].type.normal_form) for p in positions]
        return _ActiveTuples(coverage, values, positions, own)


def _with_forms(row: Row, forms: Sequence[tuple[int, TextForm]]) -> Row:
    values = list(row)
    for place, form in forms:
        if (value := values[place]) is not None:
            values[place] = form(value)
    return tuple(values)


class _ActiveTuples:
    """The values of parameters in the keys of a coverage, which they have at the positions `values`."""

    def __init__(
        self,
        coverage: Coverage,
        values: tuple[int, ...],
        positions: tuple[int, ...],
        own: list[tuple[int, TextForm | None]],
    ) -> None:
        self._coverage = coverage
        self._values = values
        #: Where keys have columns of the table, and which those are.
        self._positions = positions
        self._own = own

    def keys(self, row: Row) -> list[Key]:
        """The keys that have a row's values in the table's own columns."""
        part = [v if (v := row[base]) is None or form is None else form(v) for base, form in self._own]
        return self._coverage.agreeing(self._positions, tuple(part))

    def of(self, row: Row) -> Iterator[Key]:
        """The tuples that are active for a row of the table."""
        for key in self.keys(row):
            yield tuple([key[p] for p in self._values])
