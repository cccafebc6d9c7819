"""Which ways there are, by the settings and the database; the first that takes a load reads it."""

from service.engine.initial_load.direct import DirectWay
from service.engine.initial_load.way import Way
from service.engine.upstream.upstream import Upstream
from service.settings.stack import Settings


def ways_of(settings: Settings, upstream: Upstream) -> tuple[Way, ...]:
    """The ways, in the order in which they are asked. Raises `SettingsError`."""
    direct = DirectWay(upstream)
    if settings.spark is None:
        return (direct,)
    from service.engine.builds.spark_way import spark_way

    spark = spark_way(settings, upstream)
    return (direct,) if spark is None else (spark, direct)
