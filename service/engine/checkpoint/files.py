"""Names of the checkpoints of a service in `[state] directory`: one for each of its engines.

Not here: their contents (`store`). Imported by processes that have no engine.
"""

from collections.abc import Iterator
from pathlib import Path


def checkpoint_path(directory: Path, engine: int = 0, engines: int = 1) -> Path:
    """Returns the file of one of so many engines."""
    return directory / ("checkpoint" if engines == 1 else f"checkpoint-{engine}-of-{engines}")


def checkpoints_of(directory: Path, engines: int) -> list[Path]:
    """Returns the files of so many engines that exist."""
    paths = [checkpoint_path(directory, engine, engines) for engine in range(engines)]
    return [path for path in paths if path.exists()]


def other_checkpoints(directory: Path, engines: int) -> Iterator[tuple[int, Path]]:
    """Yields the files of another number of engines that exist, with that number."""
    for path in directory.glob("checkpoint*"):
        *_, number = path.name.split("-of-")
        of = 1 if path.name == "checkpoint" else int(number) if number.isdecimal() else engines
        if of != engines:
            yield of, path
