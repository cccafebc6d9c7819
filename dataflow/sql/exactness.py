"""Check that everything a plan computes over several rows is exact, by the operators' own rules."""

from dataflow.errors import UnsupportedQuery
from dataflow.ops.aggregate_call import CompiledCall
from dataflow.ops.top_k import top_rows
from dataflow.ops.window import window_rows
from dataflow.plan.nodes import Aggregate, Block, Chain, Relation, TopK, Union, Window, inputs_of


def check_exact(relation: Relation) -> None:
    """UnsupportedQuery for the first aggregate, window function or order that is not."""
    for below in inputs_of(relation):
        check_exact(below)
    try:
        match relation:
            case Aggregate():
                for call in relation.calls:
                    CompiledCall(call)
            case Window():
                window_rows(relation)
            case TopK():
                top_rows(relation)
            case Chain() | Block() | Union():
                pass
    except ValueError as error:
        raise UnsupportedQuery(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
