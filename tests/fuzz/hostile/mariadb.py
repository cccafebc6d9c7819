"""Hostile values of MariaDB's types through all that is computed of its SQL: expressions, aggregates, keys and orders.

Expressions are planned over the rows of one table, evaluated here, and asked of the server. Where the server has an
error for some row, the rows are asked for in halves until that row is found.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.evaluate import compile_scalar
from dataflow.plan.nodes import Chain, column_types
from dataflow.scalar import Call, Scalar
from dataflow.schema import Catalog, SqlType
from dataflow.sql import plan_view
from dataflow.state.index import key_function
from dataflow.types import Row, Value
from dataflow.types.floats import float4
from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.catalog import load_catalog
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.row_decoder import answer_rows, lookup_rows
from tests.dataflow.functions.server import Failed
from tests.fixtures.mariadb import MariaDbServer
from tests.fuzz.hostile.comparison import Table, digest
from tests.fuzz.hostile.texts import document, length, short_text, text

DATABASE = "hostile"
#: Columns by name; each is there twice, the second one's name with an x behind.
COLUMNS = {
    "i": "int",
    "l": "bigint",
    "u": "bigint unsigned",
    "y": "tinyint unsigned",
    "n": "decimal(20,4)",
    "m": "decimal(65,30)",
    "f": "float",
    "r": "double",
    "t": "longtext COLLATE utf8mb4_general_ci",
    "v": "varchar(60) COLLATE utf8mb4_unicode_ci",
    "w": "varchar(60) COLLATE utf8mb4_unicode_nopad_ci",
    "b": "varchar(60) COLLATE utf8mb4_bin",
    "c": "char(30)",
    "k": "varbinary(60)",
    "d": "date",
    "z": "datetime(6)",
    "s": "timestamp(3) NULL",
    "o": "time(6)",
    "g": "year",
    "q": "bit(33)",
    "e": "enum('b','a','\u00e9')",
    "a": "set('x','y','z')",
    "j": "json",
}
_INTEGERS = (0, 1, -1, 2, 127, 128, 255, 256, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**64 - 1, 2**64, -7, 1000)
_MOMENTS = (
    "0000-00-00 00:00:00",
    "2024-00-00 00:00:00",
    "1000-01-01 00:00:00.000001",
    "9999-12-31 23:59:59.999999",
    "1970-01-01 00:00:01",
    "2038-01-19 03:14:07.999",
    "2024-02-29 12:00:00.5",
    "0001-01-01 00:00:00",
    "2023-02-30 00:00:00",
)
_TIMES = ("-838:59:59.999999", "838:59:59", "00:00:00", "-00:00:00.000001", "23:59:59.999999", "-12:00:00", "100:00:00")
_PATHS = (
    *("$", "$.a", "$.b", "$.a.b", "$.a.a", "$[0]", "$[1]", "$[0].a", "$[1].b", "$.a[0]", "$.a[1]", "$.a[0].b"),
    *("$[0][0]", "$[0][0].a", "$.b[0].a[0]", '$."a b"', '$."\u00e9"', '$.""', "$.1", "$.aa.key", "$[2][1]"),
)
_WANTED = (
    *("1", "1.0", "-0", "1e400", "[1]", "[]", "{}", "null", "true", '"a"', '""', "[[]]", "[{}]", '{"a":1}', '{"a":[]}'),
    *('[1,"a",null]', '{"a":{}}', '{"a":null,"b":null}', '{"a":1,"a":2}', '{"\\\\u0061":null}', '"\\\\u0041"', "0.1"),
)
_PER_GROUP = 3
_RANGE = "BETWEEN {first} AND {last}"
_HALF = 2


@dataclass(frozen=True, slots=True)
class _Question:
    """`sql` gives rows of a number and its answer, for a range of numbers; `compute` gives ours for a number's row."""

    name: str
    sql: str
    compute: Callable[[Row], Value]
    row_of: Callable[[int], Row]
    #: What both answers are compared by.
    form: Callable[[str], str]


