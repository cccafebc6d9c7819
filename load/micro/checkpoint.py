"""A checkpoint of a filled engine and leaf store: writing it, and restoring it into others.

Views of a news site: a story with its votes, counted; its comments with their authors; an author's stories. Times are
of the CPU, for 1 GiB of state, as the memory budget counts it. The peer of a restoration reads the same frames, checks
them and unpacks them, and does nothing with them. Prints one JSON object; run in a process of its own.
"""

import argparse
import asyncio
import gc
import json
import marshal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import process_time

from dataflow.engine.effects import Effect, LeafEffect
from dataflow.engine.engine import Engine
from dataflow.engine.events import InstallView, LookupDone, LookupsDone, Read, Restored, StreamStarted
from dataflow.ops.chain import ChainFunction
from dataflow.plan.nodes import Aggregate
from dataflow.plan.parts import Lookup
from dataflow.plan.routes import parent_columns
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.types import Key, ReadId, Row
from load.micro.vote_dataflow import Now, memory
from service.engine.checkpoint.frames import FrameKind, read_frames
from service.engine.checkpoint.header import CheckpointHeader
from service.engine.checkpoint.restoring import restore_state
from service.engine.checkpoint.writing import write_state
from service.leaf_store.writer import LeafWriter

ROUNDS = 3
GIB = 1 << 30
#: A story has so many comments; an author so many stories, and as many comments.
COMMENTS, STORIES = 3, 10
_INT8, _TEXT = SqlType("int8", "int8"), SqlType("text", "text")
_COLUMNS = {
    "stories": (("id", _INT8), ("author", _INT8), ("title", _TEXT)),
    "votes": (("story_id", _INT8), ("user_id", _INT8)),
    "comments": (("id", _INT8), ("story_id", _INT8), ("author", _INT8), ("text", _TEXT)),
    "users": (("id", _INT8), ("name", _TEXT)),
}
CATALOG = Catalog(
    {
        f"public.{name}": Table(
            f"public.{name}",
            tuple(Column(column, type_, True) for column, type_ in columns),
            keys=((0, 1) if name == "votes" else (0,),),
        )
        for name, columns in _COLUMNS.items()
    }
)
#: By the view: its SQL, and how many stories there are to a key.
VIEWS = {
    "story_with_votes": (
        "SELECT s.id, s.title, COUNT(v.user_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id"
        " WHERE s.id = :key GROUP BY s.id, s.title",
        1,
    ),
    "comments": (
        "SELECT c.id, c.text, u.name FROM comments c JOIN users u ON u.id = c.author WHERE c.story_id = :key",
        2,
    ),
    "stories_of": ("SELECT id, title FROM stories WHERE author = :key", STORIES),
}


