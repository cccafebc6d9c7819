"""Our contract's requests, as a peer answers them, apart from any framework.

*Not here*: pages by token, versions, entity tags: nothing that a peer would have to pay for without being asked.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson
from psycopg import DataError, IntegrityError

from load.peers.backend import Backend, BackendAnswers, Read
from load.peers.statements import ParameterError, Parameters
from load.site import SiteDefinition

#: What a client can do wrong: unknown names, values that are none, rows that are there already.
_STATUSES: dict[type[Exception], int] = {KeyError: 404, ParameterError: 422, DataError: 422, IntegrityError: 409}
_REFUSALS = tuple(_STATUSES)


class Response(NamedTuple):
    """A response. `hit` goes out as ``Cache-Status``; None: without."""

    status: int
    body: bytes
    hit: bool | None = None


class Requests:
    """Answers requests from a backend."""

    def __init__(self, site: SiteDefinition, backend: Backend) -> None:
        self._backend = backend
        self._views = {view.name: Parameters(view.parameters) for view in site.views}
        self._writes = {write.name: Parameters(write.parameters) for write in site.writes}

    async def get(self, view: str, query: bytes) -> Response:
        try:
            values = self._views[view].of_pairs(parse_qsl(query.decode(), keep_blank_values=True))
            answers = await self._backend.read([(view, values)])
        except _REFUSALS as error:
            return _refused(error)
        return Response(200, b'{"rows":%b}' % answers.rows[0], answers.hit)

    async def query(self, view: str, body: bytes) -> Response:
        """``POST /v1/views/{view}/query``: several keys of a view."""
        try:
            of_json = self._views[view].of_json
            return await self._read_many([(view, of_json(key)) for key in orjson.loads(body)["keys"]])
        except _REFUSALS as error:
            return _refused(error)

    async def read(self, body: bytes) -> Response:
        """``POST /v1/read``: keys of several views."""
        try:
            wanted = orjson.loads(body)["reads"]
            views = self._views
            return await self._read_many([(r["view"], views[r["view"]].of_json(r.get("params", {}))) for r in wanted])
        except _REFUSALS as error:
            return _refused(error)

    async def write(self, name: str, body: bytes) -> Response:
        try:
            version = await self._backend.write(name, self._writes[name].of_json(orjson.loads(body)))
        except _REFUSALS as error:
            return _refused(error)
        return Response(200, b'{"version":"%b"}' % version.encode())

    async def _read_many(self, reads: Sequence[Read]) -> Response:
        answers: BackendAnswers = await self._backend.read(reads)
        rows = b'},{"rows":'.join(answers.rows)
        return Response(200, b'{"results":[{"rows":%b}]}' % rows if reads else b'{"results":[]}', answers.hit)


def _refused(error: Exception) -> Response:
    """An error of the client: an unknown name or a wrong value."""
    body: dict[str, Any] = {"detail": f"{type(error).__name__}: {error}"}
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    return Response(status, orjson.dumps(body))
