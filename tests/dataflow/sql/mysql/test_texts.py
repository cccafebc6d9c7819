"""Texts of MariaDB and MySQL: words, parameters, values put in, effects, names."""

from dataclasses import replace

import pytest

from dataflow.collations import Collation
from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.nodes import column_types
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.sql.effects import check_effects
from dataflow.sql.mysql.grammar import GRAMMAR, string_value
from dataflow.sql.mysql.parameter_values import fill
from dataflow.sql.reads import table_reads
from dataflow.sql.registered_views import expanded
from dataflow.sql.statement import statement_of
from dataflow.sql.syntax.parse import parse
from dataflow.sql.templates import template

_INT = SqlType("int4", "int")
CATALOG = Catalog(
    {
        "app.stories": Table(
            "app.stories", (Column("Id", _INT, True), Column("authorId", _INT), Column("order", _INT)), keys=((0,),)
        ),
        "app.`odd ``name`": Table("app.`odd ``name`", (Column("id", _INT, True),), keys=((0,),)),
    },
    ("app",),
    dialect="mariadb",
)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'a'", "a"),
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        (r"'\n\t\\\%\_\x'", "\n\t\\\\%\\_x"),
        ('"a""b\'\'c"', "a\"b''c"),
        (r"'\0\Z'", "\0\x1a"),
    ],
)
def test_strings(written: str, value: str) -> None:
    assert string_value(written) == value


def test_refusals_name_functions_as_they_are_written() -> None:
    with pytest.raises(UnsupportedQuery, match=r"^VAR_SAMP is not kept up to date\.$"):
        plan_view("v", "SELECT authorId, VAR_SAMP(Id) AS ids FROM stories GROUP BY authorId", CATALOG)


def test_parameters_in_all_spellings() -> None:
    statement = statement_of("SELECT '?:x$1' FROM t WHERE a = :id AND b IN (?) AND c NOT IN ($3) # :no", "mariadb")
    assert statement.names == ("id", "p1", "p3")
    assert statement.lists == {"p1", "p3"}


def test_a_template_is_filled_with_constants() -> None:
    sql = "SELECT `$1` FROM t WHERE a = :id AND b NOT IN (:l) AND c <> :c AND '$2' <> \"$1\" LIMIT :n -- $1"
    statement = statement_of(sql, "mariadb")
    made = template(statement, {"id": SqlType("int8", "bigint"), "l": SqlType("text", "text")})
    text = fill(made, ["x'y\\", "5", '{a,"b\'"}', "10"])
    assert text == (
        "SELECT `$1` FROM t WHERE a = 5 AND b NOT IN ('a', 'b''') AND c <> 'x''y\\\\' AND '$2' <> \"$1\" LIMIT 10"
    )


def test_an_empty_list_keeps_not_in_true() -> None:
    statement = statement_of("SELECT 1 FROM t WHERE a NOT IN (:l)", "mariadb")
    assert fill(template(statement), ["{}"]) == "SELECT 1 FROM t WHERE a NOT IN (SELECT 1 FROM DUAL WHERE FALSE)"


def test_null_is_a_constant() -> None:
    assert fill("SELECT $1::int8, $1", [None]) == "SELECT NULL, NULL"


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t",
        "SELECT a INTO OUTFILE 'x' FROM t",
        "SELECT a FROM t INTO @x",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM t LOCK IN SHARE MODE",
        "SELECT get_lock('a', 1)",
        "SELECT SLEEP(1)",
    ],
)
def test_effects_are_refused(sql: str) -> None:
    with pytest.raises(InvalidQuery):
        check_effects(sql, "mariadb")


def test_executed_comments_are_refused() -> None:
    with pytest.raises(UnsupportedQuery):
        parse("SELECT /*!50000 1 + */ 1 FROM t", GRAMMAR)


def test_names_have_no_case() -> None:
    view = plan_view("v", "SELECT ID, s.AUTHORID AS Who FROM stories s WHERE s.id = :id ORDER BY who", CATALOG)
    assert [c.name for c in view.output] == ["ID", "Who"]
    assert [p.name for p in view.parameters] == ["id"]


@pytest.mark.parametrize(
    "sql", ["SELECT id FROM Stories", "SELECT S.id FROM stories s", "SELECT 1 FROM stories a, stories A"]
)
def test_names_of_tables_may_have_case(sql: str) -> None:
    with pytest.raises(UnsupportedQuery):
        plan_view("v", sql, CATALOG)


def test_columns_without_alias_are_called_by_their_text() -> None:
    sql = "SELECT authorId+1, count( * ), 'a''b', `Order`, s.id FROM stories s GROUP BY s.id"
    view = plan_view("v", sql, CATALOG)
    assert [c.name for c in view.output] == ["authorId+1", "count( * )", "a'b", "Order", "id"]


