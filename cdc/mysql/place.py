"""Places of MariaDB's binary log at which a stream of another process can continue.

A place is exact: the server with its version, the file with the time of its first event, the offset, and the global
ids of all that precedes it. After RESET MASTER, a fail-over, a restored backup or a purge one of these differs.

Not here: positions, which are compared within one log only (`position`).
"""

import json
from dataclasses import asdict, dataclass
from typing import Self

from cdc.gtid import GtidPosition
from cdc.mysql.position import position_of
from cdc.mysql.server import Connection, Server, gtids_at


@dataclass(frozen=True, slots=True)
class BinlogPlace:
    """A place between two groups of events."""

    server: str
    version: str
    file: str
    offset: int
    #: Time of the file's first event, in seconds.
    file_time: int
    #: As the server prints them.
    gtids: str

    def text(self) -> str:
        """The place as text."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a place. Raises ValueError."""
        try:
            return cls(**json.loads(text))
        except TypeError as problem:
            raise ValueError(str(problem)) from None

    @property
    def position(self) -> int:
        """The stream's position there."""
        return position_of(self.file, self.offset)

    def refusal(self, connection: Connection, server: Server) -> str:
        """Return why the server's log does not have this place; empty if it does, as far as can be said before the
        file is read."""
        if (server.name, server.version) != (self.server, self.version):
            return f"The server is {server.name}, version {server.version}: it was {self.server}, {self.version}."
        if gtids_at(connection, self.file, self.offset) != GtidPosition.parse(self.gtids):
            return f"The binary log does not have {self.file}:{self.offset}, or other transactions before it."
        return ""