class MariaDbRun:
    """One run over a table of so many rows."""

    def __init__(self, server: MariaDbServer, seed: int, rows: int, long: bool) -> None:
        self._server = server
        self._rng = Random(seed)
        self._count = rows
        self._long = 1_000_000 if long else 2000
        self.table = Table()
        self._names = [n + twin for n in COLUMNS for twin in ("", "x")]

    def run(self, wanted: Callable[[str], bool], progress: Callable[[str], None]) -> None:
        """Compares all that is computed."""
        self._make()
        with asyncio.Runner() as runner:
            pool = MySqlPool(Address.parse(self._server.url(DATABASE)), 1)
            lent = pool.connection()
            self._runner, self._wire = runner, runner.run(lent.__aenter__())
            self._catalog: Catalog = runner.run(load_catalog(self._wire, "mariadb"))
            self._rows = {int(row[0] or 0): row for row in self._read()}
            for question in self._questions(wanted):
                self._compare(question)
                line = self.table.lines.get(question.name)
                if line is not None:
                    progress(f"{question.name}: {line.different} different, {line.worst_ms:.0f} ms")
                    for example in line.examples:
                        progress(f"  {example}")
            self._keys(wanted)
            runner.run(lent.__aexit__(None, None, None))
            runner.run(pool.close())

    def _ask(self, sql: str) -> list[Row]:
        return answer_rows(self._runner.run(self._wire.query(sql)))

    def _read(self) -> list[Row]:
        """The table's rows as lookups have them: floats as doubles."""
        columns = self._catalog.tables[f"{DATABASE}.h"].columns
        shown = ", ".join(f"{c.name} + 0e0" if c.type.name == "float4" else c.name for c in columns)
        reply = self._runner.run(self._wire.query(f"SELECT {shown} FROM h ORDER BY id"))
        return lookup_rows(reply, [c.type for c in columns])

    # --- the table ----------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        columns = ", ".join(f"{name} {COLUMNS[name[0]]}" for name in self._names)
        with self._server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE OR REPLACE DATABASE {DATABASE} CHARACTER SET utf8mb4")
            cursor.execute(f"USE {DATABASE}")
            cursor.execute("SET sql_mode = '', max_statement_time = 0")
            cursor.execute(f"CREATE TABLE h (id int PRIMARY KEY, p int NOT NULL, {columns})")
            places = ", ".join(["%s"] * (len(self._names) + 2))
            for number in range(self._count):
                values = [self._value(name[0]) for name in self._names]
                cursor.execute(f"INSERT IGNORE INTO h VALUES ({places})", (number, number // _PER_GROUP, *values))

    def _value(self, kind: str) -> str | bytes | int | float | None:
        rng = self._rng
        if rng.random() < 0.05:
            return None
        match kind:
            case "i" | "l" | "u" | "y" | "q" | "g":
                return rng.choice(_INTEGERS) if rng.random() < 0.6 else rng.randrange(-20, 2100)
            case "n" | "m" | "f" | "r":
                return self._number()
            case "d" | "z" | "s":
                return (
                    rng.choice(_MOMENTS)
                    if rng.random() < 0.6
                    else f"2{rng.randrange(1000):03}-0{rng.randrange(1, 10)}-11 10:00"
                )
            case "o":
                return rng.choice(_TIMES)
            case "k":
                return bytes(rng.choices((0, 255, 97, 32, 92), k=rng.randrange(12)))
            case "e":
                return rng.choice(("a", "b", "\u00e9", "", "nothing"))
            case "a":
                return ",".join(rng.sample("xyz", rng.randrange(4)))
            case "j":
                return document(rng) if rng.random() < 0.9 else "{}"
        return self._text(kind)

    def _number(self) -> str | float:
        rng = self._rng
        match rng.randrange(4):
            case 0:
                return f"{rng.choice(('', '-'))}{'9' * rng.randrange(36)}.{'9' * rng.randrange(31)}"
            case 1:
                return rng.choice((0.0, -0.0, 5e-324, 1.7e308, 3.4e38, 1e-45, 0.1, 1e22, 2**53 + 0.0, 1e15))
        return rng.randrange(-1000, 1000) / rng.choice((1, 2, 3, 10, 1000))

    def _text(self, kind: str) -> str:
        rng = self._rng
        if kind == "t" and rng.random() < 0.01:
            return text(rng, length(rng, self._long)) + " " * rng.randrange(3)
        made = (
            short_text(rng)
            if rng.random() < 0.6
            else rng.choice(("a", "A", "\u00e4", "a ", "a\t", "ss", "\u00df", "", " ", "\0a"))
        )
        return made + rng.choice(("", "", " ", "  ", "\0"))

    # --- questions ----------------------------------------------------------------------------------------------------

    def _questions(self, wanted: Callable[[str], bool]) -> Iterator[_Question]:
        for expression in filter(wanted, expressions()):
            yield from self._expression(expression)
        for name in self._names[::2]:
            for aggregate in (
                "SUM({0})",
                "AVG({0})",
                "MIN({0})",
                "MAX({0})",
                "COUNT({0})",
                "COUNT(DISTINCT {0})",
                "SUM(DISTINCT {0})",
                "GROUP_CONCAT({0} ORDER BY {0}, id)",
                "JSON_ARRAYAGG({0} ORDER BY id)",
                # Its order is the server's: one member, since a name that is NULL is left out.
                "JSON_OBJECTAGG(IF(id % 3, NULL, b), {0})",
                "JSON_OBJECTAGG(IF(id % 3, NULL, {0}), ix)",
            ):
                # Floats are added in the order of the server's rows; sums of long decimals are cut in that order.
                sums = name in "frm" and ("SUM" in aggregate or "AVG" in aggregate)
                if wanted(written := aggregate.format(name)) and not sums:
                    yield from self._aggregate(written)

    def functions(self) -> set[str]:
        """Return the functions that the expressions are planned with, after a run."""
        planned = (self._relation(f"SELECT id, {written} AS x FROM h") for written in expressions())
        return {
            name
            for relation, column in filter(None, planned)
            if isinstance(relation, Chain)
            for name in functions_of(relation.columns[column])
        }

    def _relation(self, sql: str) -> tuple[object, int] | None:
        try:
            view = plan_view("v", sql, self._catalog)
        except (InvalidQuery, UnsupportedQuery, ValueError):
            return None
        return view.relation, view.output[-1].column

    def _expression(self, written: str) -> Iterator[_Question]:
        found = self._relation(f"SELECT id, {written} AS x FROM h")
        if found is not None and isinstance(found[0], Chain):
            column = found[0].columns[found[1]]
            compute, form = compile_scalar(column), _form(column.type)
            shown = f"({written}) + 0e0" if column.type.name == "float4" else written
            yield _Question(
                written, f"SELECT id, {shown} FROM h WHERE id {_RANGE}", compute, self._rows.__getitem__, form
            )

    def _aggregate(self, written: str) -> Iterator[_Question]:
        from tests.sql.plan_rows import plan_rows

        found = self._relation(f"SELECT p, {written} AS x FROM h GROUP BY p")
        if found is None:
            return
        relation, column = found
        sql_type = column_types(relation)[column]  # type: ignore[arg-type]
        # Any of equal texts is the least.
        form = sql_type.normal_form if sql_type.weights is not None and written.startswith("M") else _form(sql_type)
        shown = f"({written}) + 0e0" if sql_type.name == "float4" else written
        table = f"{DATABASE}.h"

        def compute(row: Row) -> Value:
            group = int(row[0] or 0)
            members = [self._rows[i] for i in range(group * _PER_GROUP, (group + 1) * _PER_GROUP) if i in self._rows]
            return plan_rows(relation, {table: members})[0][column]  # type: ignore[arg-type]

        sql = f"SELECT p, {shown} FROM h WHERE p {_RANGE} GROUP BY p"
        yield _Question(written, sql, compute, lambda group: (str(group),), form)

    def _keys(self, wanted: Callable[[str], bool]) -> None:
        """Groups and orders of every column."""
        types: Mapping[str, SqlType] = {c.name: c.type for c in self._catalog.tables[f"{DATABASE}.h"].columns}
        for place, name in enumerate(["id", "p", *self._names]):
            if types[name].comparable and wanted(f"GROUP BY {name}"):
                key = key_function((place,), [types[name] for _ in range(place + 1)])
                ours: dict[object, int] = {}
                for number, row in self._rows.items():
                    ours.setdefault(key(row), number)
                theirs = self._ask(f"SELECT MIN(id) FROM h GROUP BY {name}")
                self._same(f"GROUP BY {name}", sorted(ours.values()), sorted(int(r[0] or 0) for r in theirs))
            if types[name].orderable and wanted(f"ORDER BY {name}"):
                form = types[name].order_form
                placed = {n: form(v) if (v := row[place]) is not None else b"" for n, row in self._rows.items()}
                nulls = {n for n, row in self._rows.items() if row[place] is None}
                in_order = sorted(self._rows, key=lambda n: (n not in nulls, placed[n], n))
                theirs = self._ask(f"SELECT id FROM h ORDER BY {name}, id")
                self._same(f"ORDER BY {name}", in_order, [int(r[0] or 0) for r in theirs])

    def _same(self, name: str, ours: list[int], theirs: list[int]) -> None:
        where = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), len(ours))
        ours_text, theirs_text = (str(numbers[where : where + 1]) for numbers in (ours, theirs))
        self.table.compare(name, name, lambda _: ours_text, (), theirs_text, lambda: 0.0)
        self.table.lines[name].values = len(self._rows)

    # --- comparing ----------------------------------------------------------------------------------------------------

    def _compare(self, question: _Question) -> None:
        answers: dict[int, Value | Failed] = {}
        self._collect(question.sql, 0, max(self._rows), answers)
        for number, theirs in answers.items():
            wanted = digest(question.form(theirs)) if isinstance(theirs, str) else theirs

            def compute(row: Row) -> Value:
                ours = question.compute(row)
                return None if ours is None else question.form(ours)

            self.table.compare(
                f"{question.name}",
                f"row {number}",
                compute,
                question.row_of(number),
                wanted,
                lambda number=number: self._milliseconds(question.sql, number),
            )

    def _collect(self, sql: str, first: int, last: int, answers: dict[int, Value | Failed]) -> None:
        try:
            answers.update((int(number or 0), value) for number, value in self._ask(_between(sql, first, last)))
        except Exception as error:
            if first == last:
                answers[first] = Failed(str(error))
                return
            middle = (first + last) // _HALF
            self._collect(sql, first, middle, answers)
            self._collect(sql, middle + 1, last, answers)

    def _milliseconds(self, sql: str, number: int) -> float:
        started = time.monotonic()
        try:
            self._ask(f"SELECT LENGTH(x) FROM (SELECT 0 AS id, 0 AS x UNION ALL ({_between(sql, number, number)})) y")
        except Exception:
            return 0.0
        return (time.monotonic() - started) * 1000


