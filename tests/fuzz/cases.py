"""A seed's file: views, the keys that are read of each, changes between the reads; in the corpus's own format, so that
what went wrong can be kept as it is (`tests/sql/README.md`).
"""

from random import Random
from shlex import quote

from tests.fuzz.changes import transaction
from tests.fuzz.queries import Query, QueryGenerator, values_of


def file_of(seed: int, views: int, steps: int) -> str:
    """The text of a corpus file."""
    rng = Random(seed)
    generator = QueryGenerator(rng)
    parts = [f"feature fuzz, seed {seed}\ntier incremental", "include shared/data.test"]
    for number in range(views):
        parts += _view(f"fuzz_{number}", generator.view(), rng)
    parts += [f"statement ok\n{transaction(rng)}" for _ in range(steps)]
    return "\n\n".join(parts) + "\n"


def _view(name: str, query: Query, rng: Random) -> list[str]:
    columns = ",".join(f"c{i}" for i in range(1, query.columns + 1))
    parts = [f"view {name} any={columns}\n{query.sql}"]
    if not query.parameters:
        return parts
    for _ in range(3):
        given = [f"{parameter}={_given(query, parameter, kind, rng)}" for parameter, kind in query.parameters.items()]
        parts.append(f"query {name} {' '.join(map(quote, given))}")
    return parts


def _given(query: Query, parameter: str, kind: str, rng: Random) -> str:
    if parameter in query.lists:
        return f"[{','.join(v for v in rng.sample(values_of(kind), rng.randint(1, 3)) if v)}]"
    return "null" if rng.random() < 0.05 else rng.choice(values_of(kind))
