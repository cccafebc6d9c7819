"""How a Kafka broker is spoken to: kafka-python's settings, and its errors in words for the user.

*Invariant*: no words hold a password.

Not here: topics and offsets (`feed`).
"""

import socket
from typing import Any

from kafka import errors
from kafka.cluster import collect_hosts

from cdc.change import StreamLost
from cdc.debezium.options import DebeziumOptions
from cdc.keepalive import socket_options

#: How soon new partitions, and topics that were made anew, are noticed.
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
        "Records that had not been read are gone: their topic was cut off or made anew",
        True,
        "Raise retention.ms of the connector's topics.",
    ),
    (errors.LogTruncationError, "A topic lost records that had been read", True, None),
    (errors.CorruptRecordError, "A record does not match its checksum", True, None),
    (errors.KafkaConfigurationError, "kafka-python does not accept the settings", False, None),
)


def client_settings(options: DebeziumOptions) -> dict[str, Any]:
    """What every client is made with."""
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
    """What the consumer is made with: no group, no commits, no offset but those it is told."""
    return client_settings(options) | {
        "group_id": None,
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }


def require_broker(options: DebeziumOptions) -> None:
    """Raises OSError if no connection to any of the servers can be made. (kafka-python tries for REQUEST_MS, whatever
    it is told, and does not say what the matter was.)"""
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
    """What an error of kafka-python (or of the network) means."""
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
