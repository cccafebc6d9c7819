"""JSON functions of MariaDB over documents that are read in more than one way: every function of every document."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from dataflow.errors import EvaluationError
from dataflow.evaluate import compile_scalar
from dataflow.functions.mysql_json import document as read
from dataflow.functions.mysql_json import steps_of
from dataflow.plan.nodes import Chain
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from dataflow.types import Value
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.seeds import day_seed
from tests.fuzz.hostile.texts import document
from tests.service.engine.databases.mysql.upstreams import asked

#: What every server reads alike.
DOCUMENTS = (
    *("1", "-0", "1.0", "1e2", "1E-7", "-0.0", "1e400", "12345678901234567890.10", "true", "false", "null", '""'),
    *(
        ' {"a" :\t1 }\n',
        '{"a":1,"a":2}',
        '{"a":[1],"a":2}',
        '{"a":{"b":1},"a":{"c":2}}',
        '{"a":null,"a":3}',
        "[]",
        "{}",
    ),
    *(
        '{"a":{"c":[1]},"a":[{"b":2}]}',
        '[{"b":1},{"a":2}]',
        '{"a":"\\u00e9\\ud83d\\ude00\\n\\/"}',
        '{"A":1,"\\u0062":2}',
    ),
    *('{"":{"":1}}', '{"a b":"x"}', '{"a":"[1, {\\"a\\": 2}] , :"}', '[[1, [2, {"a": "\u2028"}]], {"a": [ ]}]', '"a"'),
    *('{"a":[{"b":[1,2]},{"b":3}]}', '[1,"a",null,true,[3]]', '{"a":0.1000000000001}', '"\U0001f600"'),
    "[" * 31 + "]" * 31,
    '{"a":' * 31 + "1" + "}" * 31,
)
#: No documents to any server.
OTHERS = (
    *(
        "",
        " ",
        "a",
        "01",
        "1.5.5",
        "tru",
        "[1,]",
        '{"a":1,}',
        "{a:1}",
        '"a',
        "[1 2]",
        "1 2",
        '{"a"}',
        "]",
        "\u00a01",
        "[1",
    ),
    *('{"a":1', '{"a":1}}', '{"a":1 x}', "NaN", "'a'", "\ufeff1", "{,}"),
)
#: Documents to some.
SOME = (
    *('{"\\u0061":1}', '"\\u0000"', "1.", "[-]", "[1e]", '"\\x"', '"\\ud83d"', '{"a":"\\ude00"}', '"\t"'),
    *("[" * 32 + "]" * 32, '"\x7f\\\u00e9"'),
)
PATHS = (
    "$",
    "$.a",
    "$.a.b",
    "$.a.c",
    "$.a[0]",
    "$.a[0].b",
    "$[0]",
    "$[0].a",
    "$[1][1][1].a",
    '$."a b"',
    '$."".""',
    "$.d",
)
WANTED = (
    "1",
    "1.0",
    "[1]",
    "[]",
    "{}",
    '"a"',
    "null",
    '{"b":2}',
    '{"a":{"c":2}}',
    '[1,"a"]',
    '{"a":[{"b":[1]}]}',
    "0.1",
)
RANDOM = 150


def expressions() -> Iterator[str]:
    """Every function of a document, once for each path."""
    for path in PATHS:
        yield from (f"{name}(j, '{path}')" for name in ("JSON_VALUE", "JSON_EXTRACT", "JSON_EXISTS", "JSON_LENGTH"))
        yield from (f"{name}(JSON_EXTRACT(j, '{path}'))" for name in ("JSON_UNQUOTE", "JSON_TYPE", "JSON_LENGTH"))
        yield f"JSON_VALUE(JSON_EXTRACT(j, '{path}'), '$.a')"
    for wanted in WANTED:
        yield from (f"JSON_CONTAINS(j, '{wanted}')", f"JSON_CONTAINS(j, '{wanted}', '$.a')")
    yield from ("JSON_VALID(j)", "JSON_TYPE(j)", "JSON_LENGTH(j)", "JSON_UNQUOTE(j)", "JSON_CONTAINS(j, j)")
    yield from (
        "JSON_ARRAY(j, NULL)",
        "JSON_OBJECT('\"a', j)",
        "JSON_ARRAY(JSON_EXTRACT(j, '$'), JSON_VALUE(j, '$.a'))",
    )
    yield from ("JSON_CONTAINS(j, JSON_QUOTE(JSON_VALUE(j, '$.a')), '$.a')", "JSON_ARRAY(LEFT(j, 5), COALESCE(j, ''))")


def stored(mariadb: MariaDatabase, documents: Sequence[str]) -> Catalog:
    """A table of the documents by their numbers, without their check."""
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE docs (id int PRIMARY KEY, j json)")
        cursor.execute("SET check_constraint_checks = OFF")
        cursor.executemany("INSERT INTO docs VALUES (%s, %s)", list(enumerate(documents)))
    return asked(mariadb, lambda session: session.load_catalog())


def compared(mariadb: MariaDatabase, documents: Sequence[str]) -> Iterator[tuple[str, str, Value]]:
    """Expressions and documents whose answer differs from the server's, with it; "not computed" is our answer to none
    of them."""
    catalog = stored(mariadb, documents)
    for written in expressions():
        relation = plan_view("v", f"SELECT id, {written} AS x FROM docs", catalog).relation
        assert isinstance(relation, Chain)
        compute = compile_scalar(relation.columns[-1])
        for number, theirs in mariadb.query(f"SELECT id, CAST({written} AS CHAR) FROM docs".replace("%", "%%")):
            try:
                ours = compute((str(number), documents[number]))
            except EvaluationError as error:
                ours = str(error)
            if {"t": "1", "f": "0"}.get(str(ours), ours) != theirs:
                yield written, documents[number], ours


@pytest.mark.mariadb
def test_documents_are_read_as_the_server_reads_them(mariadb: MariaDatabase) -> None:
    rng = Random(day_seed("mysql json"))
    documents = [*DOCUMENTS, *(document(rng) for _ in range(RANDOM))]
    assert [*compared(mariadb, documents)] == []


@pytest.mark.mariadb
def test_other_texts_are_left_to_the_server(mariadb: MariaDatabase) -> None:
    """A wrong answer is none that says so."""
    wrong = [found for found in compared(mariadb, [*OTHERS, *SOME]) if "not computed" not in str(found[2])]
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$", ()),
        ('$.a."b c"[0].d_1', ("a", "b c", 0, "d_1")),
        ('$.""', ("",)),
        ("$.1[12]", ("1", 12)),
        *((path, None) for path in ("", "a", "$.", "$.*", "$[*]", "$**.a", "$[-1]", "$[last]", "$[1 to 2]", "$[01]")),
        *((path, None) for path in ("$.a ", " $.a", "$.a-b", '$."a', '$."a\\"b"', "lax $.a", "$a", "$[ 1 ]", "$..a")),
    ],
)
def test_paths_of_names_and_places(path: str, steps: tuple[str | int, ...] | None) -> None:
    assert steps_of(path) == steps


@pytest.mark.parametrize("text", [*OTHERS, *SOME[1:]])
def test_what_is_no_document_is_not_computed(text: str) -> None:
    with pytest.raises(EvaluationError, match="not computed"):
        read(text)
