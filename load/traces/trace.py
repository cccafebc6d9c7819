"""A trace: a sequence of reads of keys of views, stored in a file of compressed JSON lines.

The file: an object (name, what it is of, how many keys and reads), a line ``[view, key, bytes, cost]`` for each key,
then lines of up to 10,000 reads, each the number of its key. Writes are not in it: they change entries and evict none.
"""

import gzip
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

_LINE_READS = 10_000


class TraceError(RuntimeError):
    """A file is no trace, or a workload could not be recorded."""


class TracedKey(NamedTuple):
    """A key of a view. `key`: its parameters, as JSON."""

    view: str
    key: str
    #: What its answer takes in memory, and what computing it costs (1.0: one lookup).
    weight_bytes: int
    cost: float


@dataclass(frozen=True, slots=True)
class Trace:
    """Reads, in order, each an index into `keys`."""

    name: str
    #: Where it comes from: workload, sizes, seed.
    about: str
    keys: Sequence[TracedKey]
    reads: "array[int]"


def write_trace(trace: Trace, path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=6) as file:
        for line in _lines(trace):
            file.write(orjson.dumps(line) + b"\n")


def _lines(trace: Trace) -> Iterator[object]:
    yield {"name": trace.name, "about": trace.about, "keys": len(trace.keys), "reads": len(trace.reads)}
    yield from map(list, trace.keys)
    for start in range(0, len(trace.reads), _LINE_READS):
        yield trace.reads[start : start + _LINE_READS].tolist()


def read_trace(path: Path) -> Trace:
    """Read a file. Raises `TraceError` if it is none, or not all of one."""
    try:
        with gzip.open(path, "rb") as file:
            head = orjson.loads(next(file))
            keys = [TracedKey(*orjson.loads(next(file))) for _ in range(head["keys"])]
            reads = array("L")
            for line in file:
                reads.extend(orjson.loads(line))
    except (OSError, EOFError, StopIteration, ValueError, TypeError, KeyError, OverflowError) as error:
        raise TraceError(f"{path} is no trace: {type(error).__name__}: {error}") from error
    if len(reads) != head["reads"] or max(reads, default=-1) >= len(keys):
        raise TraceError(f"{path} is not a whole trace")
    return Trace(head["name"], head["about"], keys, reads)
