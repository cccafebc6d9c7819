"""Which change of a view counts, of those that pods know.

*Theory*: each pod keeps, for each view that was put over HTTP or dropped, when that was
(`service.engine.views.registry`). The latest change of a name is what all are to have (a last-writer-wins set; Shapiro
et al., *Conflict-free Replicated Data Types*, 2011).

Not here: telling it to those that lack it (`reconcile`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

#: What a pod says of views, by name: `at_ms`, when it was changed, and `sql` and `options` unless it was dropped then.
Kept = Mapping[str, dict[str, Any]]


def latest(of_pods: Iterable[Kept]) -> Kept:
    """Of each name the latest change, the earliest of these first: views come before those that read them. Of two
    different ones at one time it is the same one whoever looks, a moment later."""
    found: dict[str, dict[str, Any]] = {}
    for kept in of_pods:
        for name, change in kept.items():
            found[name] = change if name not in found else _later(found[name], change)
    return dict(sorted(found.items(), key=lambda each: each[1]["at_ms"]))


def _later(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    if one["at_ms"] != other["at_ms"]:
        return max(one, other, key=lambda change: change["at_ms"])
    if _what(one) == _what(other):
        return one
    return max(one, other, key=_what) | {"at_ms": one["at_ms"] + 1}


def _what(change: Mapping[str, Any]) -> tuple[str, str]:
    return change.get("sql") or "", repr(sorted(change.get("options", {}).items()))
