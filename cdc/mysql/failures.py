"""Errors of MariaDB and MySQL as sentences for the user, and whether a retry may help.

*Invariant*: no text has a password: the server's messages have none, and connection options are not quoted.

Not here: errors in the log's content (`assembler`).
"""

from cdc.change import StreamLost

#: Errors that a retry cannot repair: wrong password, unknown database or host, missing privileges.
_FATAL = frozenset({1044, 1045, 1049, 1130, 1142, 1227, 1251, 1698, 1873})
_PRIVILEGES = frozenset({1142, 1227})
#: The requested position cannot be read from the log.
LOG_LOST = 1236
GRANT_STATEMENT = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO …;"


def lost(problem: BaseException) -> StreamLost:
    """Return the StreamLost for an error of the server, or of the connection to it."""
    code, message = code_and_message(problem)
    if code == LOG_LOST:
        return StreamLost(f"The binary log cannot be read from the stream's position: {message}", retryable=True)
    hint = f"Run: {GRANT_STATEMENT}" if code in _PRIVILEGES else None
    return StreamLost(f"{message[:1].upper()}{message[1:]}", retryable=code not in _FATAL, hint=hint)


def may_reconnect(problem: BaseException) -> bool:
    """Return whether a new connection may continue the stream."""
    code, _ = code_and_message(problem)
    return code != LOG_LOST and code not in _FATAL


def code_and_message(problem: BaseException) -> tuple[int, str]:
    """Return the number of an error (0 if it has none), and a sentence."""
    match problem.args:
        case (int(code), str(message)) if not isinstance(problem, OSError):
            return code, message.rstrip(".") + "."
    return 0, f"The connection to the server broke: {str(problem) or type(problem).__name__}."
