"""The comparison tells right answers from wrong ones: what may differ does, and nothing else."""

from typing import Any

import pytest

from tests.sql.comparison import Answer, difference, parse, without_limit
from tests.sql.corpus_file import CorpusView, Options, with_values

ORDERED, UNORDERED = "SELECT a, b FROM t ORDER BY a", "SELECT a, b FROM t"


def compared(
    found: str, expected: str, sql: str = UNORDERED, everything: str | None = None, single: str = "", **options: Any
) -> str | None:
    view = CorpusView("v", sql, 1, Options(**options), (), sql)
    answers = [None if rows is None else Answer(parse(rows), frozenset({single})) for rows in (expected, everything)]
    assert answers[0] is not None
    return difference(view, parse(found), answers[0], answers[1])


@pytest.mark.parametrize(
    ("found", "expected", "given"),
    [
        ('[{"a":1},{"a":2}]', '[{"a":2},{"a":1}]', {}),
        ('[{"a":"1.0"}]', '[{"a":"1.00"}]', {"any": ("a",)}),
        ('[{"a":-0}]', '[{"a":0}]', {"any": ("a",)}),
        ('[{"a":[2,1]}]', '[{"a":[1,2]}]', {"bag": ("a",)}),
        ('[{"a":1,"b":2},{"a":1,"b":1}]', '[{"a":1,"b":1},{"a":1,"b":2}]', {"ties": ("a",), "sql": ORDERED}),
        (
            '[{"a":1,"b":9}]',
            '[{"a":1,"b":2}]',
            {"ties": ("a",), "sql": ORDERED + " LIMIT 1", "everything": '[{"a":1,"b":2},{"a":1,"b":9}]'},
        ),
        ('[{"a":0.30000000000000004}]', '[{"a":0.3}]', {"sql": "SELECT sum(x) AS a FROM t"}),
        ('[{"a":3.1999998}]', '[{"a":3.2}]', {"sql": "SELECT sum(x) AS a FROM t", "single": "a"}),
    ],
)
def test_right_answers(found: str, expected: str, given: dict[str, Any]) -> None:
    assert compared(found, expected, **given) is None


@pytest.mark.parametrize(
    ("found", "expected", "given"),
    [
        ('[{"a":1}]', '[{"a":1},{"a":1}]', {}),
        ('[{"a":1},{"a":1},{"a":2}]', '[{"a":1},{"a":2},{"a":2}]', {}),
        ('[{"a":1}]', '[{"a":"1"}]', {}),
        ('[{"a":1}]', '[{"b":1}]', {}),
        ('[{"a":"1.0"}]', '[{"a":"1.00"}]', {}),
        ('[{"a":0.30000000000000004}]', '[{"a":0.3}]', {}),
        ('[{"a":3.1999998}]', '[{"a":3.2}]', {"sql": "SELECT sum(x) AS a FROM t"}),
        ('[{"a":1},{"a":2}]', '[{"a":2},{"a":1}]', {"sql": ORDERED}),
        ('[{"a":2,"b":1},{"a":1,"b":1}]', '[{"a":1,"b":1},{"a":2,"b":1}]', {"ties": ("a",), "sql": ORDERED}),
        (
            '[{"a":1,"b":9}]',
            '[{"a":1,"b":2}]',
            {"ties": ("a",), "sql": ORDERED + " LIMIT 1", "everything": '[{"a":1,"b":2},{"a":1,"b":3}]'},
        ),
        ('[{"a":[2,1]}]', '[{"a":[1,2]}]', {}),
    ],
)
def test_wrong_answers(found: str, expected: str, given: dict[str, Any]) -> None:
    assert compared(found, expected, **given) is not None


def test_only_the_outermost_limit_goes() -> None:
    assert without_limit("SELECT a FROM (SELECT a FROM t LIMIT 2) d") is None
    assert without_limit("SELECT a FROM t ORDER BY a LIMIT 2 OFFSET 1") == "SELECT a FROM t ORDER BY a"


def test_parameters_are_written_in_outside_of_strings_and_casts() -> None:
    sql = "SELECT ':a', x::int FROM t WHERE x = :a AND y IN (:l) AND z = ANY(CAST(:l AS int[]))"
    filled = (
        "SELECT ':a', x::int FROM t WHERE x = 'it''s' AND y IN ('1', NULL) AND z = ANY(CAST('{\"1\",NULL}' AS int[]))"
    )
    assert with_values(sql, {"a": "it's", "l": ("1", None)}) == filled
