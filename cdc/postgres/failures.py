"""Errors of PostgreSQL as sentences for the user, with a code and whether a retry may help.

*Invariant*: no text has a password. libpq does not print it, but quotes a connection string that it cannot parse.

Not here: retrying (the callers that connect).
"""

import re
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

#: Code and retryability by SQLSTATE, or by its class of two characters. Others are errors of the statement or its data:
#: functions may raise any SQLSTATE.
_STATES: dict[str, tuple[str, bool]] = {
    "08": ("unavailable", True),
    "25006": ("denied", False),
    "28": ("credentials", False),
    "3D000": ("missing", False),
    "3F000": ("missing", False),
    "40": ("failed", True),
    "42501": ("denied", False),
    "42704": ("missing", False),
    "42P01": ("missing", False),
    "42703": ("missing", False),
    "53": ("overloaded", True),
    "55P03": ("timeout", True),
    "57014": ("timeout", True),
    "57P": ("unavailable", True),
    "58": ("failed", True),
    "XX": ("failed", True),
}
#: Context of an error in a parameter's text (PostgreSQL's `bind_param_error_callback`).
_OF_PARAMETER = re.compile(r"^(unnamed portal|portal .*) parameter \$\d+")

#: Errors of refused connections, which have no SQLSTATE, by a fragment of the server's message.
_REFUSALS: tuple[tuple[str, str, bool, str | None], ...] = (
    ("password authentication failed", "credentials", False, "Check the user and the password."),
    ("no password supplied", "credentials", False, "Set a password for the upstream."),
    ("authentication failed", "credentials", False, "Check the user and the password."),
    ("no pg_hba.conf entry", "credentials", False, "Allow this host and user in pg_hba.conf."),
    ("pg_hba.conf rejects", "credentials", False, "Allow this host and user in pg_hba.conf."),
    ("permission denied to start WAL sender", "denied", False, None),
    ("must be superuser or replication role", "denied", False, None),
    ("max_wal_senders", "overloaded", True, "Raise max_wal_senders."),
    ("sorry, too many clients", "overloaded", True, "Raise max_connections, or lower the pool size."),
    ("remaining connection slots are reserved", "overloaded", True, "Raise max_connections, or lower the pool size."),
    ("too many connections for", "overloaded", True, "Raise its CONNECTION LIMIT, or lower the pool size."),
    ("could not translate host name", "unavailable", True, "Check the host name."),
)


@dataclass(frozen=True, slots=True)
class PostgresFailure:
    """One error: `code` as in `UpstreamError`, a sentence, a remedy, and whether a retry may help."""

    code: str
    detail: str
    hint: str | None
    retryable: bool


def classify(problem: BaseException, conninfo: str) -> PostgresFailure:
    """Classify psycopg's error, or a timeout, on a connection made with `conninfo`."""
    detail = without_password(_sentence(problem), conninfo)
    state = getattr(problem, "sqlstate", None)
    if state is not None:
        code, retryable = _by_state(state)
        if code == "invalid" and _is_of_parameter(problem):
            code = "parameter"
        return PostgresFailure(code, detail, without_password(_hint(problem) or "", conninfo) or None, retryable)
    if isinstance(problem, TimeoutError | psycopg.errors.ConnectionTimeout):
        return PostgresFailure("timeout", detail or "The upstream did not answer in time.", None, True)
    return _refusal(detail, conninfo)


def check_conninfo(conninfo: str) -> None:
    """Raise ValueError, without quoting it, for a connection string that libpq cannot parse."""
    try:
        conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        raise ValueError(
            "The upstream's connection string cannot be read. It looks like postgresql://user@host:5432/database; "
            "special characters in user and password are %-encoded."
        ) from None


def without_password(text: str, conninfo: str) -> str:
    """Return `text` with the password of `conninfo` replaced by asterisks."""
    try:
        password = conninfo_to_dict(conninfo).get("password")
    except psycopg.ProgrammingError:
        password = None
    return text.replace(str(password), "***") if password else text


def _by_state(state: str) -> tuple[str, bool]:
    for length in (5, 3, 2):
        if state[:length] in _STATES:
            return _STATES[state[:length]]
    return "invalid", False


def _refusal(detail: str, conninfo: str) -> PostgresFailure:
    for fragment, code, retryable, hint in _REFUSALS:
        if fragment in detail:
            return PostgresFailure(code, detail, hint or replication_hint(conninfo), retryable)
    if "does not exist" in detail:
        if 'database "' in detail:
            return PostgresFailure("missing", detail, "Check the database's name in the upstream's URL.", False)
        return PostgresFailure("credentials", detail, "Check the user in the upstream's URL.", False)
    return PostgresFailure("unavailable", detail, "Check that the server runs and can be reached.", True)


def replication_hint(conninfo: str) -> str:
    """Return the statement that allows the connection's role to replicate."""
    role = conninfo_to_dict(conninfo).get("user") or "…"
    return f'A superuser must run: ALTER ROLE "{role}" REPLICATION;'


def stream_hint(failure: PostgresFailure, problem: BaseException, conninfo: str) -> str | None:
    """Return the remedy of a change stream's error."""
    state = getattr(problem, "sqlstate", None)
    if "wal_level" in failure.detail:
        return "Run: ALTER SYSTEM SET wal_level = 'logical'; and restart PostgreSQL."
    if state == "53400":
        return "Raise max_replication_slots: ALTER SYSTEM SET max_replication_slots = 20; and restart PostgreSQL."
    if state == "42501" and failure.hint is None:
        return replication_hint(conninfo)
    return failure.hint


def _sentence(problem: BaseException) -> str:
    """Return the server's primary message if the error has one: psycopg's text has several lines."""
    diagnostics = getattr(problem, "diag", None)
    if diagnostics is not None and diagnostics.message_primary:
        return str(diagnostics.message_primary)
    text = " ".join(str(problem).split())
    return text.partition(" Multiple connection attempts failed")[0] or text


def _is_of_parameter(problem: BaseException) -> bool:
    diagnostics = getattr(problem, "diag", None)
    return bool(diagnostics is not None and _OF_PARAMETER.match(diagnostics.context or ""))


def _hint(problem: BaseException) -> str | None:
    diagnostics = getattr(problem, "diag", None)
    return None if diagnostics is None else diagnostics.message_hint
