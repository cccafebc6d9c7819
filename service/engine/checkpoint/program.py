"""Digest of the program that computes and stores state: state of another program may mean something else.

*Theory*: a node's digest says which relation its rows are, not how they were computed. They are as right as the
decoders, functions, aggregates, collations and the engine that made them. A release that corrects one of these would
take wrong rows over from the release before, and keep them for as long as they are read; neither a format's version
nor a check of the rows can tell. So state is used by the very program that wrote it. An upgrade that leaves these
modules as they are (of workers, gateway, supervisor, command line) is warm.
"""

import sys
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import cdc
import dataflow
from service import engine, leaf_store

_SUFFIXES = frozenset({".py", ".so"})
#: Packages whose results are in rows: matches of regular expressions, decoded values.
_DISTRIBUTIONS = ("google-re2", "psycopg", "pymysql", "mysql-replication", "kafka-python")
#: Batch jobs, and operations of the admin port: they store no state in an engine.
_OTHERS = ("spark/", "admin/")


@cache
def program_digest() -> str:
    """Returns a digest of the interpreter's version, of all modules of the engine and its process, the decoders and
    the leaf store, and of the versions of the packages that compute or decode values."""
    state = blake2b(sys.version.encode(), digest_size=16)
    for distribution in _DISTRIBUTIONS:
        state.update(f"{distribution} {_version(distribution)}\n".encode())
    for package in (dataflow, cdc, leaf_store, engine):
        for name, path in _modules(package.__path__):
            content = path.read_bytes()
            state.update(f"{name} {len(content)}\n".encode())
            state.update(content)
    return state.hexdigest()


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "none"


def _modules(paths: Iterable[str]) -> list[tuple[str, Path]]:
    found = [(str(path.relative_to(base)), path) for base in paths for path in Path(base).rglob("*")]
    return sorted((name, path) for name, path in found if path.suffix in _SUFFIXES and not name.startswith(_OTHERS))
