"""Backend without a cache: a query to the database for each request."""

from collections.abc import Sequence

from load.peers.backend import BackendAnswers, Read
from load.peers.database import Database
from load.peers.statements import Values


class DirectBackend:
    """A `Backend` of nothing but the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self) -> None:
        await self._database.open()

    async def read(self, reads: Sequence[Read]) -> BackendAnswers:
        return BackendAnswers(await self._database.read_many(reads), None)

    async def write(self, name: str, values: Values) -> str:
        return await self._database.write(name, values)