def _between(sql: str, first: int, last: int) -> str:
    return sql.replace(_RANGE, f"BETWEEN {first} AND {last}")


def functions_of(expression: Scalar) -> set[str]:
    """Return the functions in an expression."""
    if not isinstance(expression, Call):
        return set()
    return {expression.function}.union(*map(functions_of, expression.arguments))


def _form(sql_type: SqlType) -> Callable[[str], str]:
    """Return the form in which answers of a type are compared: floats as numbers, conditions as 1 and 0."""
    match sql_type.name:
        case "float4":
            return lambda text: repr(float4(text) or 0.0)
        case "float8":
            return lambda text: repr(float(text) or 0.0)
        case "bool":
            return lambda text: {"t": "1", "f": "0"}.get(text, text)
    return str


def expressions() -> Iterator[str]:
    """Expressions over the table; those that are not computed here are left out when they are planned."""
    numbers = "ilunmfry"
    unusual = ("%\u65e5%", "%\U0001f600%", "%\u00ad", "%\\\\")
    for a in numbers:
        for b in numbers:
            for operator in ("+", "-", "*", "/", "DIV", "%", "=", "<", "<=>"):
                yield f"{a} {operator} {b}x"
        yield from (
            f"-{a}",
            f"ABS({a})",
            f"{a} / 3",
            f"{a} * 1.5",
            f"{a} IN (0, 1, 255)",
            f"{a} BETWEEN -1 AND {a}x",
            f"NOT {a}",
        )
    for a in COLUMNS:
        for operator in ("=", "<>", "<", "<=", ">", ">=", "<=>"):
            yield f"{a} {operator} {a}x"
        yield from (
            f"COALESCE({a}, {a}x)",
            f"NULLIF({a}, {a}x)",
            f"IF({a} <=> {a}x, {a}, {a}x)",
            f"{a} IS NULL",
            f"ISNULL({a})",
        )
        yield f"CASE WHEN {a} = {a}x THEN {a}x ELSE {a} END"
    for a in "tvwbc":
        yield from (
            f"CONCAT({a}, {a}x)",
            f"CONCAT({a}, '!', {a}x)",
            f"{a} IN ('a', 'ss', '')",
            f"{a} = 'a'",
            f"{a} < 'b'",
        )
        for pattern in ("a%", "%a", "%a%b%", "_", "a__", "%\\\\%%", "", "%", "%_a_%a_%", "\u00df%", "a ", *unusual):
            yield f"{a} LIKE '{pattern}'"
    yield from _functions()
    yield from _documents()
    for a, b in ("dz", "zs", "ds", "gi", "qi", "eb", "ei", "ai"):
        yield from (f"{a} = {b}", f"{a} < {b}", f"{a} <=> {b}")


