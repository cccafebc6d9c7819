"""How a user wants a view to be kept and served: the keys beside its SQL, in the configuration file and in a PUT alike.

Not here: what they do (`service.engine.views.registry.ViewOptions` goes to where that is).
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

#: Directives of RFC 9111, 5.2, and nothing that could end the header.
CACHE_CONTROL = r'^[A-Za-z][A-Za-z0-9 ,="_-]{0,199}$'

#: Keys whose fields have the unit in their names.
_SECONDS = frozenset({"ttl", "stale_while_refresh"})
#: Of rows, bytes or milliseconds: more are no bound, and larger numbers are not understood everywhere.
MOST = 1 << 53


class OptionFields(BaseModel):
    """The options of a view; None: as the planner or the service finds best."""

    model_config = ConfigDict(defer_build=True)

    #: Keep it so, or refuse it.
    tier: Literal["incremental", "refresh", "ttl"] | None = None
    #: Seconds for which an answer is good, if it is of a view that only expires.
    ttl: float | None = Field(default=None, gt=0, le=86_400)
    #: Keep it whole.
    materialization: Literal["full"] | None = None
    #: The Cache-Control header of its answers, for browsers and proxies.
    cache_control: str | None = Field(default=None, pattern=CACHE_CONTROL, examples=["public, max-age=5"])

    #: What a read does of what is not there: wait until it is filled, or be answered by the database meanwhile.
    on_miss: Literal["wait", "forward"] | None = None
    #: A key of more rows, or of about more bytes, is not stored: the database answers its reads. The limits of the
    #: service (`[upstream]`) cannot be raised here.
    limit_rows: int | None = Field(default=None, ge=1, le=MOST)
    limit_bytes: int | None = Field(default=None, ge=1, le=MOST)

    #: How integers of 64 bits are written; JavaScript's numbers round beyond 2^53.
    bigint: Literal["number", "string"] | None = None

    #: What a read does when answers are further behind the database than this: serve them, wait until they are not, or
    #: be answered by the database. An idle stream is up to a second behind.
    max_lag_ms: int | None = Field(default=None, ge=1, le=MOST)
    on_lag: Literal["serve", "wait", "forward"] | None = None

    #: Seconds for which a read that misses is given the answer of before, while it is run again.
    stale_while_refresh: float | None = Field(default=None, ge=0.001, le=86_400)

    #: What a read of one view gets whose answer is too large to be held (`[upstream] answer_bytes`): 413, or the
    #: database's rows as they come.
    large_answers: Literal["refuse", "stream"] | None = None

    @model_validator(mode="after")
    def _says_when_it_lags(self) -> Self:
        if self.on_lag in ("wait", "forward") and self.max_lag_ms is None:
            raise ValueError(f"on_lag = {self.on_lag!r} needs max_lag_ms, from which on it is done")
        return self

    @classmethod
    def of(cls, options: dict[str, Any]) -> Self:
        """From the fields of `service.engine.views.registry.ViewOptions`."""
        return cls(**{name.removesuffix("_s"): value for name, value in options.items()})

    def options(self) -> dict[str, Any]:
        """The options as `service.engine.views.registry.ViewOptions` takes them."""
        return {name + "_s" * (name in _SECONDS): getattr(self, name) for name in OptionFields.model_fields}
