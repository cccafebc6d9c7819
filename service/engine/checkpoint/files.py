"""Names of the checkpoints of a service in `[state] directory`, and of its lists of hot keys: one for each engine.

Not here: their contents (`store`). Imported by processes that have no engine.
"""

from collections.abc import Iterator
from pathlib import Path


def checkpoint_path(directory: Path, engine: int = 0, engines: int = 1) -> Path:
    """Returns the file of an engine of a service with `engines` of them."""
    return directory / ("checkpoint" if engines == 1 else f"checkpoint-{engine}-of-{engines}")


def checkpoints_of(directory: Path, engines: int) -> list[Path]:
    """Returns the existing files of a service with `engines` engines."""
    paths = [checkpoint_path(directory, engine, engines) for engine in range(engines)]
    return [path for path in paths if path.exists()]


def other_checkpoints(directory: Path, engines: int) -> Iterator[tuple[int, Path]]:
    """Yields existing files of services with another number of engines, each with that number."""
    return _others(directory, "checkpoint", engines)


def hot_keys_path(directory: Path, engine: int = 0, engines: int = 1) -> Path:
    """Returns the list of hot keys of an engine of a service with `engines` of them."""
    return directory / ("hot-keys" if engines == 1 else f"hot-keys-{engine}-of-{engines}")


def other_hot_keys(directory: Path, engines: int) -> Iterator[Path]:
    """Yields existing lists of services with another number of engines."""
    return (path for _, path in _others(directory, "hot-keys", engines))


def _others(directory: Path, kind: str, engines: int) -> Iterator[tuple[int, Path]]:
    """Yields existing files of this kind of another number of engines, incomplete ones included."""
    for path in directory.glob(f"{kind}*"):
        *_, number = path.name.removesuffix(".new").split("-of-")
        of = 1 if number == kind else int(number) if number.isdecimal() else engines
        if of != engines:
            yield of, path
