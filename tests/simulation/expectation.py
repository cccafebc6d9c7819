"""Expected rows of each covered key, from the oracle, cached until a table below it changes."""

from collections import Counter
from collections.abc import Callable, Iterable

from dataflow.engine.engine import Engine
from dataflow.plan.nodes import Aggregate, Relation, column_types
from dataflow.plan.parts import Interval
from dataflow.state.intervals import Cover, OrderedCover
from dataflow.types import Columns, Key, Row
from tests.simulation.oracle import compiled, default_row, loose_columns
from tests.simulation.oracle_values import normal_of, normals_of
from tests.simulation.ordered import RowOrder, within
from tests.simulation.questions import materializations
from tests.simulation.report import DivergenceError, brief_relation, describe

Bag = Counter[Row]
_EMPTY: Bag = Counter()


class BaseTables:
    """The tables at one position of the stream, with a version each that changes when they do."""

    def __init__(self, rows: dict[str, list[Row]]) -> None:
        self.rows = dict(rows)
        self.versions = dict.fromkeys(rows, 0)

    def apply(self, changes: dict[str, tuple[list[Row], list[Row]]]) -> None:
        """Bring the tables forward by a transaction's changes."""
        for table, (removed, added) in changes.items():
            rows = list(self.rows[table])
            for row in removed:
                rows.remove(row)
            self.rows[table] = rows + added
            self.versions[table] += 1


class Evaluation:
    """All rows of a relation, as of the versions of its tables."""

    __slots__ = ("compiled", "relation", "rows", "tables", "versions")

    def __init__(self, relation: Relation) -> None:
        self.relation = relation
        self.compiled = compiled(relation)
        self.tables = tuple(sorted(self.compiled.tables))
        self.versions: tuple[int, ...] | None = None
        self.rows: list[Row] = []

    def refresh(self, base: BaseTables) -> tuple[int, ...]:
        """Evaluate again if a table changed; returns the versions."""
        versions = tuple([base.versions[t] for t in self.tables])
        if versions != self.versions:
            self.rows = self.compiled.evaluate(base.rows.__getitem__)
            self.versions = versions
        return versions


class KeyedRows:
    """The rows of a relation by the key of some columns, comparable where SQL leaves the text open."""

    def __init__(self, evaluation: Evaluation, columns: Columns) -> None:
        self.evaluation = evaluation
        self.columns = columns
        relation = evaluation.relation
        self.key_of = key_function(relation, columns)
        types = column_types(relation)
        self.loose = tuple((c, normal_of(types[c])) for c in sorted(loose_columns(relation)))
        self.versions: tuple[int, ...] | None = None
        self.by_key: dict[Key, Bag] = {}

    def refresh(self, base: BaseTables) -> None:
        """Follow the tables."""
        versions = self.evaluation.refresh(base)
        if versions != self.versions:
            self.versions = versions
            self.by_key = self.grouped(self.evaluation.rows)

    def grouped(self, rows: Iterable[Row]) -> dict[Key, Bag]:
        """Rows by key."""
        by_key: dict[Key, Bag] = {}
        for row in rows:
            key = self.key_of(row)
            bag = by_key.get(key)
            if bag is None:
                bag = by_key[key] = Counter()
            bag[self.comparable(row)] += 1
        return by_key

    def comparable(self, row: Row) -> Row:
        """The row with normal forms where its text is the upstream's free choice."""
        if not self.loose:
            return row
        values = list(row)
        for column, normal in self.loose:
            values[column] = normal(values[column])
        return tuple(values)

    def expected(self, key: Key) -> Bag:
        """Expected rows of the key."""
        bag = self.by_key.get(key)
        if bag is None:
            row = default_row(self.evaluation.relation, self.columns, key)
            return Counter() if row is None else Counter((self.comparable(row),))
        return bag


