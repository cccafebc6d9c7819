"""kafka-python's settings, and its errors as sentences for the user.

*Invariant*: no text has a password.

Not here: topics and offsets (`feed`).
"""

import socket
from typing import Any

from kafka import errors
from kafka.cluster import collect_hosts

from cdc.change import StreamLost
from cdc.debezium.options import DebeziumOptions
from cdc.keepalive import socket_options

#: Maximum delay until new partitions, and topics that were created again, are noticed.
METADATA_MS = 5000
REQUEST_MS = 10_000

_HINTS: tuple[tuple[type[Exception], str, bool, str | None], ...] = (
    (
        errors.SaslAuthenticationFailedError,
        "The broker refused the user or the password",
        False,
        "Check cdc.kafka.sasl_username and sasl_password.",
    ),
    (
        errors.UnsupportedSaslMechanismError,
        "The broker does not know the SASL mechanism",
        False,
        "Check cdc.kafka.sasl_mechanism.",
    ),
    (errors.AuthorizationError, "The user may not read", False, "Allow it to describe and read these topics."),
    (
        errors.OffsetOutOfRangeError,
        "Records were removed before they were read: their topic was truncated or created again",
        True,
        "Raise retention.ms of the connector's topics.",
    ),
    (errors.LogTruncationError, "A topic lost records that had been read", True, None),
    (errors.CorruptRecordError, "A record does not match its checksum", True, None),
    (errors.KafkaConfigurationError, "kafka-python does not accept the settings", False, None),
)


def client_settings(options: DebeziumOptions) -> dict[str, Any]:
    """Return the settings of every client."""
    settings: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in options.bootstrap_servers.split(",")],
        "client_id": "upquery",
        "security_protocol": options.security_protocol,
        "request_timeout_ms": REQUEST_MS,
        "bootstrap_timeout_ms": REQUEST_MS,
        "metadata_max_age_ms": METADATA_MS,
        "socket_options": [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), *socket_options()],
    }
    optional = {
        "sasl_mechanism": options.sasl_mechanism,
        "sasl_plain_username": options.sasl_username,
        "sasl_plain_password": options.sasl_password,
        "ssl_cafile": options.ssl_cafile,
        "ssl_certfile": options.ssl_certfile,
        "ssl_keyfile": options.ssl_keyfile,
    }
    return settings | {name: value for name, value in optional.items() if value}


def consumer_settings(options: DebeziumOptions) -> dict[str, Any]:
    """Return the consumer's settings: no group, no commits, explicit offsets only."""
    return client_settings(options) | {
        "group_id": None,
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }


def require_broker(options: DebeziumOptions) -> None:
    """Raise OSError if none of the servers accepts a connection.

    kafka-python itself retries for REQUEST_MS, and does not report the cause.
    """
    servers = collect_hosts(client_settings(options)["bootstrap_servers"], randomize=False)
    for number, (host, port, _) in enumerate(servers, start=1):
        try:
            socket.create_connection((host, port), REQUEST_MS / 1000 / len(servers)).close()
        except OSError:
            if number == len(servers):
                raise
        else:
            return


def lost(problem: Exception, options: DebeziumOptions) -> StreamLost:
    """Return the StreamLost for an error of kafka-python or the network."""
    for kind, reason, retryable, hint in _HINTS:
        if isinstance(problem, kind):
            return StreamLost(f"{reason} ({_words(problem, options)}).", retryable, hint)
    if isinstance(problem, errors.KafkaError | OSError):
        at = options.bootstrap_servers
        return StreamLost(f"Kafka at {at} failed: {_words(problem, options)}.", retryable=True)
    return StreamLost(f"Reading from Kafka failed: {_words(problem, options)}.", retryable=True)


def _words(problem: Exception, options: DebeziumOptions) -> str:
    text = f"{type(problem).__name__}: {problem}".rstrip(".: ")
    return text.replace(options.sasl_password, "***") if options.sasl_password else text
