"""Audits, as the engine process has them: one at a time, in a process of its own that is brought to a snapshot.

Nothing is applied while the job takes a snapshot and until the engine is exactly there (`service.engine.loop.hold`);
that is tried again with another snapshot if transactions cross. Once the job has its read transaction the stream goes
on.

*Invariants*: while an audit runs, another is refused. Holding takes at most `HOLD_S` each time, with pauses between.

Not here: what is compared, and how (`job`).
"""

import asyncio
import base64
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import orjson
import structlog

from dataflow.types import Position
from service.engine.audit.held_snapshot import Taken
from service.engine.audit.messages import Audited, AuditJob, ViewResult, Way
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.hold import Hold, HoldLost
from service.engine.views.registry import Status, Tier, ViewRegistry
from service.ground.errors import ApiError
from service.ground.version import version_text
from service.leaf_store.writer import LeafWriter
from service.protocol.child import STOP_S, child_environment, send_configuration
from service.settings.stack import Settings

log = structlog.get_logger()

#: Nothing is applied for so long at most: longer where the stream comes through Kafka.
HOLD_S, KAFKA_HOLD_S = 0.25, 2.0
#: How often a snapshot is tried to be met, and the pauses between.
TRIES = 60
_PAUSE_S = 0.05
#: The largest line that a job says: its result.
_LINE_BYTES = 64 << 20
#: The process's start, and what it needs for anything but comparing.
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What to look at."""

    #: None: all views.
    views: Sequence[str] | None = None
    #: So many keys of each view.
    sample: int | None = None
    way: Way = "direct"
    #: Differences that are said in full.
    shown: int = 20
    time_s: float = 600.0


@dataclass(slots=True)
class AuditState:
    """``none``, ``running``, ``done`` or ``failed``; what there is of the rest."""

    status: str = "running"
    way: str = "direct"
    text: str = "starting"
    done: int = 0
    keys: int = 0
    #: Where the engine was.
    version: str | None = None
    #: Snapshots that were taken until one was met, and for how long nothing was applied, the longest and in all.
    tries: int = 0
    held_max_ms: float = 0.0
    held_ms: float = 0.0
    seconds: float = 0.0
    views: list[dict[str, Any]] = field(default_factory=list)
    differences: list[dict[str, Any]] = field(default_factory=list)
    #: Why it failed.
    reason: str | None = None


class AuditFailed(Exception):
    """There is no result; the text says why."""


class Audits:
    """*State*: `_state`, the audit that runs, or the last one; None before the first."""

    def __init__(
        self,
        settings: Settings,
        leaf: LeafWriter,
        registry: ViewRegistry,
        dispatcher: Dispatcher,
        hold: Callable[[], Hold | None],
        reach: Callable[[Position], None],
    ) -> None:
        self._settings = settings
        self._leaf = leaf
        self._registry = registry
        self._dispatcher = dispatcher
        self._hold = hold
        self._reach = reach
        self._state: AuditState | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, wanted: AuditOptions) -> dict[str, Any]:
        """Starts one. Raises `ApiError`."""
        if self._task is not None and not self._task.done():
            raise ApiError("audit_running", "An audit is already running; GET /v1/audit returns its progress.")
        audited, left_out = self._views(wanted)
        state = self._state = AuditState(way=wanted.way)
        job = AuditJob(self._settings, self._leaf.path, audited, wanted.way, wanted.sample, wanted.shown, wanted.time_s)
        self._task = asyncio.get_running_loop().create_task(self._run(job, state, left_out))
        return asdict(state)

    def state(self) -> dict[str, Any]:
        """How far it is, or what was found."""
        return asdict(self._state or AuditState("none", text="there was no audit since the engine process started"))

    async def close(self) -> None:
        """Ends the one that runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _views(self, wanted: AuditOptions) -> tuple[tuple[Audited, ...], list[ViewResult]]:
        """The views to look at, and results of those that cannot be."""
        names = sorted(self._registry.views) if wanted.views is None else wanted.views
        audited, left_out = [], []
        for name in names:
            registered = self._registry.views.get(name)
            if registered is None:
                raise ApiError("view_not_found", f"View {name!r} does not exist.")
            installed = registered.installed
            tier = "" if installed is None else installed.plan.tier.value
            if installed is None or installed.tombstone or installed.status is not Status.READY:
                left_out.append(ViewResult(name, tier, skipped={f"the view is {registered.status.value}": 0}))
            elif installed.plan.tier is Tier.TTL:
                left_out.append(ViewResult(name, tier, skipped={"its answers are only good for a while": 0}))
            else:
                audited.append(Audited(installed.id, name, installed.plan))
        return tuple(audited), left_out

    async def _run(self, job: AuditJob, state: AuditState, left_out: list[ViewResult]) -> None:
        started = perf_counter()
        try:
            if job.views:
                async with asyncio.timeout(job.time_s + _PATIENCE_S):
                    await self._run_job(job, state)
            state.views += [asdict(result) for result in left_out]
            state.status, state.text = "done", "done"
        except AuditFailed as failure:
            state.status, state.reason = "failed", str(failure)
        except TimeoutError:
            state.status, state.reason = "failed", "The audit took too long."
        except Exception:
            log.exception("the audit failed")
            state.status, state.reason = "failed", "The audit failed inside the service; its log says more."
        state.seconds = round(perf_counter() - started, 3)
        said = log.error if any(view["differences"] for view in state.views) else log.info
        said(
            "audited",
            status=state.status,
            reason=state.reason,
            seconds=state.seconds,
            differences=sum(view["differences"] for view in state.views),
        )

    async def _run_job(self, job: AuditJob, state: AuditState) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "service.engine.audit.job",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
            env=child_environment(),
        )
        child = _Child(process, state)
        try:
            await child.send(send_configuration(job))
            await self._meet(child, state)
            result = await child.said("result")
        finally:
            await child.end()
        state.views = result["views"]
        state.differences = result["differences"]

    async def _meet(self, child: "_Child", state: AuditState) -> None:
        """Brings the engine to a snapshot, and has the job look into the store there."""
        # Until the first one is there the process has to start and connect: nobody waits for that.
        try:
            await self._taken(child)
        except HoldLost as lost:
            log.info("the audit's first snapshot", reason=str(lost))
        limit_s = HOLD_S if self._settings.cdc.kafka is None else KAFKA_HOLD_S
        last = ""
        for number in range(TRIES):
            state.tries = number + 1
            state.text = "waiting for a snapshot that the engine can be brought to"
            hold = self._hold()
            if hold is None or not self._dispatcher.running:
                raise AuditFailed("There is no change stream from the database right now.")
            started = perf_counter()
            try:
                async with hold.held(limit_s):
                    met = await self._met(child, hold)
                if met is not None:
                    state.text, state.version = "copying the leaf store", version_text(met)
                    await child.do("keep")
                    return
                last = "transactions became visible in another order than they were logged in"
            except HoldLost as lost:
                last = str(lost)
                child.forget()
            finally:
                took_ms = round(1000 * (perf_counter() - started), 1)
                state.held_ms = round(state.held_ms + took_ms, 1)
                state.held_max_ms = max(state.held_max_ms, took_ms)
            await asyncio.sleep(_PAUSE_S)
        raise AuditFailed(f"No snapshot could be met in {TRIES} tries: {last}. Try again when less is written.")

    async def _met(self, child: "_Child", hold: Hold) -> Position | None:
        """Where the engine was when the job looked; None if it cannot be where the snapshot is. Raises `HoldLost`."""
        taken = await self._taken(child)
        self._reach(taken.bound)
        if not await hold.cut(taken.snapshot, taken.bound):
            return None
        position, epoch = self._dispatcher.position, self._leaf.epoch
        await child.do("look")
        looked = await child.said("looked")
        if looked != {"position": position, "epoch": epoch} or not self._dispatcher.running:
            raise AuditFailed("The change stream was lost meanwhile.")
        return position

    @staticmethod
    async def _taken(child: "_Child") -> Taken:
        await child.do("take")
        said = await child.said("taken")
        if said["snapshot"] is None:
            raise HoldLost(f"no snapshot could be taken: {said['reason']}")
        taken = pickle.loads(base64.b85decode(said["snapshot"]))
        assert isinstance(taken, Taken)
        return taken


