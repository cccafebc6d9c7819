"""Regular expressions: those that are taken mean the same to the server and here, and no text takes long."""

from collections.abc import Iterator
from random import Random

import psycopg
import pytest

from dataflow.functions.patterns import PATTERNS, found, regexp_replace
from service.demo.postgres_server import EmbeddedPostgres
from tests.dataflow.functions.server import PINNED, Connection, evaluate
from tests.fixtures.in_time import in_time
from tests.fixtures.seeds import day_seed

MATCHES = {"~": PATTERNS["matches"][0].function, "~*": PATTERNS["imatches"][0].function}


@pytest.fixture(scope="module")
def server(postgres_server: EmbeddedPostgres) -> Iterator[Connection]:
    with psycopg.connect(postgres_server.url, options=PINNED, autocommit=True) as connection:
        yield connection


def expression(random: Random, depth: int) -> str:
    """Any of the subset, and some that are not."""
    parts = []
    for _ in range(random.randrange(1, 4)):
        choice = random.random()
        if choice < 0.5:
            parts.append(random.choice(["a", "B", "k", "s", "0", ".", r"\d", r"\.", "_", "\n", "-", r"\-"]))
        elif choice < 0.7:
            parts.append(
                random.choice(["[ab]", "[^a]", "[a-f]", "[^A-_]", "[0-9k-]", "[+.*]", "[^\n]", "[&~#]", "[Z-a]"])
            )
        elif choice < 0.8:
            parts.append(random.choice(["^", "$"]))
            continue
        elif depth:
            opening = random.choice(["(", "(?:"])
            branches = "|".join(expression(random, depth - 1) for _ in range(random.randrange(1, 3)))
            parts.append(f"{opening}{branches}{random.choice(['', '', '|'])})")
        if random.random() < 0.4:
            parts.append(random.choice(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "{2}?", "{0}"]))
    return "".join(parts)


@pytest.mark.postgres
def test_an_expression_that_is_taken_means_the_same_to_the_server(server: Connection) -> None:
    random = Random(day_seed("patterns"))
    texts = [
        "",
        *("".join(random.choices("abfkABKSs01._-\n\u212a\u017fé+&", k=random.randrange(1, 8))) for _ in range(30)),
    ]
    rows = []
    for _ in range(300):
        pattern = expression(random, 2)
        for operator, function in MATCHES.items():
            assert function is not None
            try:
                ours = [function(*(["simple"] if operator == "~*" else []), text, pattern) for text in texts]
            except ValueError:
                continue
            rows += [(operator, text, pattern, mine) for text, mine in zip(texts, ours, strict=True)]
    assert len(rows) > 5000
    for operator in MATCHES:
        cases = [(t, p, mine) for o, t, p, mine in rows if o == operator]
        theirs = evaluate(
            server, f"CASE WHEN c0 {operator} c1 THEN 't' ELSE 'f' END", ["text", "text"], [c[:2] for c in cases]
        )
        wrong = [(case, their) for case, their in zip(cases, theirs, strict=True) if case[2] != their]
        assert wrong == []


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("a" * 60, "^([a-zA-Z0-9]+.?)+@"),
        ("a" * 100_000 + "!", "^(a+)+$"),
        ("a" * 100_000, "(a|a)*b"),
        ("a" * 100_000, "a*a*a*a*b"),
        ("a" * 100_000, "(x+x+)+y|a.*a.*b"),
        ("ab" * 50_000, "(a|b)*a(a|b){12}c"),
    ],
)
def test_no_text_takes_long(text: str, pattern: str) -> None:
    with in_time():
        for operator, function in MATCHES.items():
            assert function is not None
            assert function(*(["simple"] if operator == "~*" else []), text, pattern) == "f"


def test_what_is_found_or_replaced_does_not_take_long() -> None:
    with in_time():
        assert found("a" * 100_000, "a+b") is None
        assert regexp_replace("a" * 100_000, "a+b", "", "g") == "a" * 100_000
        assert regexp_replace("ab" * 50_000, "a+b", "x", "g") == "x" * 50_000
