"""Documents of any depth: read, compared and written as flat ones are."""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import psycopg
import pytest

from dataflow.errors import EvaluationError
from dataflow.evaluate import compile_scalar
from dataflow.functions.compiler import Function
from dataflow.functions.json import JSON
from dataflow.json_documents import _Document, checked, normal_form, normalised, render
from dataflow.scalar import Call, ColumnRef
from dataflow.types import Row, Value
from service.demo.postgres_server import EmbeddedPostgres
from tests.dataflow.functions.awkward import type_of
from tests.dataflow.functions.server import PINNED, Connection, Failed, evaluate
from tests.fixtures.seeds import day_seed

#: Beyond Python's recursion limit, and about as deep as a server with its default stack takes.
DEPTHS = (400, 3000, 5000)


@pytest.fixture(scope="module")
def server(postgres_server: EmbeddedPostgres) -> Iterator[Connection]:
    with psycopg.connect(postgres_server.url, options=PINNED, autocommit=True) as connection:
        yield connection


def document(random: Random, depth: int) -> Any:
    choice = random.randrange(7 if depth else 5)
    if choice == 5:
        return [document(random, depth - 1) for _ in range(random.randrange(4))]
    if choice == 6:
        return {
            random.choice(["a", "", 'q"\\', "é,[{"]): document(random, depth - 1) for _ in range(random.randrange(4))
        }
    return random.choice([None, True, False, 'x"]}\\', "", "\n,:"])


def test_token_by_token_a_document_is_what_it_is() -> None:
    random, decoder = Random(day_seed("documents")), json.JSONDecoder()
    for _ in range(3000):
        value = document(random, 4)
        text = json.dumps(value, indent=random.choice([None, 1]), ensure_ascii=random.random() < 0.5)
        assert _Document(decoder, text).value() == value
        assert json.loads(render(value, str)) == value
        characters = list(text)
        characters[random.randrange(len(text))] = random.choice('[]{},:"x1 ')
        broken = "".join(characters)
        assert outcome(lambda t: _Document(decoder, t).value(), broken) == outcome(decoder.decode, broken), broken


def outcome(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except json.JSONDecodeError:
        return "no JSON"


def deep(depth: int, inner: str = "1.50") -> str:
    """An array in an object in an array …"""
    return '[{"a": ' * (depth // 2) + inner + "}]" * (depth // 2)


@pytest.mark.parametrize("depth", [*DEPTHS, 20_000])
def test_of_any_depth(depth: int) -> None:
    text = deep(depth)
    assert normal_form(text) == deep(depth, "1.5")
    assert checked(text) == normalised(text) == type_of("jsonb").parse(text) == text
    for broken in (text[:-1], text + "]", text.replace("}", "]", 1), text.replace(":", ",", 1)):
        with pytest.raises(EvaluationError):
            normalised(broken)


@pytest.mark.postgres
@pytest.mark.parametrize("depth", DEPTHS)
def test_functions_are_the_server_s_at_any_depth(server: Connection, depth: int) -> None:
    texts = [deep(depth), f'{{"a": {deep(depth)}, "b": null}}', f'[{deep(depth, "null")}, "a"]']
    others = {"text": "a", "int4": "0", "text[]": "{a,0}", "jsonb": '{"a": [[]]}'}
    for name, signatures in JSON.items():
        for found in signatures:
            if found.function is None:
                continue
            arguments = [ColumnRef(i, type_of(t)) for i, t in enumerate(found.arguments)]
            compute = compile_scalar(Call(name, tuple(arguments), type_of(found.result)))
            rows = [(text, *(others[t] for t in found.arguments[1:])) for text in texts]
            sql = f"c0 {name} c1" if len(arguments) == 2 else f"{name}(c0)"
            ours = [computed(compute, row) for row in rows]
            assert ours == evaluate(server, sql, found.arguments, rows), (name, found.arguments)


def computed(function: Function, row: Row) -> Value | Failed:
    try:
        return function(row)
    except EvaluationError as error:
        if str(error).startswith("not computed"):
            raise
        return Failed(str(error))
