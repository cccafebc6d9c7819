"""Workloads of the driver's tests. Generator processes import this module, and nothing that only tests need."""

from dataclasses import dataclass
from random import Random

from load.driver.visit import Visit, VisitSource, get, read_many, write


@dataclass(frozen=True)
class OneView:
    """Every visit reads a key of one view."""

    view: str

    def start(self, process: int, processes: int) -> VisitSource:  # noqa: ARG002
        return self

    def visit(self, random: Random) -> tuple[str, Visit]:
        return self.view, self._page(random.randrange(1000))

    def _page(self, key: int) -> Visit:
        replies = yield [get(self.view, {"id": key})]
        assert replies[0].status == 200


@dataclass(frozen=True)
class Rounds:
    """Visits of two rounds, the second made of what the first was answered; then a write."""

    def start(self, process: int, processes: int) -> VisitSource:  # noqa: ARG002
        return self

    def visit(self, random: Random) -> tuple[str, Visit]:
        return "rounds", self._page(random.randrange(1000))

    def _page(self, key: int) -> Visit:
        first, second = yield [get("hit", {"id": key}), read_many([("a", {"id": key})])]
        assert first.hit
        assert str(key).encode() in second.body
        (third,) = yield [write("vote", {"id": key})]
        yield []
        assert third.body == b'{"id":%d}' % key


@dataclass(frozen=True)
class Faulty:
    """A page that cannot make sense of its answer; a workload that cannot even begin."""

    begins: bool

    def start(self, process: int, processes: int) -> VisitSource:  # noqa: ARG002
        if not self.begins:
            raise ValueError("no stories")
        return self

    def visit(self, random: Random) -> tuple[str, Visit]:  # noqa: ARG002
        return "faulty", self._page()

    def _page(self) -> Visit:
        (reply,) = yield [get("hit", {})]
        raise KeyError(len(reply.body))
