"""The files of one worker's access log: begun, finished, removed when there are too many.

A file that is being written has a name that begins with ``_``, which Spark and its like pass over; it gets its own name
when it is finished.

*Invariants*: a finished file is whole, and never changes. A worker touches no files but its own.
"""

import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from service.settings.telemetry import AccessLogSettings
from service.worker.access_log.keys import LoggedKey
from service.worker.reads.notes import Outcome


class Line(NamedTuple):
    """A read. `reads`: how many its request had."""

    time_us: int
    logged: LoggedKey
    outcome: Outcome
    rows_bytes: int | None
    duration_us: int
    status: int
    reads: int


_OUTCOMES = {outcome: outcome.encode() for outcome in Outcome}


class Form(Protocol):
    """How lines are written to a file."""

    def write(self, lines: Sequence[Line]) -> None:
        """Some more. OSError."""
        ...

    def close(self) -> None:
        """No more lines follow. OSError."""
        ...

    @property
    def size_bytes(self) -> int:
        """What the file has so far, about."""
        ...


class JsonLines:
    """One JSON object on each line."""

    def __init__(self, path: Path, tail: bytes) -> None:
        self._file = path.open("wb", buffering=0)
        self._tail = tail
        self.size_bytes = 0

    def write(self, lines: Sequence[Line]) -> None:
        """Some more. OSError."""
        tail = self._tail
        data = b"".join(
            b'{"time_us":%d,%b,"outcome":"%b","rows_bytes":%b,"duration_us":%d,"status":%d,"reads":%d,%b'
            % (
                time_us,
                logged.json,
                _OUTCOMES[outcome],
                b"null" if rows_bytes is None else b"%d" % rows_bytes,
                duration_us,
                status,
                reads,
                tail,
            )
            for time_us, logged, outcome, rows_bytes, duration_us, status, reads in lines
        )
        try:
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            # Of a line that does not fit, nothing is to stay.
            with suppress(OSError):
                self._file.seek(self.size_bytes)
                self._file.truncate()
            raise
        self.size_bytes += len(data)

    def close(self) -> None:
        """No more lines follow."""
        self._file.close()


class Files:
    """Where one worker's lines go.

    *State*: `_form` is the file that is being written, since `_since_s`, if there is one.
    """

    def __init__(self, settings: AccessLogSettings, worker: int) -> None:
        self._settings = settings
        self._worker = worker
        self._numbers = itertools.count(1)
        self._form: Form | None = None
        self._path = Path()
        self._since_s = 0.0

    def finish_left(self) -> None:
        """Finish what an earlier worker of this number did not. OSError."""
        for left in self._settings.path.glob(f"_access-{self._worker}-*"):
            if left.suffix == ".parquet":
                # Without its last bytes nobody can read it.
                left.unlink()
            else:
                _publish(left)

    def write(self, lines: Sequence[Line]) -> None:
        """Write them, to another file if this one is large or old. OSError."""
        if lines:
            self._opened().write(lines)
        form = self._form
        if form is not None and (
            form.size_bytes >= self._settings.rotate_bytes or self._age_s() >= self._settings.rotate_s
        ):
            self.close()

    def close(self) -> None:
        """Finish the file. OSError."""
        form, self._form = self._form, None
        if form is not None:
            form.close()
            _publish(self._path)
            self._remove_old()

    def _age_s(self) -> float:
        return time.monotonic() - self._since_s

    def _opened(self) -> Form:
        if self._form is None:
            started = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
            name = f"_access-{self._worker}-{started}-{next(self._numbers):04}.{self._settings.format}"
            self._settings.path.mkdir(parents=True, exist_ok=True)
            self._path = self._settings.path / name
            self._form = self._begun(self._path)
            self._since_s = time.monotonic()
        return self._form

    def _begun(self, path: Path) -> Form:
        if self._settings.format == "parquet":
            from service.worker.access_log.parquet import ParquetFile

            return ParquetFile(path, self._worker, self._settings.sample_rate)
        return JsonLines(path, b'"worker":%d,"sample_rate":%b}\n' % (self._worker, b"%g" % self._settings.sample_rate))

    def _remove_old(self) -> None:
        finished = sorted(self._settings.path.glob(f"access-{self._worker}-*"))
        for old in finished[: -self._settings.keep_files]:
            old.unlink(missing_ok=True)


def _publish(path: Path) -> None:
    path.rename(path.with_name(path.name.removeprefix("_")))
