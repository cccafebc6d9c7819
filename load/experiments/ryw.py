"""Read your writes: pairs of a committed write and a read of its rows, with the write's token and without.

A token is the database's log position after the commit. With it no read may miss the write; without it a read that is
faster than the change stream does.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated

import psycopg
import typer

from load.plain_http import PlainClient
from load.progress import Tell
from load.report.figures import Figure, Measurement
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import ReportTable
from load.report.report import Report
from load.sides.postgres import running_upstream
from load.sides.upquery import upquery
from load.workloads import own_writes
from load.workloads.own_writes import PairCounts, Pairs, PostgresAuthor

BENCH = "ryw"
SHORT = ("--pairs", "2000")
_COUNTERS = 100
#: Connections, which the system spreads over the workers.
_CONNECTIONS = 8
_PERCENTILES = (50, 90, 99, 99.9)


def command(
    pairs: Annotated[
        int, typer.Option(min=1, help="Writes, each with a read; once with the token, once without.")
    ] = 10_000,
    workers: Annotated[int, typer.Option(min=1, help="API workers.")] = 2,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Reads right after writes: share that misses the write, with its token (must be none) and without."""
    perform(BENCH, lambda _, tell: run(pairs, workers, tell), as_json=as_json, output=output)


def run(pairs: int, workers: int, tell: Tell) -> Report:
    """One run: all pairs with tokens, then as many without."""
    tell(f"{_COUNTERS} counters: loading")
    with (
        running_upstream(own_writes.SITE, _load) as upstream,
        upquery(workers=workers)(upstream, own_writes.SITE) as side,
        psycopg.connect(upstream.url, autocommit=True) as connection,
        ExitStack() as stack,
    ):
        clients = [stack.enter_context(PlainClient(side.reads_url)) for _ in range(_CONNECTIONS)]
        made = Pairs(PostgresAuthor(connection), clients, _COUNTERS)
        tell(f"{pairs:,} pairs with the token")
        with_token = made.run(pairs, with_token=True)
        tell(f"{pairs:,} pairs without")
        without = made.run(pairs, with_token=False)
    return _report(with_token, without, workers)


def _load(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(own_writes.fill_sql(_COUNTERS))


def _report(with_token: PairCounts, without: PairCounts, workers: int) -> Report:
    about = (
        f"One client commits a transaction of two statements and reads what it changed at once, {with_token.pairs:,}"
        f" times with a token (the database's position, asked for after the commit) and as often without, by"
        f" {_CONNECTIONS} connections in turns, to {workers} API workers. A read misses if its answer does not have the"
        f" write. Answers with a part of a transaction: {with_token.torn + without.torn}."
    )
    share = 100 * without.missed / without.pairs
    return Report(
        title="Read your writes",
        about=about,
        results=[
            Figure(
                BENCH,
                "own writes missed, with the token",
                Measurement.of([float(with_token.missed)]),
                "",
                0.0,
                False,
                f"of {with_token.pairs:,} reads",
            ),
            Figure(
                BENCH,
                "own writes missed, without",
                Measurement.of([share]),
                "%",
                None,
                False,
                f"{without.missed:,} of {without.pairs:,} reads",
            ),
        ],
        tables=[_table(with_token, without)],
    )


def _table(*sides: PairCounts) -> ReportTable:
    ordered = [sorted(found.milliseconds) for found in sides]
    rows = [(f"read, p{p:g}, ms", *(f"{_percentile(one, p):.2f}" for one in ordered)) for p in _PERCENTILES]
    return ReportTable("How long the reads took", ("what", "with the token", "without"), rows)


def _percentile(values: Sequence[float], percent: float) -> float:
    return values[min(len(values) - 1, int(len(values) * percent / 100))]
