"""Process of one audit: ``python -m service.engine.audit.job``, a child of the engine process.

On command, it takes snapshots of the upstream, opens the leaf store when the engine is at the latest of them, copies
its contents, queries all of it upstream, and reports differences. None of that runs on the engine's loop.

*Invariants*: it ends with its parent; reported upstream errors contain no password.

Not here: bringing the engine to the snapshot (`audits`, `service.engine.loop.hold`).
"""

import asyncio
import base64
import os
import pickle
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from random import Random
from time import monotonic
from typing import Any

import orjson
import structlog

from dataflow.types import ViewId
from service.engine.audit.answers import FreshAnswer, ask_directly, questions_of
from service.engine.audit.comparison import Comparison
from service.engine.audit.leaf_copy import LeafCopy, copy
from service.engine.audit.messages import AuditJob, Difference, ViewResult
from service.engine.audit.spark import ask_spark
from service.engine.databases.drivers import open_upstream
from service.engine.upstream.held_snapshot import AuditSnapshot, HeldSnapshots
from service.engine.upstream.results import UpstreamError
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.reader import LeafReader
from service.protocol.child import receive_configuration

log = structlog.get_logger()

#: Lower priority than readers and the engine.
NICE = 10
#: Interval of progress lines.
_TELL_S = 0.5


class JobChannel:
    """Lines of JSON from and to the engine process."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def listen() -> None:
            for line in sys.stdin.buffer:
                loop.call_soon_threadsafe(self._lines.put_nowait, orjson.loads(line))
            # The engine process has ended.
            os._exit(1)

        threading.Thread(target=listen, name="parent", daemon=True).start()

    async def receive(self) -> str:
        """Returns the next command."""
        return str((await self._lines.get())["do"])

    def say(self, **what: Any) -> None:
        sys.stdout.buffer.write(orjson.dumps(what) + b"\n")
        sys.stdout.buffer.flush()


class AuditRun:
    """One audit. *State*: `results`, by view; `differences`, the first ones."""

    def __init__(self, job: AuditJob, channel: JobChannel) -> None:
        self._job = job
        self._channel = channel
        self._infos: dict[ViewId, ViewInfo] = {}
        self._told_s = 0.0
        self.results = {view.id: ViewResult(view.name, view.plan.tier.value) for view in job.views}
        self.differences: list[Difference] = []

    async def run(self) -> None:
        """Runs the audit to its end. Raises UpstreamError."""
        job = self._job
        tables = frozenset[str]().union(*(view.plan.tables for view in job.views))
        upstream = open_upstream(job.settings)
        until = monotonic() + job.time_s
        try:
            async with upstream.held(tables) as held:
                if job.way == "spark" and held.alone is not None:
                    raise UpstreamError(
                        "invalid", f"Spark cannot be used here: {held.alone}.", "Run the audit without Spark."
                    )
                taken, picture = await self._meet(held)
                self._tell(f"comparing {picture.keys} keys", 0, picture.keys)
                try:
                    await self._compare(held, taken, picture, until)
                finally:
                    picture.close()
        finally:
            await upstream.close()

    async def _meet(self, held: HeldSnapshots) -> tuple[AuditSnapshot, LeafCopy]:
        """Returns the snapshot that the engine reached, and the leaf store's contents then."""
        reader = LeafReader.open(self._job.leaf)
        try:
            taken: AuditSnapshot | None = None
            do = await self._channel.receive()
            while True:
                if do == "take":
                    taken = await self._taken(held)
                    do = await self._channel.receive()
                    continue
                assert taken is not None, "the snapshot comes first"
                with reader.begin() as txn:
                    state = reader.state_in(txn)
                    catalog = reader.catalog_in(txn, state)
                    position, epoch = (0, "") if state is None else (state.position, state.epoch)
                    self._channel.say(looked={"position": position, "epoch": epoch})
                    do = await self._channel.receive()
                    if do == "keep":
                        self._infos = catalog.by_id
                        return taken, copy(
                            txn, catalog.by_id, self._job.views, self.results, self._job.sample, Random()
                        )
        finally:
            reader.close()

    async def _taken(self, held: HeldSnapshots) -> AuditSnapshot | None:
        """Takes and reports another snapshot; None if that fails for now."""
        try:
            taken = await held.take()
        except UpstreamError as error:
            self._channel.say(taken={"snapshot": None, "reason": error.public_text})
            return None
        self._channel.say(taken={"snapshot": base64.b85encode(pickle.dumps(taken)).decode(), "reason": None})
        return taken

    async def _compare(self, held: HeldSnapshots, taken: AuditSnapshot, picture: LeafCopy, until: float) -> None:
        views = {view.id: view for view in self._job.views}
        questions = questions_of(picture, views, self._infos)
        comparisons = {id_: Comparison(view, self._infos[id_]) for id_, view in views.items() if id_ in self._infos}
        answers: AsyncGenerator[FreshAnswer, None]
        if self._job.way == "spark":
            answers = ask_spark(self._job.settings, taken, questions, picture.keys, until)
        else:
            answers = ask_directly(held, questions, self._job.settings.upstream.pool_size, until)
        done = 0
        async with aclosing(answers):
            async for answered in answers:
                done += 1
                self._judge(comparisons[ViewId(answered.stored.view)], answered)
                if monotonic() - self._told_s > _TELL_S:
                    self._tell("comparing", done, picture.keys)

    def _judge(self, comparison: Comparison, answered: FreshAnswer) -> None:
        stored = answered.stored
        result = self.results[ViewId(stored.view)]
        if isinstance(answered.rows, str):
            result.skip(answered.rows)
            return
        found = comparison.compare(stored, answered.rows)
        if isinstance(found, str):
            result.skip(found)
            return
        result.compared += 1
        if found is not None:
            result.differences += 1
            if len(self.differences) < self._job.shown:
                self.differences.append(found)

    def _tell(self, text: str, done: int, keys: int) -> None:
        self._told_s = monotonic()
        self._channel.say(progress={"text": text, "done": done, "keys": keys})


async def _main(job: AuditJob) -> int:
    channel = JobChannel()
    audit = AuditRun(job, channel)
    try:
        await audit.run()
    except UpstreamError as error:
        channel.say(failed=error.public_text)
        return 1
    except Exception:
        log.exception("the audit failed")
        channel.say(failed="The audit failed because of an internal error; the service's log has the cause.")
        return 1
    channel.say(
        result={
            "views": [asdict(result) for result in audit.results.values()],
            "differences": [asdict(difference) for difference in audit.differences],
        }
    )
    return 0


def main() -> None:
    from service.ground.logs import configure_logging

    os.nice(NICE)
    job = receive_configuration()
    assert isinstance(job, AuditJob)
    configure_logging(job.settings.log, "audit")
    code = asyncio.run(_main(job))
    # A thread still holds the lock of standard input, which would block the interpreter's exit.
    os._exit(code)


if __name__ == "__main__":
    # Pickles refer to these modules by their import names, not by __main__.
    from service.engine.audit.job import main as entry

    entry()
