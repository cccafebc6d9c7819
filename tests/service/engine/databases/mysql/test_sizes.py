"""How much lookups of everything would answer, by MariaDB's planner."""

import pytest

from dataflow.plan.estimate import Size
from dataflow.plan.expressions import BOOL
from dataflow.plan.nodes import Chain
from dataflow.scalar import Call, ColumnRef, Literal
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import run
from tests.service.engine.databases.mysql.upstreams import opened

pytestmark = pytest.mark.mariadb


def test_rows_by_condition_and_their_width(mariadb: MariaDatabase) -> None:
    mariadb.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, name varchar(200), KEY (n))",
        "INSERT INTO t SELECT seq, seq % 10, REPEAT('x', 100) FROM seq_1_to_5000",
        "ANALYZE TABLE t",
    )

    async def sizes() -> list[Size]:
        async with opened(mariadb.url) as upstream, upstream.session() as session:
            catalog = await session.load_catalog()
            name = f"{mariadb.name}.t"
            columns = tuple(ColumnRef(i, c.type) for i, c in enumerate(catalog.tables[name].columns))
            is_three = Call("=", (columns[1], Literal("3", columns[1].type)), BOOL)
            chains = [Chain(name, None, columns), Chain(name, is_three, columns), Chain(name, None, columns[:1])]
            found = await session.expected_sizes(chains, catalog)
            return [found[chain] for chain in chains]

    whole, some, narrow = run(sizes())
    assert 4000 < whole.rows < 6000
    assert 300 < some.rows < 1000
    assert 100 < whole.row_bytes < 500
    assert narrow.row_bytes < whole.row_bytes / 2
