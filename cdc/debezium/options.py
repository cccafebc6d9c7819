"""What the user says of the Kafka cluster and of the Debezium connector whose topics are read.

The fields are those of ``[cdc.kafka]`` in the settings, with their defaults. The connector's modes are needed only
where events come without schemas and a value alone does not show which was in use; see `modes`.

Not here: reading settings (`service.settings`).
"""

from dataclasses import dataclass, field

from cdc.debezium.modes import PLACEHOLDER, Modes


@dataclass(frozen=True, slots=True)
class DebeziumOptions:
    """Where the topics are, and how the broker is spoken to."""

    #: ``host:port``, several separated by commas.
    bootstrap_servers: str
    #: The connector's ``topic.prefix``.
    topic_prefix: str
    #: The topic of BEGIN and END events; "": ``<topic_prefix>.transaction``.
    transaction_topic: str = ""
    #: If one topic of one partition holds all events, its name; "": every table has its own.
    routed_topic: str = ""
    #: MariaDB, MySQL: a captured table (``db.table``) that is written to only to push the stream on.
    watermark_table: str = ""
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    sasl_username: str = ""
    sasl_password: str = field(default="", repr=False)
    ssl_cafile: str = ""
    ssl_certfile: str = ""
    ssl_keyfile: str = ""
    #: How long events that a transaction must have may be missing from topics that have been read to their ends.
    gap_timeout_s: float = 30.0
    #: The connector's settings of these names, with points for underscores; "": not stated.
    decimal_handling_mode: str = ""
    time_precision_mode: str = ""
    binary_handling_mode: str = ""
    unavailable_value_placeholder: str = PLACEHOLDER

    @property
    def transactions(self) -> str:
        """The topic that BEGIN and END events are in."""
        return self.routed_topic or self.transaction_topic or f"{self.topic_prefix}.transaction"

    @property
    def modes(self) -> Modes:
        """In which form values are in the events, as far as it is stated. ValueError: a mode that Debezium lacks."""
        return Modes(
            self.decimal_handling_mode,
            self.time_precision_mode,
            self.binary_handling_mode,
            self.unavailable_value_placeholder,
        )