def _functions() -> Iterator[str]:
    for a in "tvwbc":
        yield from (f"{f}({a})" for f in ("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM", "LENGTH", "CHAR_LENGTH", "HEX"))
        yield from (f"{f}({a}, {n})" for f in ("LEFT", "RIGHT", "SUBSTRING") for n in (-2, 0, 1, "i", "y"))
        yield from (
            f"SUBSTRING({a}, i, ix)",
            f"REPLACE({a}, 'a', {a}x)",
            f"SUBSTRING_INDEX({a}, 'a', -1)",
            f"SUBSTRING_INDEX({a}, {a}x, i)",
            f"CONCAT({a}, i, n)",
            f"CONCAT_WS({a}x, {a}, u, '\u00e9')",
            f"GREATEST({a}, {a}x)",
            f"LEAST({a}, {a}x, 'b')",
        )
    for a in "dzs":
        yield from (f"{f}({a})" for f in ("YEAR", "MONTH", "DAY", "QUARTER", "DATE", "LAST_DAY"))
        yield from (f"{f}({a})" for f in ("HOUR", "MINUTE", "SECOND"))
        yield from (f"{f}({a})" for f in ("DAYOFWEEK", "WEEKDAY", "DAYOFYEAR", "TO_DAYS"))
        yield from (f"{f}({a}, {mode})" for f in ("WEEK", "YEARWEEK") for mode in range(8))
        for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"):
            yield from (f"{a} + INTERVAL {n} {unit}" for n in (1, -40, "i", "y"))
            yield from (f"{a} - INTERVAL y {unit}", f"TIMESTAMPDIFF({unit}, {a}, zx)")
        yield from (f"DATEDIFF({a}, zx)", f"DATE_FORMAT({a}, '%Y %y %m %c %d %e %H %k %h %I %l %i %s %p %T %r')")
    for a in "iy":
        yield from (f"FLOOR({a} / 3)", f"CEIL({a} / 3)", f"CAST({a} / 3 AS SIGNED)")
    for a in "ilunmy":
        yield from (f"{f}({a})" for f in ("ROUND", "FLOOR", "CEIL", "SIGN", "HEX"))
        yield from (f"ROUND({a} / 3, 2)", f"ROUND({a}, 1)", f"TRUNCATE({a}, 2)", f"CAST({a} AS SIGNED)")
        yield from (f"CAST({a} AS DECIMAL(65,5))", f"CAST({a} AS CHAR)", f"GREATEST({a}, {a}x)", f"LEAST({a}, nx)")