class GroupTexts:
    """Which texts an aggregate's group columns may show: those of one of the group's rows."""

    def __init__(self, aggregate: Aggregate, evaluation: Evaluation) -> None:
        self.group = aggregate.group
        self.evaluation = evaluation
        self.key_of_output = key_function(aggregate, tuple(range(len(aggregate.group))))
        self.versions: tuple[int, ...] | None = None
        self.legal: dict[Key, set[Row]] = {}

    def wrong(self, rows: Iterable[Row], base: BaseTables) -> list[Row]:
        """Those rows of the aggregate whose texts none of their group's rows has; an empty group may show any."""
        versions = self.evaluation.refresh(base)
        if versions != self.versions:
            self.versions, self.legal = versions, {}
            for row in self.evaluation.rows:
                texts = tuple([row[c] for c in self.group])
                self.legal.setdefault(self.key_of_output(texts), set()).add(texts)
        shown = [(row, self.legal.get(self.key_of_output(row))) for row in rows]
        return [row for row, legal in shown if legal is not None and row[: len(self.group)] not in legal]


def key_function(relation: Relation, columns: Columns) -> Callable[[Row], Key]:
    """The key of a row."""
    pairs = list(zip(columns, normals_of(relation, columns), strict=True))
    return lambda row: tuple([n(row[c]) for c, n in pairs])


class Expectations:
    """One evaluation per relation and one grouping per key columns, shared by all who ask."""

    def __init__(self, base: BaseTables) -> None:
        self.base = base
        self._evaluations: dict[Relation, Evaluation] = {}
        #: By identity first, since hashing a plan walks all of it; the relation is kept alive beside.
        self._by_identity: dict[tuple[int, Columns], tuple[Relation, KeyedRows]] = {}
        self._group_texts: dict[int, tuple[Aggregate, GroupTexts | None]] = {}
        self._keyed: dict[tuple[Relation, Columns], KeyedRows] = {}

    def group_texts(self, aggregate: Aggregate) -> GroupTexts | None:
        """Return the texts that its groups may show; None if each group has one text."""
        found = self._group_texts.get(id(aggregate))
        if found is None:
            loose = any(c < len(aggregate.group) for c in loose_columns(aggregate))
            evaluation = self._evaluations.setdefault(aggregate.input, Evaluation(aggregate.input))
            found = (aggregate, GroupTexts(aggregate, evaluation) if loose else None)
            self._group_texts[id(aggregate)] = found
        return found[1]

    def of(self, relation: Relation, columns: Columns) -> KeyedRows:
        """The relation by key, up to date."""
        found = self._by_identity.get((id(relation), columns))
        if found is None:
            keyed = self._keyed.get((relation, columns))
            if keyed is None:
                evaluation = self._evaluations.setdefault(relation, Evaluation(relation))
                keyed = self._keyed[relation, columns] = KeyedRows(evaluation, columns)
            found = self._by_identity[id(relation), columns] = (relation, keyed)
        found[1].refresh(self.base)
        return found[1]


def compare_materializations(engine: Engine, expectations: Expectations, base: BaseTables) -> None:
    """Every covered key of every materialization holds exactly the rows of the oracle."""
    for relation, coverage, rows in materializations(engine):
        texts = expectations.group_texts(relation) if isinstance(relation, Aggregate) else None
        if texts is not None and (wrong := texts.wrong(rows, base)):
            raise DivergenceError(f"{brief_relation(relation)} shows groups by texts they do not have: {wrong}")
        for cover, keys in coverage.items():
            if keys:
                columns = cover.columns if isinstance(cover, OrderedCover) else cover
                _compare_covered(relation, cover, expectations.of(relation, columns), keys, rows)


def _compare_covered(
    relation: Relation, cover: Cover, keyed: KeyedRows, keys: dict[Key, tuple[Interval, ...]], rows: list[Row]
) -> None:
    """Every covered key of one coverage holds exactly the rows of the oracle, as far as it is covered."""
    known = keyed.grouped(rows)
    for key, covered in keys.items():
        found, expected = known.get(key, _EMPTY), keyed.expected(key)
        if isinstance(cover, OrderedCover):
            order = RowOrder(cover.order, column_types(relation))
            found, expected = within(found, covered, order), within(expected, covered, order)
        if found != expected:
            raise DivergenceError(
                f"known rows of {brief_relation(relation)} by {cover} under {key}: "
                f"{describe(found)} should be {describe(expected)}"
            )
