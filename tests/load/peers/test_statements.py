"""A site's SQL as it is prepared, and what its parameters are given."""

from typing import Any

import pytest

from load.peers.statements import NamedStatement, ParameterError, Parameters, batched, numbered, wire_form

TYPES = {"id": "bigint", "ids": "bigint[]", "name": "text"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", NamedStatement("SELECT 1", ())),
        ("a = :id AND b = :name", NamedStatement("a = $1::bigint AND b = $2::text", ("id", "name"))),
        ("a = :id OR b = :id", NamedStatement("a = $1::bigint OR b = $1::bigint", ("id",))),
        ("a IN (:ids)", NamedStatement("a = ANY ($1::bigint[])", ("ids",))),
        ("a not in ( :ids )", NamedStatement("a <> ALL ($1::bigint[])", ("ids",))),
        ("a IN (:id)", NamedStatement("a IN ($1::bigint)", ("id",))),
        ("a IN (:id, 2)", NamedStatement("a IN ($1::bigint, 2)", ("id",))),
        ("a::text = ':id' -- :id\n AND /* :id */ \":id\" = $$:id$$", NamedStatement("", ())),
    ],
)
def test_parameters_are_numbered_and_typed(sql: str, expected: NamedStatement) -> None:
    found = numbered(sql, TYPES)
    assert found == (expected if expected.sql else NamedStatement(sql, ()))


def test_many_keys_are_lists_of_values() -> None:
    found = batched("SELECT a FROM t WHERE name = :name AND (id = :id OR x = :id)", {"id": "bigint", "name": "text"})
    assert found == NamedStatement(
        'SELECT "$key".n, "$rows".* FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY "$key" (p1, p2, n)'
        " CROSS JOIN LATERAL (SELECT * FROM (SELECT a FROM t"
        ' WHERE name = "$key".p1 AND (id = "$key".p2 OR x = "$key".p2)) "$one" OFFSET 0) "$rows"',
        ("name", "id"),
    )


@pytest.mark.parametrize("sql", ["SELECT 1", "SELECT 1 WHERE a IN (:ids)"])
def test_not_all_can_be_asked_for_many_keys(sql: str) -> None:
    assert batched(sql, {"ids": "bigint[]"}) is None


def test_a_parameter_without_a_type_is_refused() -> None:
    with pytest.raises(ValueError, match=":other"):
        numbered("a = :other", TYPES)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"id": 7, "ids": [1, None], "name": "x"}, ("7", ("1", None), "x")),
        ({"name": None, "ids": 3, "id": True}, ("true", ("3",), None)),
    ],
)
def test_json_parameters_become_text(given: dict[str, Any], values: tuple[Any, ...]) -> None:
    assert Parameters(TYPES).of_json(given) == values


def test_query_arguments_are_as_json_parameters() -> None:
    parameters = Parameters(TYPES)
    pairs = [("ids", "1"), ("id", "7"), ("ids", "2"), ("name", "")]
    assert parameters.of_pairs(pairs) == parameters.of_json({"id": 7, "ids": [1, 2], "name": ""})
    assert Parameters({"id": "bigint"}).of_pairs([("id", "7")]) == ("7",)
    assert Parameters({"ids": "bigint[]"}).of_pairs([("ids", "7")]) == (("7",),)


@pytest.mark.parametrize(
    "given", [{"id": 1, "ids": []}, {"id": 1, "ids": [], "name": "", "more": 1}, {"id": {}, "ids": [], "name": ""}]
)
def test_other_parameters_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        Parameters(TYPES).of_json(given)


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (None, None), ((), "{}"), (("1", None), '{"1",NULL}'), (('a"b\\', "NULL"), '{"a\\"b\\\\","NULL"}')],
)
def test_lists_are_array_literals(value: Any, text: str | None) -> None:
    assert wire_form(value) == text
