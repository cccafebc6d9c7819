"""Views for tests of the leaf store and of what reads it."""

from dataflow.plan.nodes import Chain, OrderTerm, OutputColumn, Parameter, RangeParameter, View
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.types import Row

INT8 = SqlType("int8", "int8")
TEXT = SqlType("text", "text")
#: id, title, author, votes
COLUMNS = (("id", INT8), ("title", TEXT), ("author", TEXT), ("votes", INT8))
RELATION = Chain("public.stories", None, tuple(ColumnRef(i, kind) for i, (_, kind) in enumerate(COLUMNS)))


def make_view(
    name: str,
    parameters: dict[str, int],
    *,
    shown: tuple[int, ...] = (0, 1, 2, 3),
    order: tuple[OrderTerm, ...] = (),
    limit_rows: int | None = None,
    offset_rows: int = 0,
    rows_for_null: tuple[Row, ...] = (),
    lists: tuple[str, ...] = (),
    ranges: tuple[RangeParameter, ...] = (),
    limit_parameter: str | None = None,
    offset_parameter: str | None = None,
    within: dict[str, int] | None = None,
) -> View:
    """A view over `RELATION`; the parameters in `lists` take several values, those of `within` pick rows of a key."""
    return View(
        name=name,
        sql=f"SELECT … /* {name} */",
        relation=RELATION,
        parameters=tuple(Parameter(p, column, p in lists) for p, column in sorted(parameters.items())),
        output=tuple(OutputColumn(COLUMNS[i][0], i) for i in shown),
        order=order,
        limit_rows=limit_rows,
        offset_rows=offset_rows,
        rows_for_null=rows_for_null,
        ranges=ranges,
        limit_parameter=limit_parameter,
        offset_parameter=offset_parameter,
        within=tuple(Parameter(p, column, p in lists) for p, column in sorted((within or {}).items())),
    )


#: One row a key.
STORY = make_view("story", {"id": 0})
#: Many rows a key, ordered by columns that readers see.
BY_AUTHOR = make_view("stories_of", {"author": 2}, order=(OrderTerm(3, descending=True), OrderTerm(1)))