def _documents() -> Iterator[str]:
    for path in _PATHS:
        yield from (f"{f}(j, '{path}')" for f in ("JSON_VALUE", "JSON_EXTRACT", "JSON_EXISTS", "JSON_LENGTH"))
        yield from (f"JSON_UNQUOTE(JSON_EXTRACT(j, '{path}'))", f"JSON_TYPE(JSON_EXTRACT(j, '{path}'))")
        yield from (f"JSON_CONTAINS(j, {wanted}, '{path}')" for wanted in ("jx", "'1'", "'\"a\"'"))
    for a in "jtb":
        yield from (f"{f}({a})" for f in ("JSON_VALID", "JSON_TYPE", "JSON_LENGTH"))
        yield f"JSON_VALUE({a}, '$.a')"
    for wanted in _WANTED:
        yield from (f"JSON_CONTAINS(j, '{wanted}')", f"JSON_CONTAINS(jx, '{wanted}', '$.a')")
    yield from ("JSON_UNQUOTE(j)", "JSON_CONTAINS(j, jx)", "JSON_CONTAINS(j, j)", "JSON_CONTAINS(j, i)")
    yield from ("JSON_CONTAINS(j, n)", "JSON_CONTAINS(j, JSON_QUOTE(b))", "JSON_CONTAINS(j, JSON_EXTRACT(jx, '$.a'))")
    yield from ("CONCAT(JSON_VALUE(j, '$.a'), '!')", "JSON_VALUE(j, '$.a') = JSON_VALUE(jx, '$.b')", "j LIKE '%a%'")
    yield from (f"JSON_ARRAY({a}, NULL, {a}x)" for a in COLUMNS)
    yield from ("JSON_OBJECT('a', j, 'b\"', t, 'c', JSON_EXTRACT(j, '$.a'))", "JSON_OBJECT('x', JSON_VALUE(j, '$.a'))")
