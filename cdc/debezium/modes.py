"""Settings of the connector that determine the form of values in its events.

With schemas (``value.converter.schemas.enable=true``) each event declares its forms. Without them some forms are
recognizable (a decimal as ``12.50``); the others must be stated: an unknown form is refused, never guessed.

Not here: the forms (`forms`, `postgres_values`, `mysql_values`).
"""

from dataclasses import dataclass

DECIMAL = ("precise", "string", "double")
TEMPORAL = ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")
BINARY = ("bytes", "base64", "base64-url-safe", "hex")
#: ``unavailable.value.placeholder``
PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class Modes:
    """Settings of the connector; "" is not stated."""

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
                raise ValueError(f"{name} must be one of {', '.join(known)}: got {value!r}.")


class InexactValue(ValueError):
    """A value, or a column's values, that events do not carry exactly; the text names the setting that changes it."""


#: The remedy for most of them, for the end of a sentence.
WITH_SCHEMAS = "or have events carry schemas (value.converter.schemas.enable=true)"
