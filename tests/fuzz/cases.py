"""A seed's file: views, the keys that are read of each, changes between the reads; in the corpus's own format, so that
what went wrong can be kept as it is (`tests/sql/README.md`).
"""

from random import Random
from shlex import quote

from tests.fuzz.changes import transaction
from tests.fuzz.dialect import Dialect
from tests.fuzz.queries import Query, QueryGenerator

#: How often a view is installed again, kept in another way: all ways must agree.
AGAIN = 0.2


def file_of(seed: int, views: int, steps: int, dialect: Dialect) -> str:
    """The text of a corpus file."""
    rng = Random(seed)
    generator = QueryGenerator(rng, dialect)
    parts = [f"feature fuzz, seed {seed}\ntier incremental", f"include {dialect.data}"]
    if seed % 2:
        # With statistics some views are kept by fewer parameters.
        parts.append(f"statement ok\n{dialect.analyze}")
    for number in range(views):
        query = generator.view()
        options, keys = _options(query, dialect), _keys(query, rng, dialect)
        parts += _view(f"fuzz_{number}", query, keys, options)
        for keep in ("full", "refresh"):
            if rng.random() < AGAIN:
                parts += _view(f"fuzz_{number}_{keep}", query, keys, f"{options} keep={keep}")
    parts += [f"statement ok\n{transaction(rng, dialect)}" for _ in range(steps)]
    return "\n\n".join(parts) + "\n"


def _view(name: str, query: Query, keys: list[list[str]], options: str) -> list[str]:
    queries = [f"query {name} {' '.join(map(quote, key))}" for key in keys]
    return [f"view {name}{options}\n{query.sql}", *queries]


def _options(query: Query, dialect: Dialect) -> str:
    columns: dict[str, list[str]] = {}
    for number, kind in enumerate(query.kinds, 1):
        if option := dialect.options.get(kind):
            columns.setdefault(option, []).append(f"c{number}")
    return "".join(f" {option}={','.join(names)}" for option, names in columns.items())


def _keys(query: Query, rng: Random, dialect: Dialect) -> list[list[str]]:
    if not query.parameters:
        return []
    return [
        [f"{name}={_given(name, query, dialect.values[kind], rng)}" for name, kind in query.parameters.items()]
        for _ in range(3)
    ]


def _given(name: str, query: Query, values: tuple[str, ...], rng: Random) -> str:
    if name in query.lists:
        return f"[{','.join(v for v in rng.sample(values, rng.randint(1, 3)) if v)}]"
    return "null" if rng.random() < (0.3 if name == "free" else 0.05) else rng.choice(values)
