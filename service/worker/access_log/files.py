"""Files of one worker's access log: creation, completion, and removal of the oldest.

The name of an unfinished file begins with ``_``, which Spark and similar readers skip; a finished file is renamed.

*Invariants*: a finished file is complete and never changes. A worker touches only its own files.
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
    """A logged read. `reads`: number of reads of its request."""

    time_us: int
    logged: LoggedKey
    outcome: Outcome
    rows_bytes: int | None
    duration_us: int
    status: int
    reads: int


_OUTCOMES = {outcome: outcome.encode() for outcome in Outcome}


class Form(Protocol):
    """Format of a log file."""

    def write(self, lines: Sequence[Line]) -> None:
        """Append lines. Raises OSError."""
        ...

    def close(self) -> None:
        """Complete the file. Raises OSError."""
        ...

    @property
    def size_bytes(self) -> int:
        """Return the approximate size of the file."""
        ...


class JsonLines:
    """One JSON object a line."""

    def __init__(self, path: Path, tail: bytes) -> None:
        self._file = path.open("wb", buffering=0)
        self._tail = tail
        self.size_bytes = 0

    def write(self, lines: Sequence[Line]) -> None:
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
            # Remove a line that was written in part.
            with suppress(OSError):
                self._file.seek(self.size_bytes)
                self._file.truncate()
            raise
        self.size_bytes += len(data)

    def close(self) -> None:
        self._file.close()


class Files:
    """The files of one worker's lines.

    *State*: `_form` is the unfinished file, open since `_since_s`, if there is one.
    """

    def __init__(self, settings: AccessLogSettings, worker: int) -> None:
        self._settings = settings
        self._worker = worker
        self._numbers = itertools.count(1)
        self._form: Form | None = None
        self._path = Path()
        self._since_s = 0.0

    def finish_left(self) -> None:
        """Finish the files that an earlier worker of this number left unfinished. Raises OSError."""
        for left in self._settings.path.glob(f"_access-{self._worker}-*"):
            if left.suffix == ".parquet":
                # A Parquet file without its footer is unreadable.
                left.unlink()
            else:
                _publish(left)

    def write(self, lines: Sequence[Line]) -> None:
        """Write lines, and begin another file if this one is large or old. Raises OSError."""
        if lines:
            self._opened().write(lines)
        form = self._form
        if form is not None and (
            form.size_bytes >= self._settings.rotate_bytes or self._age_s() >= self._settings.rotate_s
        ):
            self.close()

    def close(self) -> None:
        """Finish the file. Raises OSError."""
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