def test_registered_views_are_put_in() -> None:
    catalog = replace(CATALOG, registered={"mine": "SELECT Id FROM stories"})
    found = expanded("SELECT * FROM mine", catalog)
    assert found.sql == "SELECT * FROM (SELECT Id FROM stories\n) AS `mine`"
    assert plan_view("v", "SELECT ID FROM mine WHERE id = ?", catalog).parameters[0].name == "p1"


def test_columns_that_a_refreshed_text_reads_have_no_case() -> None:
    (read,) = table_reads(["SELECT RAND() + `AUTHORID` FROM stories WHERE ID > 3"], ["app.stories"], CATALOG, [])
    assert read.columns == {0, 1}
    assert read.predicate is not None


def test_natural_joins_know_no_case() -> None:
    other = Table("app.other", (Column("ID", _INT, True), Column("x", _INT)), keys=((0,),))
    catalog = replace(CATALOG, tables={**CATALOG.tables, "app.other": other})
    view = plan_view("v", "SELECT * FROM stories NATURAL JOIN other", catalog)
    assert [c.name for c in view.output] == ["Id", "authorId", "order", "x"]


def test_texts_of_constants_are_not_told_apart_by_an_unknown_collation() -> None:
    catalog = replace(CATALOG, text=SqlType("text", "text", collation="nondeterministic"))
    plan_view("v", "SELECT IF(id > 1, 'a', 'A') AS t FROM stories", catalog)
    with pytest.raises(UnsupportedQuery):
        plan_view("v", "SELECT IF(id > 1, 'a', 'A') AS t, COUNT(*) FROM stories GROUP BY t", catalog)


_CASELESS = Collation("utf8mb4_x_ci", {ord(c): c.lower().encode() * 2 for c in " aAbB"}, pad_space=True)
_TEXT = SqlType("text", "text", collation=_CASELESS.name, folding="simple", weights=_CASELESS)
_NAMES = Table(
    "app.names",
    (Column("id", _INT, True), Column("name", replace(_TEXT, name="varchar", sql="varchar")), Column("other", _TEXT)),
    keys=((0,),),
)
_NARROW = Collation("utf8mb3_x_ci", {ord(c): c.lower().encode() * 2 for c in " aAbB"}, pad_space=True)
_CASELESS_3 = SqlType("text", "text", collation=_NARROW.name, folding="simple", weights=_NARROW)
NAMED = Catalog({_NAMES.name: _NAMES}, ("app",), text=_TEXT, dialect="mariadb")


@pytest.mark.parametrize(
    ("condition", "exact"),
    [
        ("name = :p", False),
        ("name = :p OR other = :p", False),
        (":p = 'a' OR id = 1", False),
        ("name LIKE :p", True),
        ("name = :p AND other LIKE CONCAT('%', :p)", True),
        ("name = UPPER(:p)", True),
        ("name IN (:p, 'a') AND LENGTH(:p) = 1", True),
    ],
)
def test_parameters_are_exact_texts_only_where_more_than_their_value_is_read(condition: str, exact: bool) -> None:
    view = plan_view("v", f"SELECT id FROM names WHERE {condition}", NAMED)
    (parameter,) = view.parameters
    sql_type = column_types(view.relation)[parameter.column]
    assert (sql_type.normal_form is None) == exact
    assert sql_type.folding == "simple"


@pytest.mark.parametrize(
    "condition",
    [
        "id = LENGTH(name) AND :p + 1 = 2 AND name LIKE :p",
        "id = :p AND name LIKE :p",
        "name IN (:p) AND other LIKE :p",
        ":p LIKE name",
        "GREATEST(:p, 'a') = name AND name LIKE :p",
    ],
)
def test_exact_texts_are_refused_as_other_values(condition: str) -> None:
    with pytest.raises(UnsupportedQuery):
        plan_view("v", f"SELECT id FROM names WHERE {condition}", NAMED)


def test_a_parameter_may_have_characters_that_a_column_cannot_have() -> None:
    narrow = replace(_CASELESS_3, name="varchar", sql="varchar")
    table = replace(_NAMES, columns=(_NAMES.columns[0], Column("name", narrow)))
    catalog = replace(NAMED, tables={table.name: table})
    for condition in ("name LIKE :p", "name = LOWER(:p)"):
        with pytest.raises(UnsupportedQuery, match="utf8mb3_x_ci beside a parameter"):
            plan_view("v", f"SELECT id FROM names WHERE {condition}", catalog)


def test_quoted_names() -> None:
    assert plan_view("v", "SELECT * FROM `odd ``name`", CATALOG).output[0].name == "id"


def test_comparisons_are_read_from_left_to_right() -> None:
    with pytest.raises(UnsupportedQuery):
        plan_view("v", "SELECT id FROM stories WHERE id = authorId < 2", CATALOG)
    assert plan_view("v", "SELECT id FROM stories WHERE (id = authorId) < 2", CATALOG)
