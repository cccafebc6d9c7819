"""Incremental plans, in a file for the next process of an engine: of its start with many views, most is planning.

*Theory*: the plan of a view that reads no registered views follows from its definition and the catalog. So it is the
plan that would be made now if what it was made with is what there is now; what is another is told as it is for
installed views (`catalog_diff`). A followed table is compared as it was when it began to be followed, which is what
plans were made with, whatever has been altered since without concerning them. Statistics of tables are not compared:
they choose among plans that answer the same.

*Invariants*: what is read was written by this very program: the file is in the directory of its run, where only its
user can write. Of a file that cannot be read nothing is known, nor of one in whose session functions, types or the
like have changed.
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

#: What is installed is looked at so often.
_EVERY_S = 5.0
#: What the next entry of a file may be instead: nothing, cut off, of a collation that is gone, of other classes.
_NO_ENTRY = (EOFError, pickle.UnpicklingError, KeyError, ValueError, TypeError, AttributeError, ImportError)
#: How a plan says that it cannot be pickled: too deep, or with something of the process in it.
_NOT_KEPT = (RecursionError, pickle.PicklingError, TypeError, AttributeError)


@dataclass(slots=True)
class KnownPlans:
    """*State*: `_written` is what the file has; `_code`, the marks of functions, types … as the session began."""

    path: Path
    registry: ViewRegistry
    following: FollowedTables
    _written: tuple[Look, dict[Definition, ViewPlan]] | None = None
    _code: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def under(self, look: Look) -> dict[Definition, ViewPlan]:
        """Those of the file that would be made now, as a session begins."""
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
        """Writes what is installed, when it is another than before; for ever."""
        while True:
            if (look := last_look()) is not None:
                now = Look(None, self._code, self.following.planning_catalog(look.catalog)), dict(self._installed())
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
        # Without room for it, the next process makes its plans again.
        with suppress(OSError), made.open("wb") as file:
            for entry in entries:
                # Nor is one that cannot be pickled kept: it is made again, too.
                with suppress(*_NOT_KEPT):
                    file.write(_pickled(entry))
            file.flush()
            made.replace(self.path)


def _is_alike(before: Look, look: Look) -> bool:
    """Whether what no `CatalogDifference` tells is the same."""
    then, now = before.catalog, look.catalog
    return (before.code, then.search_path, then.text, then.dialect) == (
        look.code,
        now.search_path,
        now.text,
        now.dialect,
    )


def _pickled(entry: object) -> bytes:
    """One entry; others run between two of them."""
    buffer = BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(entry)
    return buffer.getvalue()


def _read(file: BinaryIO, collations: Mapping[str, Collation]) -> Any:
    return _Unpickler(file, collations).load()


class _Pickler(pickle.Pickler):
    """Leaves out the weights of collations, which are large and equal where the names are."""

    def persistent_id(self, obj: object) -> str | None:
        """The name of a collation."""
        return obj.name if isinstance(obj, Collation) else None


class _Unpickler(pickle.Unpickler):
    """Puts the catalog's collations in."""

    def __init__(self, file: BinaryIO, collations: Mapping[str, Collation]) -> None:
        super().__init__(file)
        self._collations = collations

    def persistent_load(self, pid: str) -> Collation:
        """KeyError: the catalog does not have it any more."""
        return self._collations[pid]
