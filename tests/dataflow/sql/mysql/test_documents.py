"""JSON functions of MariaDB: which are planned, of which types, and why others are not."""

from dataclasses import replace

import pytest

from dataflow.collations import Collation
from dataflow.errors import UnsupportedQuery
from dataflow.plan.nodes import column_types
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.types.documents import MARIADB_DOCUMENT, MARIADB_JSON

_LETTERS = {code: bytes([code]) for code in range(32, 127)}
BINARY = Collation("utf8mb4_bin", _LETTERS, pad_space=True)
GENERAL = Collation("utf8mb4_general_ci", _LETTERS, pad_space=True)
SHORT = Collation("utf8mb3_general_ci", _LETTERS, pad_space=True)


def _text(weights: Collation) -> SqlType:
    return SqlType("text", "text", collation=weights.name, weights=weights)


_INT = SqlType("int4", "int")
_COLUMNS = {
    "id": _INT,
    "j": SqlType(MARIADB_JSON, "json", collation=BINARY.name, weights=BINARY),
    "k": SqlType(MARIADB_JSON, "json", collation=BINARY.name, weights=BINARY),
    "t": _text(GENERAL),
    "s": _text(SHORT),
    "b": _text(BINARY),
    "p": SqlType("text", "text", collation="bytes"),
    "f": SqlType("float8", "double"),
    "y": SqlType("int2", "year"),
    "n": SqlType("numeric", "decimal(10,2)"),
    "raw": SqlType("bytea", "blob"),
}
CATALOG = Catalog(
    {"app.docs": Table("app.docs", tuple(Column(n, t, n == "id") for n, t in _COLUMNS.items()), keys=((0,),))},
    ("app",),
    text=_text(GENERAL),
    dialect="mariadb",
)


@pytest.mark.parametrize(
    ("written", "name", "collation"),
    [
        ("j", MARIADB_JSON, "utf8mb4_bin"),
        ("JSON_VALUE(j, '$.a')", "text", "utf8mb4_bin"),
        ("JSON_VALUE(t, '$.a')", "text", "utf8mb4_general_ci"),
        ("JSON_VALUE(JSON_EXTRACT(t, '$.a'), '$.b')", "text", "utf8mb4_general_ci"),
        ("JSON_EXTRACT(j, '$.a[0]')", MARIADB_DOCUMENT, "utf8mb4_bin"),
        ("JSON_UNQUOTE(JSON_EXTRACT(j, '$'))", "text", "utf8mb4_bin"),
        ("JSON_TYPE(j)", "text", "utf8mb4_general_ci"),
        ("COALESCE(j, '{}')", "text", "utf8mb4_bin"),
        ("LEFT(CONCAT(JSON_VALUE(j, '$.a'), '!'), 3)", "text", "utf8mb4_bin"),
        ("JSON_OBJECT('a', id, 'b', JSON_ARRAY(t, NULL, TRUE, n, j))", MARIADB_DOCUMENT, "nondeterministic"),
    ],
)
def test_results_are_text_of_the_documents_collation(written: str, name: str, collation: str) -> None:
    relation = plan_view("v", f"SELECT id, {written} AS x FROM docs", CATALOG).relation
    found = column_types(relation)[1]
    assert (found.name, found.collation) == (name, collation)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("JSON_VALUE(j, '$.*')", "path that is no constant of names and places"),
        ("JSON_VALUE(j, t)", "path that is no constant of names and places"),
        ("JSON_VALUE(j, '$.a' RETURNING DECIMAL)", "JSON_VALUE with RETURNING"),
        ("JSON_EXTRACT(j, '$.a', '$.b')", "JSON_EXTRACT of 3 arguments"),
        ("JSON_VALUE('{}', '$.a')", "of a constant or parameter"),
        ("JSON_VALUE(id, '$.a')", "JSON_VALUE of int"),
        ("JSON_VALUE(s, '$.a')", "JSON_VALUE of utf8mb3_general_ci"),
        ("JSON_UNQUOTE(t)", "JSON_UNQUOTE of utf8mb4_general_ci"),
        ("JSON_EXTRACT(j, '$.a') = 'x'", "Comparing json with the text 'x'"),
        ("JSON_EXTRACT(j, '$.a') = 1", "Comparing json with"),
        ("JSON_VALUE(j, '$.a') = 1", "Comparing text with int4"),
        ("JSON_VALUE(j, '$.a') = t", "Texts of two collations"),
        ("JSON_CONTAINS(j, 'a')", "which is not JSON"),
        ("JSON_CONTAINS(j, id = 1)", "JSON_CONTAINS of a condition"),
        ("JSON_CONTAINS(j, JSON_ARRAY(t))", "JSON_CONTAINS of JSON_ARRAY"),
        ("JSON_ARRAY(id = 1)", "JSON_ARRAY of bool"),
        ("JSON_ARRAY(f)", "JSON_ARRAY of double"),
        ("JSON_ARRAY(y)", "JSON_ARRAY of year"),
        ("JSON_ARRAY(raw)", "JSON_ARRAY of blob"),
        ("JSON_ARRAY(n / 3)", "JSON_ARRAY of a quotient"),
        ("JSON_OBJECT(t, 1)", "names that are no constant texts"),
        ("JSON_OBJECT('a')", "names and values in turn"),
        ("JSON_ARRAY(t) IS NULL", "IS NULL of JSON_ARRAY"),
        ("ISNULL(JSON_OBJECT('a', t))", "IS NULL of JSON_OBJECT"),
        ("COALESCE(j, k)", "COALESCE of json"),
        ("NULLIF(j, k)", "NULLIF of these arguments"),
        ("GREATEST(j, k)", "GREATEST of json"),
        ("MAX(j)", "MAX of json"),
        ("JSON_ARRAYAGG(DISTINCT t)", "This JSON_ARRAYAGG"),
        ("JSON_OBJECTAGG(t, j ORDER BY id)", "This JSON_OBJECTAGG"),
        ("JSON_OBJECTAGG(p, j)", "JSON_OBJECTAGG of texts of two binary collations"),
        ("JSON_ARRAY(b, t, p)", "JSON_ARRAY of texts of two binary collations"),
        ("JSON_OBJECT('a', JSON_ARRAY(p), 'b', j)", "JSON_OBJECT of texts of two binary collations"),
        ("JSON_ARRAYAGG(id = 1)", "JSON_ARRAYAGG of bool"),
        ("COUNT(DISTINCT JSON_EXTRACT(j, '$.a'))", "When json values are equal"),
        ("JSON_KEYS(j)", "JSON_KEYS is not on the list"),
    ],
)
def test_what_is_not_exact_is_refused(written: str, reason: str) -> None:
    with pytest.raises(UnsupportedQuery) as refused:
        plan_view("v", f"SELECT {written} AS x FROM docs", CATALOG)
    assert reason in refused.value.reason


@pytest.mark.parametrize("written", ["JSON_VALUE(t, '$.a')", "JSON_LENGTH(t)", "JSON_ARRAY(t)", "JSON_ARRAYAGG(t)"])
def test_documents_of_mysql_are_no_texts(written: str) -> None:
    with pytest.raises(UnsupportedQuery, match="of MySQL is not on the list"):
        plan_view("v", f"SELECT {written} AS x FROM docs", replace(CATALOG, dialect="mysql"))
