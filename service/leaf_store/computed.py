"""Answers that reads compute from the rows of a time window (`dataflow.plan.at_read`).

Not here: which rows these are (`request`, `scan`).
"""

from collections.abc import Iterable

import orjson

from dataflow.ops.evaluation import evaluator
from dataflow.plan.nodes import View
from dataflow.types import ViewId
from service.leaf_store.encoder import ViewEncoder
from service.leaf_store.layout import Record


class ComputedAnswers:
    """The computation of one view's answers, compiled."""

    __slots__ = ("_compute", "encoder")

    def __init__(self, view: ViewId, plan: View, bigint_text: bool) -> None:
        self.encoder = ViewEncoder(view, plan, bigint_text=bigint_text)
        self._compute = evaluator(plan.relation)

    def records(self, stored: Iterable[Record]) -> list[Record]:
        """Return the answer's rows, in its order, from stored ones. Raises EvaluationError where the database would
        fail."""
        texts = b",".join([json for _, json, copies in stored for _ in range(copies)])
        rows = [tuple(row.values()) for row in orjson.loads(b"[" + texts + b"]")]
        return self.encoder.encode_bag(self._compute(rows))