class Filled:
    """An engine with its leaf store; lookups are answered at once."""

    def __init__(self, path: Path, *, restoring: bool = False) -> None:
        self.engine, self.leaf = Engine(CATALOG), LeafWriter(path)
        self.leaf.reset("bench")
        self.views = {name: self.leaf.new_id() for name in VIEWS}
        self._perform(self.engine.step(StreamStarted(0, Now(0), restoring=restoring)))
        for name, view in self.views.items():
            plan = plan_view(name, VIEWS[name][0], CATALOG)
            self.leaf.register(view, plan)
            self._perform(self.engine.step(InstallView(view, plan)))

    def fill(self, stories: int) -> None:
        """Read the keys of all views."""
        for name, view in self.views.items():
            for key in range(stories // VIEWS[name][1]):
                self._perform(self.engine.step(Read(ReadId(key), ((view, (str(key),), None),))))

    def _perform(self, effects: list[Effect]) -> None:
        """Commit what is for the leaf, and answer the lookups."""
        self.leaf.commit([effect for effect in effects if isinstance(effect, LeafEffect)], 0, 0)
        for effect in effects:
            if isinstance(effect, Lookup):
                # A semijoin has no keys: they are looked up when they are known.
                found = LookupDone(effect.id, [row for key in effect.keys for row in _found(effect, key)], Now(0), 0)
                self._perform(self.engine.step(LookupsDone([found])))

    @property
    def keys(self) -> int:
        """Covered keys of views."""
        return sum(len(leaf.coverage) for leaf in self.engine.graph.leaves.values())

    @property
    def state_bytes(self) -> int:
        """Bytes of the state in both, as the memory budget counts them."""
        return self.engine.state_bytes() + self.leaf.total_bytes

    @property
    def header(self) -> CheckpointHeader:
        return CheckpointHeader("", "", 0, 0, {}, {str(view): self.leaf.encoding(view) for view in self.views.values()})


def _found(lookup: Lookup, key: Key) -> Iterable[Row]:
    number = int(key[0] or 0)
    if isinstance(lookup.relation, Aggregate):
        # A state row: the group, COUNT(user_id), and the number of rows.
        return [(str(number), str(number % 9), str(number % 9))]
    base = parent_columns(lookup.relation, lookup.columns)
    assert base is not None
    return ChainFunction(lookup.relation).delta([], list(_rows(lookup.relation.table, base[0], number)))[1]


def _rows(table: str, column: int, number: int) -> Iterator[Row]:
    """Rows of a table with this number in a column."""
    if table == "public.users":
        yield str(number), f"user {number}"
    elif table == "public.comments":
        for own in range(number * COMMENTS, (number + 1) * COMMENTS):
            yield str(own), str(number), str(own % 1000), f"comment {own} on story {number}"
    elif column == 0:
        yield str(number), str(number // STORIES), f"The title of story {number}"
    else:
        for own in range(number * STORIES, (number + 1) * STORIES):
            yield str(own), str(number), f"The title of story {own}"


def write(filled: Filled, path: Path) -> None:
    """Write the state of a filled engine and leaf store to a file."""
    with path.open("wb") as file:
        assert asyncio.run(write_state(file, filled.header, filled.engine, filled.leaf, 3600))


def restore(path: Path, filled: Filled, header: CheckpointHeader) -> None:
    """Restore a checkpoint into an engine and a leaf store that are empty."""
    with path.open("rb") as file:
        frames = read_frames(file)
        next(frames)
        asyncio.run(restore_state(frames, header, filled.engine, filled.leaf, frozenset(), lambda *_: None))
    filled.engine.step(Restored())


def unpack(path: Path) -> None:
    """Read, check and unpack the same frames."""
    with path.open("rb") as file:
        for kind, body in read_frames(file):
            if kind in (FrameKind.STATE, FrameKind.RECORDS):
                marshal.loads(body or b"")


def cpu_seconds(work: Callable[[], None]) -> float:
    """CPU time of `work`, without collections of garbage: the engine begins with those disabled."""
    gc.collect()
    started = process_time()
    work()
    return process_time() - started


def restore_s(path: Path, directory: Path, filled: Filled) -> float:
    """CPU time of a restoration; all keys must be there afterwards."""
    other = Filled(directory, restoring=True)
    seconds = cpu_seconds(lambda: restore(path, other, filled.header))
    assert other.keys == filled.keys
    other.leaf.close()
    return seconds


def measure(directory: Path, stories: int) -> dict[str, object]:
    """All sides, in turns."""
    filled, path = Filled(directory / "filled"), directory / "checkpoint"
    filled.fill(stories)
    gib = filled.state_bytes / GIB
    seconds: dict[str, list[float]] = {"write": [], "restore": [], "unpack": []}
    for number in range(ROUNDS):
        seconds["write"].append(cpu_seconds(lambda: write(filled, path)))
        seconds["unpack"].append(cpu_seconds(lambda: unpack(path)))
        seconds["restore"].append(restore_s(path, directory / f"restored-{number}", filled))
    figures: dict[str, object] = {f"{name}_s_per_gib": [s / gib for s in found] for name, found in seconds.items()}
    figures["restore_ratio"] = [a / b for a, b in zip(seconds["restore"], seconds["unpack"], strict=True)]
    figures["keys"], figures["state_bytes"] = filled.keys, filled.state_bytes
    figures["file_bytes"] = path.stat().st_size
    filled.leaf.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stories", type=int, default=50_000)
    options = parser.parse_args()
    gc.disable()
    with tempfile.TemporaryDirectory(dir=memory()) as directory:
        json.dump(measure(Path(directory), options.stories), sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
