"""Ways to read an initial load, by the settings and the database; the first one that accepts a load reads it."""

from service.engine.initial_load.direct import DirectWay
from service.engine.initial_load.way import Way
from service.engine.upstream.upstream import Upstream
from service.settings.stack import Settings


def ways_of(settings: Settings, upstream: Upstream) -> tuple[Way, ...]:
    """Ways in the order in which a load is offered to them. Raises `SettingsError`."""
    direct = DirectWay(upstream)
    if settings.spark is None:
        return (direct,)
    from service.engine.builds.spark_way import spark_way

    spark = spark_way(settings, upstream)
    return (direct,) if spark is None else (spark, direct)
