"""Which ways there are, by the settings and the database; the first that takes a load reads it."""

from service.runtime.loading.direct import Direct
from service.runtime.loading.way import Way
from service.settings.load import Settings
from service.upstream.upstream import Upstream


def ways_of(settings: Settings, upstream: Upstream) -> tuple[Way, ...]:
    """The ways, in the order in which they are asked. Raises `SettingsError`."""
    direct = Direct(upstream)
    if settings.spark is None:
        return (direct,)
    from service.runtime.builds.spark_way import spark_way

    spark = spark_way(settings, upstream)
    return (direct,) if spark is None else (spark, direct)
