"""Classification of MariaDB and MySQL errors: code, text for the user, retryable or not.

*Invariants*: no error contains a password.

Not here: retries (by the caller).
"""

from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.packets import ServerError
from service.engine.upstream.results import UpstreamError

#: Error numbers (MariaDB Knowledge Base, "MariaDB Error Codes"; MySQL, "Server Error Message Reference"): (code,
#: retryable). Other numbers are classified by their SQLSTATE.
_NUMBERS: dict[int, tuple[str, bool]] = {
    **dict.fromkeys((1045, 1130, 1251, 1524, 1698, 1820, 1862, 3118, 4150, 4151), ("credentials", False)),
    **dict.fromkeys((1044, 1142, 1143, 1227, 1290, 1370, 1410, 1419), ("denied", False)),
    **dict.fromkeys((1049, 1054, 1109, 1146, 1305, 1630), ("missing", False)),
    **dict.fromkeys((1205, 1317, 1969, 3024), ("timeout", True)),
    **dict.fromkeys((1040, 1041, 1129, 1203, 1226), ("overloaded", True)),
    **dict.fromkeys((1053, 1077, 1152, 1184, 1927, 2002, 2003, 2006, 2013, 4031), ("unavailable", True)),
    # A table altered after the snapshot; a deadlock; a crashed table; files, disks and memory.
    **dict.fromkeys((1020, 1213, 1412, 1615), ("failed", True)),
    **dict.fromkeys((1016, 1021, 1023, 1024, 1026, 1030, 1037, 1038), ("failed", True)),
}
#: Other errors concern the statement or its data: functions may signal any SQLSTATE.
_STATES: dict[str, tuple[str, bool]] = {
    "08": ("unavailable", True),
    "28": ("credentials", False),
    "40": ("failed", True),
    "70": ("timeout", True),
}
_HINTS = {
    1045: "Check the user and the password.",
    1698: "Check the user and the password.",
    1130: "Allow this host: the user exists for other hosts only (CREATE USER … @'host').",
    1040: "Raise max_connections, or lower the pool size.",
    1203: "Raise max_user_connections, or lower the pool size.",
    1049: "Check the database's name in the upstream's URL.",
}


def server_failure(error: ServerError, address: Address) -> UpstreamError:
    """Converts an error reported by the server."""
    code, retryable = _NUMBERS.get(error.number) or _STATES.get(error.state[:2]) or ("invalid", False)
    detail = address.without_password(error.message.strip())
    return UpstreamError(code, detail, _HINTS.get(error.number), retryable)


def connect_failure(problem: BaseException, address: Address) -> UpstreamError:
    """Converts an error raised while connecting."""
    number, text = _arguments(problem)
    if number in _NUMBERS and number not in (2002, 2003):
        return server_failure(ServerError(number, "", text), address)
    detail = address.without_password(text or type(problem).__name__)
    if isinstance(problem, TimeoutError) and not text:
        return UpstreamError("timeout", "The upstream did not respond in time.", retryable=True)
    return UpstreamError("unavailable", detail, "Check that the server runs and can be reached.", True)


def _arguments(problem: BaseException) -> tuple[int, str]:
    """Returns the number and text of PyMySQL's error."""
    arguments = problem.args
    if len(arguments) == 2 and isinstance(arguments[0], int):
        return arguments[0], str(arguments[1])
    return 0, str(problem)
