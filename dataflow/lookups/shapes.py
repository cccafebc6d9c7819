"""Choice of the SQL of lookups by `Catalog.dialect`, as `explain` shows it."""

from collections.abc import Callable

from dataflow.lookups.mysql import lookup as mysql
from dataflow.lookups.postgres import lookup as postgres
from dataflow.plan.nodes import Aggregate, Chain
from dataflow.plan.parts import Part
from dataflow.schema import Catalog
from dataflow.types import Columns

_Shape = Callable[[Chain | Aggregate, Columns, Catalog, Part | None], str]
_SHAPES: dict[str, _Shape] = {
    "postgres": postgres.lookup_sql,
    "mariadb": mysql.lookup_shape,
    "mysql": mysql.lookup_shape,
}


def lookup_shape(relation: Chain | Aggregate, columns: Columns, catalog: Catalog, part: Part | None = None) -> str:
    """The statement of lookups by keys on `columns`: with placeholders for the keys."""
    return _SHAPES[catalog.dialect](relation, columns, catalog, part)
