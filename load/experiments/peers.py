"""The vote benchmark on Upquery and its peers, at rising load."""

from collections.abc import Mapping
from typing import Annotated

import typer

from load.experiments import vote
from load.processes import RunConditions
from load.progress import Tell
from load.report.output import JsonOption, OutputOption, perform
from load.report.report import Report
from load.sides.cache_aside import memcached, redis, redis_alone
from load.sides.direct import direct
from load.sides.empty import empty
from load.sides.materialized_view import materialized_view
from load.sides.side import StartSide
from load.sides.upquery import upquery
from load.workloads.vote import VoteSpec

SHORT = (*vote.SHORT, "upquery", "direct", "empty")

SIDES: Mapping[str, StartSide] = {
    "upquery": upquery("1GiB"),
    "full": upquery("64GiB", full=True),
    "direct": direct,
    "redis": redis(invalidate=True),
    "redis-ttl": redis(invalidate=False, ttl_s=5),
    "memcached": memcached(invalidate=True),
    "memcached-ttl": memcached(invalidate=False, ttl_s=5),
    "materialized-view": materialized_view(refresh_s=5),
    "redis-alone": redis_alone(),
    "empty": empty(),
}


def command(
    sides: Annotated[list[str] | None, typer.Argument(help=f"Some of: {', '.join(SIDES)}. Default: all.")] = None,
    stories: vote.StoriesOption = 100_000,
    votes_each: vote.VotesOption = 5,
    alpha: vote.AlphaOption = 1.15,
    read_share: vote.ReadShareOption = 0.99,
    seconds: vote.SecondsOption = 8.0,
    p95_ms: Annotated[float, typer.Option(help="Limit of the 95th percentile.")] = 20.0,
    start_rate: Annotated[float, typer.Option(help="Visits a second at the start.")] = 500.0,
    most_rate: Annotated[float, typer.Option(help="Maximum visits a second.")] = 32_000.0,
    hottest: Annotated[int, typer.Option(min=0, help="Hottest stories to read before.")] = 50_000,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each side.")] = 1,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Vote on Upquery, the database alone, Redis and memcached as caches, materialized views, and the limits."""
    if unknown := set(sides or ()) - set(SIDES):
        raise typer.BadParameter(f"no side named {', '.join(sorted(unknown))}")
    options = vote.Options(
        VoteSpec(stories, alpha, read_share), votes_each, seconds, p95_ms, start_rate, most_rate, hottest, rounds
    )
    wanted = {name: SIDES[name] for name in sides or SIDES}

    def work(conditions: RunConditions, tell: Tell) -> Report:
        return vote.run(options, wanted, conditions=conditions, tell=tell, name="peers")

    perform("peers", work, as_json=as_json, output=output)
