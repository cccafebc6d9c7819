"""Cache of incremental plans in a file, for the next process of an engine: most of its start with many views is
planning.

*Theory*: the plan of a view that reads no registered views follows from its definition and the catalog, so a cached
plan is valid if its inputs are unchanged; changes are detected as for installed views (`catalog_diff`). A followed
table is compared in the form in which it began to be followed, which is the form that plans use, whatever unrelated
changes came later. Statistics are not compared: they choose among plans with equal results.

*Invariants*: the file was written by this same program: it is in the run's directory, where only its user can write. A
file that cannot be read counts as empty, as does one written in a session in which functions, types or the like have
changed.
"""

import asyncio
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from dataflow.collations import Collation
from dataflow.plan.nodes import View
from service.engine.views.catalog_diff import CatalogDifference, Look
from service.engine.views.registry import Definition, ViewPlan, ViewRegistry
from service.engine.views.tables import FollowedTables

#: Interval between checks of the installed views.
_EVERY_S = 5.0
#: Errors of a file entry that is missing, truncated, or refers to a missing collation or to other classes.
_NO_ENTRY = (EOFError, pickle.UnpicklingError, KeyError, ValueError, TypeError, AttributeError, ImportError)
#: Errors of a plan that cannot be pickled: too deep, or with an object of the process in it.
_NOT_KEPT = (RecursionError, pickle.PicklingError, TypeError, AttributeError)


@dataclass(slots=True)
class KnownPlans:
    """Plans of the previous process. *State*: `_written`, the plans in the file; `_code`, marks of functions, types …
    at the session's start.
    """

    path: Path
    registry: ViewRegistry
    following: FollowedTables
    _written: tuple[Look, dict[Definition, ViewPlan]] | None = None
    _code: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def under(self, look: Look) -> dict[Definition, ViewPlan]:
        """Returns the cached plans that would be made again with this catalog, at the start of a session."""
        self._code = look.code
        found: dict[Definition, ViewPlan] = {}
        types = [look.catalog.text, *(c.type for table in look.catalog.tables.values() for c in table.columns)]
        collations = {t.weights.name: t.weights for t in types if t.weights is not None}
        with suppress(OSError, *_NO_ENTRY), self.path.open("rb") as file:
            before: Look = _read(file, collations)
            if not _is_alike(before, look):
                return {}
            difference = CatalogDifference.between(before, look)
            while True:
                definition, plan = _read(file, collations)
                if difference.spares(plan):
                    found[definition] = plan
        return found

    async def keep(self, last_look: Callable[[], Look | None]) -> None:
        """Writes the installed plans whenever they have changed, until cancelled."""
        while True:
            if (look := last_look()) is not None:
                now = Look(None, self._code, self.following.engine_catalog(look.catalog)), dict(self._installed())
                if now != self._written:
                    await asyncio.to_thread(self._write, [now[0], *now[1].items()])
                    self._written = now
            await asyncio.sleep(_EVERY_S)

    def _installed(self) -> Iterator[tuple[Definition, ViewPlan]]:
        for installation in self.registry.installations.values():
            plan = installation.plan
            if isinstance(plan.view, View) and not plan.reads_views and not installation.tombstone:
                yield installation.definition, plan

    def _write(self, entries: Iterable[object]) -> None:
        made = self.path.with_suffix(".new")
        # Without room for the file, the next process plans again.
        with suppress(OSError), made.open("wb") as file:
            for entry in entries:
                # A plan that cannot be pickled is left out and made again.
                with suppress(*_NOT_KEPT):
                    file.write(_pickled(entry))
            file.flush()
            made.replace(self.path)


def _is_alike(before: Look, look: Look) -> bool:
    """True if everything that `CatalogDifference` does not compare is unchanged."""
    then, now = before.catalog, look.catalog
    return (before.code, then.search_path, then.text, then.dialect) == (
        look.code,
        now.search_path,
        now.text,
        now.dialect,
    )


def _pickled(entry: object) -> bytes:
    """Pickles one entry; the loop runs between two of them."""
    buffer = BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(entry)
    return buffer.getvalue()


def _read(file: BinaryIO, collations: Mapping[str, Collation]) -> Any:
    return _Unpickler(file, collations).load()


class _Pickler(pickle.Pickler):
    """Pickler that replaces collations by their names: their weights are large, and equal if the names are."""

    def persistent_id(self, obj: object) -> str | None:
        return obj.name if isinstance(obj, Collation) else None


class _Unpickler(pickle.Unpickler):
    """Unpickler that resolves collations by the catalog."""

    def __init__(self, file: BinaryIO, collations: Mapping[str, Collation]) -> None:
        super().__init__(file)
        self._collations = collations

    def persistent_load(self, pid: str) -> Collation:
        """Returns the named collation. Raises `KeyError` if the catalog lacks it."""
        return self._collations[pid]
