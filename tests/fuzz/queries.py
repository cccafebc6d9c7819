"""Random SELECTs: joins, derived tables, grouping, windows, set operations, subqueries, parameters.

*Invariants*: an answer's rows are determined but for which of equal values is shown (`Dialect.picked`): what needs an
order has a total one.
"""

import re
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.dialect import BOOL, INT, JOINS, SAME, TEXT, Dialect
from tests.fuzz.expressions import Expressions, Named

#: The most usual ones several times.
_SET_OPERATIONS = ("UNION ALL", "UNION ALL", "UNION", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
#: Conditions with a free parameter, of values without and with an order.
_EQUAL = (
    "({column} = :free OR {other})",
    "(:free IS NULL OR {column} = :free)",
    "{column} <> :free",
    "NOT ({column} = :free AND {other})",
    "CASE WHEN {column} = :free THEN {other} ELSE NOT ({other}) END",
)
_ORDERED = ("{column} > :free AND {column} IS NOT NULL", "({column} < :free) = ({other})", "NOT ({column} >= :free)")
FREE = (_EQUAL, (*_EQUAL, *_ORDERED))
#: Parameters with their types, which are kinds.
_TYPED = re.compile(r":(\w+)::(\w+)")
#: Conditions with a list that is one value.
_LISTS = ("{column} NOT IN (:free)", "({column} IN (:free) OR {other})", "NOT ({column} IN (:free) AND {other})")


@dataclass(slots=True)
class Query:
    """A view's SQL, the kinds of its columns and of its parameters, and which of those are lists."""

    sql: str
    kinds: list[str] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    lists: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _From:
    sql: str
    scope: list[Named]


class QueryGenerator:
    """Draws queries from one random generator."""

    def __init__(self, rng: Random, dialect: Dialect) -> None:
        self._rng = rng
        self._dialect = dialect
        self._expressions = Expressions(rng, dialect, self._subquery)
        self._aliases = 0

    def view(self) -> Query:
        """A whole view: a SELECT with parameters, in a total order, perhaps cut."""
        rng = self._rng
        self._aliases = 0
        query = Query("")
        if rng.random() < 0.12:
            sql, kinds = self._set_operation(2)
        else:
            sql, kinds = self._select(3, query)
        if rng.random() < 0.5:
            terms = [rng.choice(self._dialect.terms).format(n=n) for n in _shuffled(rng, len(kinds))]
            sql += f" ORDER BY {', '.join(terms)}"
            kinds = self._dialect.any_of_equal(kinds)
            if rng.random() < 0.5:
                sql += f" LIMIT {rng.choice((1, 2, 3, 5))}"
                if rng.random() < 0.3:
                    sql += f" OFFSET {rng.choice((1, 2))}"
        query.sql, query.kinds = sql, kinds
        return query

    def _alias(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"

    # FROM

    def _from(self, depth: int) -> _From:
        rng = self._rng
        first, table = self._item(depth)
        joined = first
        tables = [(table, first.scope)]
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            item, table = self._item(depth - 1)
            kind = rng.choice(("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "CROSS JOIN"))
            scope = [*joined.scope, *item.scope]
            on = ""
            if kind != "CROSS JOIN":
                conditions = [self._join_condition(tables, (table, item.scope))]
                if rng.random() < 0.25:
                    conditions.append(self._expressions.predicate(scope, 0))
                if kind != "CROSS JOIN" and rng.random() < 0.15:
                    conditions.append(self._compared(scope))
                on = f" ON {' AND '.join(conditions)}"
            joined = _From(f"{joined.sql} {kind} {item.sql}{on}", scope)
            tables.append((table, item.scope))
        return joined

    def _item(self, depth: int) -> tuple[_From, str]:
        rng = self._rng
        alias = self._alias()
        if depth > 1 and rng.random() < 0.2:
            sql, kinds = self._select(depth - 1, None) if rng.random() < 0.8 else self._set_operation(depth - 1)
            if rng.random() < 0.25:
                sql += f" ORDER BY {', '.join(str(i + 1) for i in range(len(kinds)))} LIMIT {rng.choice((1, 2, 4))}"
                kinds = self._dialect.any_of_equal(kinds)
            return _From(f"({sql}) {alias}", [Named(f"{alias}.c{i}", k) for i, k in enumerate(kinds, 1)]), ""
        if depth > 0 and rng.random() < 0.04:
            return self._constants(alias), ""
        table = rng.choice(list(self._dialect.tables))
        return _From(f"{table} {alias}", self._columns_of(table, alias)), table

    def _constants(self, alias: str) -> _From:
        """Some rows that no table has."""
        rows = [f"SELECT {n} AS c1, {-n} AS c2" for n in self._rng.sample(range(1, 6), self._rng.randint(1, 3))]
        return _From(f"({' UNION ALL '.join(rows)}) {alias}", [Named(f"{alias}.c{i}", INT) for i in (1, 2)])

    def _beside_series(self, source: _From, query: Query) -> _From:
        """Joins rows that only parameters decide."""
        rng, alias = self._rng, self._alias()
        form, kind = rng.choice(self._dialect.series)
        query.parameters |= dict(_TYPED.findall(form))
        own = Named(f"{alias}.c1", kind)
        pairs = [f"{column} = {own.name}" for column in self._of(source.scope, kind)]
        item, on = form.format(alias=alias), rng.choice(pairs) if pairs else f"{own.name} IS NOT NULL"
        join = rng.choice(("JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN"))
        if rng.random() < 0.5 or " JOIN " in source.sql:
            return _From(f"{source.sql} {join} {item} ON {on}", [*source.scope, own])
        return _From(f"{item} {join} {source.sql} ON {on}", [own, *source.scope])

    def _columns_of(self, table: str, alias: str) -> list[Named]:
        return [Named(f"{alias}.{column}", kind) for column, kind in self._dialect.tables[table].items()]

    def _of(self, scope: list[Named], kind: str) -> list[str]:
        return self._expressions.columns(scope, kind)

    def _join_condition(self, left: list[tuple[str, list[Named]]], right: tuple[str, list[Named]]) -> str:
        rng = self._rng
        right_table, right_scope = right
        options = []
        for table, scope in left:
            for a, b in (*JOINS, *((b, a) for a, b in JOINS)):
                if a.split(".")[0] == table and b.split(".")[0] == right_table:
                    options.append((_named(scope, a), _named(right_scope, b)))
        if options and rng.random() < 0.85:
            a, b = rng.choice(options)
            return f"{a} = {b}"
        _, scope = rng.choice(left)
        kind = next((k for k in self._dialect.joined if self._of(scope, k) and self._of(right_scope, k)), None)
        if kind is None:
            return self._expressions.predicate([*scope, *right_scope], 0)
        if rng.random() < 0.4:
            return " = ".join(self._expressions.scalar(kind, part, 1) for part in (scope, right_scope))
        operator = "=" if rng.random() < 0.8 else rng.choice(("<", ">=", "<>"))
        return f"{rng.choice(self._of(scope, kind))} {operator} {rng.choice(self._of(right_scope, kind))}"

    # SELECT

    def _select(self, depth: int, query: Query | None) -> tuple[str, list[str]]:
        """A SELECT whose columns are c1, c2 …, and their kinds."""
        rng = self._rng
        source = self._from(depth)
        if query is not None and self._dialect.series and rng.random() < 0.08:
            source = self._beside_series(source, query)
        conditions = [self._expressions.predicate(source.scope, depth - 1) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
        if query is not None:
            conditions += self._parameters(source.scope, query)
            conditions += self._free_parameters(source.scope, query, depth - 1)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        form = rng.random()
        if form < 0.25:
            return self._grouped(source, where, query)
        if form < 0.33:
            return self._aggregated(source, where)
        if form < 0.33 + self._dialect.windowed and any(column.kind != BOOL for column in source.scope):
            return self._windowed(source, where)
        kinds = [rng.choice(self._dialect.kinds) for _ in range(rng.randint(1, 3))]
        shown = [self._expressions.scalar(k, source.scope, rng.choice((0, 0, 1, 2))) for k in kinds]
        if depth > 1 and rng.random() < 0.15:
            kinds.append(INT)
            shown.append(self._subquery(source.scope, INT))
        # MariaDB passes over the OFFSET of constants that are made DISTINCT.
        if rng.random() < 0.2 and any(column.name in text for text in shown for column in source.scope):
            return f"SELECT DISTINCT {_columns(shown)} FROM {source.sql}{where}", self._dialect.any_of_equal(kinds)
        return f"SELECT {_columns(shown)} FROM {source.sql}{where}", kinds

    def _parameters(self, scope: list[Named], query: Query) -> list[str]:
        rng = self._rng
        conditions = []
        choice = rng.random()
        kinds = [k for k in self._dialect.parameters if self._of(scope, k)]
        if not kinds or choice < 0.2:
            return []
        for number in range(1 if choice < 0.85 else 2):
            kind = rng.choice(kinds)
            column, name = rng.choice(self._of(scope, kind)), f"p{number}"
            query.parameters[name] = kind
            if choice < 0.24:
                query.parameters[f"{name}_other"] = kind
                constant = ", 1" if kind == INT and rng.random() < 0.5 else ""
                conditions.append(f"{column} IN (:{name}, :{name}_other{constant})")
            elif choice < 0.32:
                query.lists.add(name)
                conditions.append(f"{column} IN (:{name})")
            elif choice < 0.42 and kind in self._dialect.ranged:
                conditions.append(f"{column} {rng.choice(('<', '<=', '>', '>='))} :{name}")
            else:
                conditions.append(f"{column} = :{name}")
        return conditions

    def _free_parameters(self, scope: list[Named], query: Query, depth: int) -> list[str]:
        """A condition in which a parameter is no key, list or range of a column, or none of the only one."""
        rng = self._rng
        kinds = [kind for kind in self._dialect.parameters if self._of(scope, kind)]
        if not kinds or rng.random() < 0.75:
            return []
        query.parameters["free"] = kind = rng.choice(kinds)
        is_list = rng.random() < 0.25
        forms = (*FREE[kind in self._dialect.ranged], *self._dialect.exact.get(kind, ()))
        form = rng.choice(_LISTS if is_list else forms)
        query.lists |= {"free"} if is_list else set()
        column, other = rng.choice(self._of(scope, kind)), self._expressions.predicate(scope, depth)
        return [form.format(column=column, other=other)]

    def _aggregate(self, scope: list[Named]) -> tuple[str, str]:
        rng, dialect = self._rng, self._dialect
        call, kind = rng.choice(dialect.aggregates)
        kind = rng.choice(dialect.extremes) if kind == SAME else kind
        return self._expressions.filled(call + rng.choice(dialect.filters), kind, scope, 1), kind

    def _grouped(self, source: _From, where: str, query: Query | None) -> tuple[str, list[str]]:
        rng = self._rng
        keys = rng.sample(source.scope, min(len(source.scope), rng.choice((1, 1, 2))))
        calls = [self._aggregate(source.scope) for _ in range(rng.randint(1, 2))]
        having = ""
        if rng.random() < 0.3:
            having = f" HAVING count(*) {rng.choice(('>', '<=', '='))} {rng.choice((1, 2))}"
            if query is not None and not query.parameters and rng.random() < 0.3:
                query.parameters["least"] = INT
                having = " HAVING count(*) >= :least"
        names = [key.name for key in keys]
        by = rng.choice(self._dialect.groupings).format(keys=", ".join(names), first=names[0])
        sql = f"SELECT {_columns([*names, *(c for c, _ in calls)])} FROM {source.sql}{where} GROUP BY {by}"
        return sql + having, self._dialect.any_of_equal([*(key.kind for key in keys), *(k for _, k in calls)])

    def _aggregated(self, source: _From, where: str) -> tuple[str, list[str]]:
        calls = [self._aggregate(source.scope) for _ in range(self._rng.randint(1, 3))]
        kinds = self._dialect.any_of_equal([k for _, k in calls])
        return f"SELECT {_columns([c for c, _ in calls])} FROM {source.sql}{where}", kinds

    def _windowed(self, source: _From, where: str) -> tuple[str, list[str]]:
        rng = self._rng
        scope = [column for column in source.scope if column.kind != BOOL]
        shown = rng.sample(scope, min(len(scope), 2))
        partition = f"PARTITION BY {rng.choice(scope).name} " if rng.random() < 0.8 else ""
        total = ", ".join(column.name for column in source.scope)
        by_all = f"OVER ({partition}ORDER BY {total})"
        some = f"OVER ({partition}ORDER BY {rng.choice(scope).name}{rng.choice(('', ' DESC'))})"
        numbers = self._of(scope, INT) or ["1"]
        form, kind = rng.choice(self._dialect.windows)
        call = form.format(by_all=by_all, some=some, partition=partition, total=total, n=rng.choice(numbers))
        sql = f"SELECT {_columns([*(c.name for c in shown), call])} FROM {source.sql}{where}"
        return sql, self._dialect.any_of_equal([*(c.kind for c in shown), kind])

    def _set_operation(self, depth: int) -> tuple[str, list[str]]:
        rng = self._rng
        kinds = [rng.choice(self._dialect.united) for _ in range(rng.randint(1, 2))]
        branches = [self._branch(kinds, depth - 1) for _ in range(rng.choice((2, 2, 3)))]
        sql = branches[0]
        for branch in branches[1:]:
            sql += f" {rng.choice(_SET_OPERATIONS)} {branch}"
        return sql, self._dialect.any_of_equal(kinds)

    def _branch(self, kinds: list[str], depth: int) -> str:
        source = self._from(depth)
        shown = [self._expressions.scalar(kind, source.scope, 1) for kind in kinds]
        where = f" WHERE {self._expressions.predicate(source.scope, 1)}" if self._rng.random() < 0.5 else ""
        return f"SELECT {_columns(shown)} FROM {source.sql}{where}"

    # Subqueries in expressions

    def _subquery(self, outer: list[Named], kind: str) -> str:
        """EXISTS, IN and the like (`kind` bool), or a scalar subquery."""
        rng = self._rng
        alias, table = self._alias(), rng.choice(list(self._dialect.tables))
        inner = self._columns_of(table, alias)
        matching = [(a, b) for k in (INT, TEXT) for a in self._of(outer, k) for b in self._of(inner, k)]
        numbers = self._of(inner, INT) or ["1"]
        correlated = f"{' = '.join(rng.choice(matching))}" if matching else "true"
        extra = f" AND {self._plain(inner)}" if rng.random() < 0.4 else ""
        if kind == INT:
            call = rng.choice(("count(*)", f"max({rng.choice(numbers)})", f"sum({rng.choice(numbers)})"))
            condition = f"{correlated}{extra}" if rng.random() < 0.8 else f"true{extra}"
            if self._dialect.lists and rng.random() < 0.3:
                query = f"SELECT {rng.choice(numbers)} FROM {table} {alias} WHERE {condition} ORDER BY 1"
                return rng.choice(self._dialect.lists).format(query=query)
            return f"(SELECT {call} FROM {table} {alias} WHERE {condition})"
        if rng.random() < 0.5 or not matching:
            word = rng.choice(("EXISTS", "NOT EXISTS"))
            return f"{word} (SELECT 1 FROM {table} {alias} WHERE {correlated}{extra})"
        a, b = rng.choice(matching)
        condition = f" WHERE {self._plain(inner)}" if rng.random() < 0.6 else ""
        return f"{a} {rng.choice(('IN', 'NOT IN'))} (SELECT {b} FROM {table} {alias}{condition})"

    def _compared(self, scope: list[Named]) -> str:
        """A condition with a subquery, in ON."""
        numbers = self._of(scope, INT)
        if not numbers or self._rng.random() < 0.5:
            return self._subquery(scope, BOOL)
        return f"{self._rng.choice(numbers)} {self._rng.choice(('=', '>='))} {self._subquery(scope, INT)}"

    def _plain(self, scope: list[Named]) -> str:
        """A condition without another subquery."""
        return self._expressions.predicate(scope, 0)


def _columns(shown: list[str]) -> str:
    return ", ".join(f"{expression} AS c{i}" for i, expression in enumerate(shown, 1))


def _named(scope: list[Named], column: str) -> str:
    name = column.split(".")[1]
    return next(c.name for c in scope if c.name.split(".")[1] == name)


def _shuffled(rng: Random, number: int) -> list[int]:
    return rng.sample(range(1, number + 1), number)