class _Child:
    """The job's process: lines to and from it. What it says of how far it is goes into the state."""

    def __init__(self, process: asyncio.subprocess.Process, state: AuditState) -> None:
        self._process = process
        self._state = state
        #: Answers to questions that nobody waits for any more.
        self._owed = 0
        self._asked = 0

    async def send(self, data: bytes) -> None:
        """To its standard input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except ConnectionError:
            raise AuditFailed("The audit's process ended; the log says why.") from None

    async def do(self, what: str) -> None:
        """One line to it."""
        self._asked += 1
        await self.send(orjson.dumps({"do": what}) + b"\n")

    def forget(self) -> None:
        """Nobody waits for the answers that are still to come."""
        self._owed = self._asked

    async def said(self, kind: str) -> Any:
        """The next that it says of this kind. Raises `AuditFailed`."""
        assert self._process.stdout is not None
        while True:
            line = await self._process.stdout.readline()
            if not line:
                raise AuditFailed("The audit's process ended; the log says why.")
            ((found, value),) = orjson.loads(line).items()
            if found == "failed":
                raise AuditFailed(value)
            if found == "progress":
                self._state.text, self._state.done, self._state.keys = value["text"], value["done"], value["keys"]
                continue
            if found != "result":
                self._asked -= 1
                if self._owed:
                    self._owed -= 1
                    continue
            if found == kind:
                return value

    async def end(self) -> None:
        """It ends with its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


__all__ = ["AuditFailed", "AuditOptions", "AuditState", "Audits"]
