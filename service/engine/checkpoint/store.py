"""The checkpoint's file: found at the first session of a process, used once, written when the process stops.

*Theory*: a checkpoint is exact as long as the log has all that follows its position, so it could serve again after a
crash. But then all of the log since would have to be applied before the process is ready, which takes longer the older
the checkpoint is; so the file is removed when it is used.

Not here: the file's contents (`frames`, `header`); when a stream continues (`service.engine.session`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import structlog

from cdc.stream import StreamPlace
from dataflow.engine.engine import Engine
from service.engine.checkpoint.files import checkpoint_path, other_checkpoints
from service.engine.checkpoint.frames import FrameKind, UnknownFormatError, read_frames
from service.engine.checkpoint.header import CheckpointHeader, encoding_keys, table_digests
from service.engine.checkpoint.program import program_digest
from service.engine.checkpoint.restoring import restore_state
from service.engine.checkpoint.writing import write_state
from service.engine.views.tables import FollowedTables
from service.leaf_store.writer import LeafWriter
from service.sharding.homes import FORMAT

log = structlog.get_logger()


@dataclass(slots=True)
class CheckpointStore:
    """The file of one of the engines of a service, in `directory`. `limit_s`: maximum time for writing it; 0: none is
    written, and none is used.

    *State*: `_header`, that of the file that the next session uses.
    """

    directory: Path
    limit_s: float
    engine: int = 0
    engines: int = 1
    _header: CheckpointHeader | None = None
    _looked: bool = False

    @property
    def path(self) -> Path:
        return checkpoint_path(self.directory, self.engine, self.engines)

    @property
    def _homes(self) -> str:
        """The rule by which keys are divided among several engines."""
        return "" if self.engines == 1 else FORMAT

    @property
    def unread(self) -> bool:
        """True if there may be a file from which no session has begun to restore yet."""
        return self._header is not None if self._looked else self.limit_s > 0 and self.path.exists()

    def found(self) -> CheckpointHeader | None:
        """Returns the header of a checkpoint that this program can use; None after it was used or refused."""
        if not self._looked:
            self._looked = True
            self._remove_others()
            try:
                self._header = self._read_header() if self.limit_s else None
            except FileNotFoundError:
                pass
            except (OSError, ValueError) as problem:
                self.refuse(str(problem))
        return self._header

    def _read_header(self) -> CheckpointHeader:
        with self.path.open("rb") as file:
            kind, body = next(read_frames(file), (FrameKind.END, None))
        if kind is not FrameKind.HEADER or body is None:
            raise UnknownFormatError("Its header is damaged.")
        header = CheckpointHeader.parse(body)
        if header.program != program_digest():
            raise UnknownFormatError("It was written by another version of the program.")
        if header.homes != self._homes:
            raise UnknownFormatError("Keys were divided among the engines by another rule.")
        return header

    def _remove_others(self) -> None:
        """Discards files of another number of engines, which had other keys."""
        for engines, path in other_checkpoints(self.directory, self.engines) if self.engine == 0 else ():
            reason = f"[engine] shards was {engines} when it was written; it is {self.engines} now."
            log.warning("the checkpoint is not used; the cache begins empty", reason=reason, path=str(path))
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def refuse(self, reason: str) -> None:
        """Discards the file, for a reason that is logged."""
        log.warning("the checkpoint is not used; the cache begins empty", reason=reason, path=str(self.path))
        self._header = None
        self._remove()

    def _remove(self) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    async def restore(
        self, header: CheckpointHeader, engine: Engine, leaf: LeafWriter, following: FollowedTables
    ) -> bool:
        """Removes the file, and gives the engine and the leaf store what it had. False: nothing of that may be used."""
        self._header = None
        changed = self.changed(header, following)

        def say(damaged: int, complete: bool) -> None:
            keys = {leaf.view.name: len(leaf.coverage) for leaf in engine.graph.leaves.values()}
            log.info("the checkpoint was read", keys=sum(keys.values()), changed_tables=sorted(changed))
            if damaged or not complete:
                log.warning("the checkpoint is damaged or was not completed", damaged=damaged, complete=complete)

        try:
            with self._frames() as frames:
                await restore_state(frames, header, engine, leaf, changed, say)
        except Exception:
            log.exception("the checkpoint could not be read; the cache begins empty")
            return False
        return True

    @contextmanager
    def _frames(self) -> Iterator[Iterator[tuple[FrameKind, bytes | None]]]:
        with self.path.open("rb") as file:
            # Before it is read: a process that dies of that must not do so again.
            self._remove()
            frames = read_frames(file)
            next(frames)
            yield frames

    def changed(self, header: CheckpointHeader, following: FollowedTables) -> frozenset[str]:
        """Returns the followed tables that are not what they were at the checkpoint."""
        now = table_digests(following.catalog.tables, following.layouts)
        return header.changed(now, following.layouts)

    async def write(
        self, place: StreamPlace, at_ms: int, engine: Engine, leaf: LeafWriter, following: FollowedTables
    ) -> bool:
        """Writes the state of an engine that does not step any more; False: it could not, for a reason that is
        logged."""
        header = CheckpointHeader(
            program_digest(),
            place.text,
            place.position,
            at_ms,
            table_digests(following.catalog.tables, following.layouts),
            encoding_keys({view: leaf.encoding(view) for view in engine.graph.leaves}),
            self._homes,
        )
        made = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open_private(made) as file:
                complete = await write_state(file, header, engine, leaf, self.limit_s)
                written = file.tell()
                _sync(file)
            made.replace(self.path)
            _sync_directory(self.path.parent)
        except OSError as problem:
            log.error("the checkpoint cannot be written; the next start is cold", reason=str(problem))
            with suppress(OSError):
                made.unlink(missing_ok=True)
            return False
        log.info("checkpoint written", bytes=written, complete=complete)
        return True


def open_private(path: Path) -> BinaryIO:
    """Opens a new file for writing that only this user can read."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
