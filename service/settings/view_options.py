"""Options of a view: the keys beside its SQL, in the configuration file and in a PUT.

Not here: their effects (see the uses of `service.engine.views.registry.ViewOptions`).
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

#: Directives of RFC 9111, 5.2; the pattern excludes characters that could end the header.
CACHE_CONTROL = r'^[A-Za-z][A-Za-z0-9 ,="_-]{0,199}$'

#: Keys in seconds, whose fields end in ``_s``.
_SECONDS = frozenset({"ttl", "stale_while_refresh"})
#: Maximum of rows, bytes and milliseconds: the largest integer that JavaScript represents exactly.
MOST = 1 << 53


class OptionFields(BaseModel):
    """The options of a view; None: chosen by the planner or the service."""

    model_config = ConfigDict(defer_build=True)

    #: Required tier; registration fails if the view cannot be in it.
    tier: Literal["incremental", "refresh", "ttl"] | None = None
    #: Seconds after which answers of the ttl tier expire.
    ttl: float | None = Field(default=None, gt=0, le=86_400)
    #: Full materialization.
    materialization: Literal["full"] | None = None
    #: The Cache-Control header of its answers, for browsers and proxies.
    cache_control: str | None = Field(default=None, pattern=CACHE_CONTROL, examples=["public, max-age=5"])

    #: Effect of a miss: wait until the key is filled, or fall back to the database.
    on_miss: Literal["wait", "forward"] | None = None
    #: Maximum rows of a key; a larger key is not stored, and its reads fall back to the database. It cannot exceed the
    #: limit of `[upstream]`.
    limit_rows: int | None = Field(default=None, ge=1, le=MOST)
    #: Maximum size of a key, approximately, likewise.
    limit_bytes: int | None = Field(default=None, ge=1, le=MOST)

    #: JSON form of 64-bit integers; JavaScript's numbers round beyond 2^53.
    bigint: Literal["number", "string"] | None = None

    #: Maximum lag of answers behind the database before `on_lag` applies. An idle stream is up to a second behind.
    max_lag_ms: int | None = Field(default=None, ge=1, le=MOST)
    #: Effect of a larger lag: serve the answer, wait until the lag is smaller, or fall back to the database.
    on_lag: Literal["serve", "wait", "forward"] | None = None

    #: Seconds for which a read that misses gets the previous answer while it is recomputed.
    stale_while_refresh: float | None = Field(default=None, ge=0.001, le=86_400)

    #: Effect of an answer larger than `[upstream] answer_bytes`: 413, or a stream of the database's rows.
    large_answers: Literal["refuse", "stream"] | None = None

    @model_validator(mode="after")
    def _says_when_it_lags(self) -> Self:
        if self.on_lag in ("wait", "forward") and self.max_lag_ms is None:
            raise ValueError(f"on_lag = {self.on_lag!r} needs max_lag_ms, the lag from which it applies")
        return self

    @classmethod
    def of(cls, options: dict[str, Any]) -> Self:
        """Convert the fields of `service.engine.views.registry.ViewOptions`."""
        return cls(**{name.removesuffix("_s"): value for name, value in options.items()})

    def options(self) -> dict[str, Any]:
        """Convert to the fields of `service.engine.views.registry.ViewOptions`."""
        return {name + "_s" * (name in _SECONDS): getattr(self, name) for name in OptionFields.model_fields}
