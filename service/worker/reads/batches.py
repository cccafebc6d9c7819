"""Reads of several keys at one version, every case: from a validated body to the response.

Not here: the body's form (`batch_route`, `documented`); plain hits (`batch_route`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from service.ground.errors import ApiError
from service.leaf_store.answer import StoredAnswer
from service.web.arguments import keys_of
from service.web.messages import CONTENT_JSON, Headers, Reply
from service.web.principal import Principal
from service.worker.reads.known_views import KnownViews
from service.worker.reads.notes import NOTED
from service.worker.reads.one_shard import ShardQuestion
from service.worker.reads.part import is_part, part_reply
from service.worker.reads.reads import Answers, Reads, WantedRead
from service.worker.reads.view_reads import ViewReads, answer_headers, cache_control_of, conditions_of


class Item(NamedTuple):
    """One of the reads of ``POST /v1/read``."""

    view: str
    params: Mapping[str, Any]
    limit: int | None = None
    after: str | None = None


class AnyBatches(ABC):
    """``POST /v1/views/{view}/query`` and ``POST /v1/read``: parsing by the latest known views."""

    def __init__(self, views: KnownViews) -> None:
        self._known = views
        self.max_keys = views.limits.max_keys

    @abstractmethod
    async def answer(self, wanted: Sequence[WantedRead], headers: Headers, started: int) -> Reply:
        """Wait for the minimum version in the headers and return the response. Raises ApiError."""

    def keys(self, view: str, keys: Sequence[Mapping[str, Any]], principal: Principal | None) -> list[WantedRead]:
        """Return the reads of several keys of one view. Raises ApiError."""
        self._bound(len(keys))
        route = self._known.listed(view, principal)
        return self._bounded([WantedRead(route, route.arguments.values(key, principal)) for key in keys])

    def items(self, items: Sequence[Item], principal: Principal | None) -> list[WantedRead]:
        """Return the reads of keys of several views. Raises ApiError."""
        self._bound(len(items))
        wanted = []
        for item in items:
            route = self._known.listed(item.view, principal)
            values = route.arguments.values(item.params, principal)
            wanted.append(WantedRead(route, values, route.arguments.window(values, item.limit, item.after)))
        return self._bounded(wanted)

    def _bound(self, keys: int) -> None:
        if keys > self.max_keys:
            raise ApiError("too_large", f"{keys} keys in one request.", f"Send at most {self.max_keys}.")

    def _bounded(self, wanted: list[WantedRead]) -> list[WantedRead]:
        """Check the number of keys: lists make several keys of one read."""
        n = sum(keys_of(w.values) for w in wanted)
        if n > self.max_keys:
            detail = f"{n} keys in one request, including those of lists."
            raise ApiError("too_large", detail, f"Send at most {self.max_keys}.")
        return wanted


class Batches(AnyBatches):
    """Batches answered by `Reads`."""

    def __init__(self, reads: Reads, views: ViewReads) -> None:
        super().__init__(reads)
        self._reads = reads
        self._views = views

    async def answer(self, wanted: Sequence[WantedRead], headers: Headers, started: int) -> Reply:
        if is_part(headers):
            return await self._part(wanted, headers, started)
        conditions = await self._views.conditions(headers)
        answers = await self._reads.serve(wanted, conditions.wait_s, conditions.minimum)
        kept = cache_control_of(w.view for w in wanted)
        return batch_reply(answers, b",".join(map(result_of, answers.answers)), kept, started)

    async def _part(self, wanted: Sequence[WantedRead], headers: Headers, started: int) -> Reply:
        _, minimum, wait_s = conditions_of(headers)
        asking, noted = ShardQuestion(self._reads, list(wanted)), NOTED.get()
        asked = [(w.view.info, w.values) for w in wanted]
        try:
            found = await asking.once(wait_s, minimum)
        except ApiError:
            if noted is not None:
                noted.failed(asked)
            raise
        answers = found.answers
        if noted is not None:
            noted.answered(asked, answers.answers, None if answers.hit else answers.source)
        results = list(map(result_of, answers.answers))
        return part_reply(found, b"".join(results), list(map(len, results)), [w.view for w in wanted], started)


def result_of(answer: StoredAnswer) -> bytes:
    """Return one result of a batch."""
    following = b"null" if answer.next is None else b'"' + answer.next.encode() + b'"'
    return b'{"rows":' + answer.rows + b',"next":' + following + b"}"


def rows_bytes(result: bytes) -> int:
    """Return the bytes of a batch result's rows, with the brackets."""
    return result.rfind(b',"next":') - len(b'{"rows":')


def batch_reply(answers: Answers, results: bytes, cache_control: tuple[bytes, bytes], started: int) -> Reply:
    """Return the response with these joined results; `answers` supplies only the version and the headers."""
    body = b"".join((b'{"results":[', results, b'],"version":', answers.version_json, b"}"))
    length = (b"content-length", b"%d" % len(body))
    return Reply(200, [*answer_headers(answers, started), cache_control, CONTENT_JSON, length], body)
