"""The first readiness of a process, which waits for what the process before has left: a checkpoint, or hot keys.

*Theory*: balancers and rolling upgrades send readers to whoever is ready. A process that begins with an empty cache
would get their reads as misses, so it is ready when its list has been filled. A list may be impossible to fill (a table
is locked, the database is slow), a stream may not begin where a checkpoint ends (a transaction stays open), and a
service that answers slowly is better than none, so the wait has a limit. The limit begins when nothing else is waited
for: how long a stream takes to begin says nothing about lookups.

*Invariants*: once `over`, it stays so, whatever happens to sessions. Reads never wait for it.

Not here: filling (`hot_keys`); readiness otherwise (`service.engine.session.runtime`).
"""

import asyncio

import structlog

from service.engine.checkpoint.store import CheckpointStore
from service.engine.reads.prewarm import FillProgress
from service.engine.workload.hot_keys import HotKeys

log = structlog.get_logger()


class WarmUp:
    """`limit_s`: maximum wait; 0: none. *State*: `_timer`, once the limit has begun; `_expired`, once it has passed."""

    def __init__(self, hot_keys: HotKeys, checkpoints: CheckpointStore, limit_s: float) -> None:
        self._hot_keys = hot_keys
        self._checkpoints = checkpoints
        self._limit_s = limit_s
        self._timer: asyncio.TimerHandle | None = None
        self._expired = not limit_s

    def begin(self) -> None:
        """Begins the time limit, the first time. To be called when readiness waits for nothing else."""
        if self._timer is None and not self.over:
            keys = self._hot_keys.filling.keys
            log.info("readiness waits until the cache is warm", hot_keys=keys, limit_s=self._limit_s)
            self._timer = asyncio.get_running_loop().call_later(self._limit_s, self._expire)

    def _expire(self) -> None:
        if not self.over:
            filling = self._hot_keys.filling
            log.warning(
                "the service is ready although its cache is not warm: the time limit has passed",
                keys=filling.keys,
                filled=filling.filled,
                limit_s=self._limit_s,
                hint="Reads of hot keys are misses. The log or upquery_table_resting may show a locked or slow table.",
            )
            self._expired = True

    @property
    def over(self) -> bool:
        """True if readiness does not wait, or not any longer."""
        return self._expired or (self._hot_keys.filled and not self._checkpoints.unread)

    @property
    def progress(self) -> FillProgress | None:
        """Keys that are waited for; None if readiness does not wait."""
        return None if self.over else self._hot_keys.filling
