"""Visibility of a MySQL snapshot, from the transactions committed before it and the log's end after it.

*Theory*: `cdc.mysql.bracket`, which requires this order of queries. Percona Server uses the same method: without a
snapshot, its snapshot variables give the log's end, which need not be visible yet.

Not here: MariaDB (`log_place`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cdc.gtid import GtidSet
from cdc.mysql.bracket import BracketSnapshot
from service.engine.databases.mysql.connect import Flavour
from service.engine.databases.mysql.log_place import BEGIN, END, end_place
from service.engine.databases.mysql.wire import ServerReply

_EXECUTED = "SELECT @@GLOBAL.gtid_executed"
_OWNED = "SELECT @@GLOBAL.gtid_owned"


@dataclass(frozen=True, slots=True)
class BracketQuestion:
    """Queries around one snapshot; `compared` if other snapshots are compared with it."""

    flavour: Flavour
    compared: bool

    def statements(self, statements: Sequence[str]) -> list[str]:
        """Returns a transaction with these statements, and the query for the log's end after them."""
        begun = [_OWNED, _EXECUTED] if self.compared else []
        return [_EXECUTED, BEGIN, self.flavour.log_end, *begun, *statements, self.flavour.log_end, END]

    def answer(self, replies: list[ServerReply]) -> tuple[list[ServerReply], BracketSnapshot, int]:
        """Returns the replies to the inner statements, their snapshot, and the log's end after them.

        Raises ServerError, UpstreamError.
        """
        for reply in replies:
            if reply.error is not None:
                raise reply.error
        executed, _, log_end, *rest, bound, _ = replies
        seen, begun = GtidSet.parse(_text(executed)), None
        if self.compared:
            owned, later, *rest = rest
            begun = GtidSet.parse_owned(_text(owned)) | GtidSet.parse(_text(later))
        return rest, BracketSnapshot(seen, end_place(log_end), begun), end_place(bound)


def _text(reply: ServerReply) -> str:
    return str(reply.rows[0][0] or "")
