"""Counts of a node with state, for reports."""

from dataclasses import dataclass


@dataclass(slots=True)
class NodeCounts:
    """Plain numbers that only grow. A delta's rows are *applied* where they are under a covered key, else *dropped*."""

    #: Keys, or parts of them, that were filled.
    filled: int = 0
    #: Keys that became holes, whatever the reason.
    evicted: int = 0
    #: Of those, by the budget.
    evicted_by_budget: int = 0
    #: Hot keys that correctness evicted and that were filled again before somebody asked.
    refilled: int = 0
    rows_applied: int = 0
    rows_dropped: int = 0
