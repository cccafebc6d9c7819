"""Options of the Kafka cluster and the Debezium connector.

The fields are those of ``[cdc.kafka]`` in the settings. The connector's modes are needed only if events have no schemas
and a value is ambiguous (`modes`).

Not here: reading settings (`service.settings`).
"""

from dataclasses import dataclass, field

from cdc.debezium.modes import PLACEHOLDER, Modes


@dataclass(frozen=True, slots=True)
class DebeziumOptions:
    """Location of the topics, and connection to the broker."""

    #: ``host:port``, separated by commas.
    bootstrap_servers: str
    #: The connector's ``topic.prefix``.
    topic_prefix: str
    #: The transaction topic; "": ``<topic_prefix>.transaction``.
    transaction_topic: str = ""
    #: Name of the one topic, with one partition, of all events; "": each table has a topic.
    routed_topic: str = ""
    #: MariaDB, MySQL: a captured table (``db.table``) that is written to in order to move an idle stream.
    watermark_table: str = ""
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    sasl_username: str = ""
    sasl_password: str = field(default="", repr=False)
    ssl_cafile: str = ""
    ssl_certfile: str = ""
    ssl_keyfile: str = ""
    #: Maximum time that events of a transaction may be missing from topics that are read to their ends.
    gap_timeout_s: float = 30.0
    #: The connector's settings of these names, with dots for underscores; "": not stated.
    decimal_handling_mode: str = ""
    time_precision_mode: str = ""
    binary_handling_mode: str = ""
    unavailable_value_placeholder: str = PLACEHOLDER

    @property
    def transactions(self) -> str:
        """The topic of BEGIN and END events."""
        return self.routed_topic or self.transaction_topic or f"{self.topic_prefix}.transaction"

    @property
    def modes(self) -> Modes:
        """The stated modes. Raises ValueError for an unknown one."""
        return Modes(
            self.decimal_handling_mode,
            self.time_precision_mode,
            self.binary_handling_mode,
            self.unavailable_value_placeholder,
        )
