"""The connector's settings that decide in which form values are in its events.

With schemas (``value.converter.schemas.enable=true``) every event says its own form. Without them some forms show by
themselves (a decimal as ``12.50``); the others must be stated here: what is not known is refused, never guessed.

Not here: the forms (`values`, `postgres_values`, `mysql_values`).
"""

from dataclasses import dataclass

DECIMAL = ("precise", "string", "double")
TEMPORAL = ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")
BINARY = ("bytes", "base64", "base64-url-safe", "hex")
#: ``unavailable.value.placeholder``
PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class Modes:
    """Settings of the connector, named as there; "" is not stated."""

    #: ``decimal.handling.mode``
    decimal: str = ""
    #: ``time.precision.mode``
    time_precision: str = ""
    #: ``binary.handling.mode``
    binary: str = ""
    #: ``unavailable.value.placeholder``
    unavailable: str = PLACEHOLDER

    def __post_init__(self) -> None:
        for name, value, known in (
            ("decimal.handling.mode", self.decimal, DECIMAL),
            ("time.precision.mode", self.time_precision, TEMPORAL),
            ("binary.handling.mode", self.binary, BINARY),
        ):
            if value and value not in known:
                raise ValueError(f"{name} is one of {', '.join(known)}, not {value!r}.")


class InexactValue(ValueError):
    """A value, or all values of a column, that the event does not tell exactly; the words say which setting would."""


#: What repairs most of it, for the ends of sentences.
WITH_SCHEMAS = "or have events carry schemas (value.converter.schemas.enable=true)"
