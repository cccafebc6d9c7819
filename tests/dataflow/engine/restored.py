"""An engine with the state of another one, through bytes."""

import marshal
from collections.abc import Iterable, Mapping

from dataflow.engine.chunks import Chunk
from dataflow.engine.engine import Engine
from dataflow.engine.events import InstallView, Restore, Restored, StreamStarted
from dataflow.engine.ranking import LeafKey
from dataflow.eviction.policy import Policy
from dataflow.sql import plan_view
from dataflow.types import ViewId
from tests.dataflow.engine.site import CATALOG, Now

#: A chunk's class and its bytes.
Written = tuple[type[Chunk], bytes]


def written(engine: Engine) -> list[Written]:
    """The state as bytes."""
    return [(type(chunk), marshal.dumps(tuple(chunk))) for chunk in engine.chunks()]


def installed(views: Mapping[int, str], policy: Policy[LeafKey] | None = None) -> Engine:
    """An engine with these views that waits for chunks."""
    engine = Engine(CATALOG, policy=policy)
    engine.step(StreamStarted(0, Now(), restoring=True))
    for number, sql in views.items():
        engine.step(InstallView(ViewId(number), plan_view(f"v{number}", sql, CATALOG)))
    return engine


def restore(engine: Engine, state: Iterable[Written]) -> Engine:
    """Gives the engine that state."""
    for kind, chunk in state:
        engine.step(Restore(kind(*marshal.loads(chunk))))
    engine.step(Restored())
    return engine
