"""A seed's file: views, the keys that are read of each, changes between the reads; in the corpus's own format, so that
what went wrong can be kept as it is (`tests/sql/README.md`).
"""

from random import Random
from shlex import quote

from tests.fuzz.changes import transaction
from tests.fuzz.queries import Query, QueryGenerator, values_of

#: How often a view is installed again, kept in another way: all ways must agree.
AGAIN = 0.2


def file_of(seed: int, views: int, steps: int) -> str:
    """The text of a corpus file."""
    rng = Random(seed)
    generator = QueryGenerator(rng)
    parts = [f"feature fuzz, seed {seed}\ntier incremental", "include shared/data.test"]
    if seed % 2:
        # With statistics some views are kept by fewer parameters.
        parts.append("statement ok\nANALYZE")
    for number in range(views):
        query = generator.view()
        keys = _keys(query, rng)
        parts += _view(f"fuzz_{number}", query, keys, "")
        for keep in ("full", "refresh"):
            if rng.random() < AGAIN:
                parts += _view(f"fuzz_{number}_{keep}", query, keys, f" keep={keep}")
    parts += [f"statement ok\n{transaction(rng)}" for _ in range(steps)]
    return "\n\n".join(parts) + "\n"


def _view(name: str, query: Query, keys: list[list[str]], keep: str) -> list[str]:
    columns = ",".join(f"c{i}" for i in range(1, query.columns + 1))
    queries = [f"query {name} {' '.join(map(quote, key))}" for key in keys]
    return [f"view {name} any={columns}{keep}\n{query.sql}", *queries]


def _keys(query: Query, rng: Random) -> list[list[str]]:
    if not query.parameters:
        return []
    return [[f"{name}={_given(query, name, kind, rng)}" for name, kind in query.parameters.items()] for _ in range(3)]


def _given(query: Query, parameter: str, kind: str, rng: Random) -> str:
    if parameter in query.lists:
        return f"[{','.join(v for v in rng.sample(values_of(kind), rng.randint(1, 3)) if v)}]"
    return "null" if rng.random() < 0.05 else rng.choice(values_of(kind))
