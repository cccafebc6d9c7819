"""Digest of the program that computes and stores state: state of another program may mean something else."""

import sys
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from pathlib import Path

import cdc
import dataflow
from service import leaf_store
from service.engine import databases

_SUFFIXES = frozenset({".py", ".so"})


@cache
def program_digest() -> str:
    """Returns a digest of the interpreter's version and of all modules of the engine, the decoders, the databases'
    drivers and the leaf store."""
    state = blake2b(sys.version.encode(), digest_size=16)
    for package in (dataflow, cdc, leaf_store, databases):
        for name, path in _modules(package.__path__):
            content = path.read_bytes()
            state.update(f"{name} {len(content)}\n".encode())
            state.update(content)
    return state.hexdigest()


def _modules(paths: Iterable[str]) -> list[tuple[str, Path]]:
    found = [(str(path.relative_to(base)), path) for base in paths for path in Path(base).rglob("*")]
    return sorted((name, path) for name, path in found if path.suffix in _SUFFIXES)
