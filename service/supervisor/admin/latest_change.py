"""The latest change of a view, of those that pods know.

*Theory*: each pod stores, for each view that was put over HTTP or dropped, when that was
(`service.engine.views.registry`). The latest change of a name applies at all pods (a last-writer-wins set; Shapiro
et al., *Conflict-free Replicated Data Types*, 2011).

Not here: sending it to pods that lack it (`reconcile`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from service.protocol.admin_operations import ViewChange

#: The changes that a pod knows, by view.
Changes = Mapping[str, ViewChange]


def latest(of_pods: Iterable[Changes]) -> Changes:
    """Latest change of each name, the earliest of these first: views come before those that read them. Of two different
    changes at one time every caller chooses the same one, with a time one millisecond later."""
    found: dict[str, ViewChange] = {}
    for changes in of_pods:
        for name, change in changes.items():
            found[name] = change if name not in found else _later(found[name], change)
    return dict(sorted(found.items(), key=lambda each: each[1].at_ms))


def _later(one: ViewChange, other: ViewChange) -> ViewChange:
    if one.at_ms != other.at_ms:
        return max(one, other, key=lambda change: change.at_ms)
    if one == other:
        return one
    return replace(max(one, other, key=_order), at_ms=one.at_ms + 1)


def _order(change: ViewChange) -> tuple[str, str]:
    return change.sql or "", change.options.model_dump_json()
