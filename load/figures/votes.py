"""Votes as fast as a database takes them: the writes of the benchmarks.

Rows are of voters of the benchmark's own, so that no run meets another's votes.
"""

from dataclasses import dataclass
from itertools import count

import psycopg

from load.figures.demo_site import STORIES

#: Votes of one transaction.
BATCH = 100
_BLOCKS = STORIES // BATCH
_runs = count(1)

_CAST = f"""
DO $$
BEGIN
    SET session_replication_role = replica;
    FOR n IN {{first}} .. {{last}} LOOP
        INSERT INTO votes (story_id, user_id, value)
        SELECT s, 'bench-{{run}}-' || n / {_BLOCKS}, 1
        FROM generate_series((n % {_BLOCKS}) * {BATCH} + 1, (n % {_BLOCKS} + 1) * {BATCH}) s;
        COMMIT;
    END LOOP;
END $$
"""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Votes that are in the database's log."""

    changes: int
    transactions: int


def cast_votes(database: str, changes: int) -> Backlog:
    """Insert `changes` votes, spread over all stories, in transactions of `BATCH`, as fast as the database can.

    Foreign keys are not checked meanwhile (the voters do not exist): the database's part should be small.
    """
    transactions = changes // BATCH
    with psycopg.connect(database, autocommit=True) as connection:
        statement = _CAST.format(first=0, last=transactions - 1, run=next(_runs))
        connection.execute(statement.encode())
    return Backlog(transactions * BATCH, transactions)
