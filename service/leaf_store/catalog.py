"""What readers know of a view, as the leaf store carries it to every worker."""

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from dataflow.plan.nodes import View, column_types
from dataflow.schema import SqlType
from dataflow.types import ViewId
from service.leaf_store.render import unique_names


@dataclass(frozen=True, slots=True)
class NamedType:
    """A parameter or a column as readers see it."""

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class ViewInfo:
    """A view, without its plan. `null_rows` is the answer (a JSON array) when a parameter is NULL."""

    id: ViewId
    name: str
    sql: str
    parameters: tuple[NamedType, ...]
    columns: tuple[NamedType, ...]
    ordered: bool
    limit_rows: int | None
    offset_rows: int
    null_rows: str
    #: ``building``, ``ready`` or ``broken``, and why.
    status: str
    reason: str | None = None
    #: Whether the view's name means this view (False: a replacement that is not published yet).
    listed: bool = True

    @property
    def cut(self) -> bool:
        """Whether an answer may leave out rows of its key."""
        return self.limit_rows is not None or self.offset_rows > 0


@dataclass(frozen=True, slots=True)
class LeafCatalog:
    """All views of one catalog version. `by_name` has the listed ones."""

    version: int
    by_id: dict[ViewId, ViewInfo]
    by_name: dict[str, ViewInfo]


def catalog_of(version: int, views: list[ViewInfo]) -> LeafCatalog:
    """A catalog of these views."""
    return LeafCatalog(version, {v.id: v for v in views}, {v.name: v for v in views if v.listed})


def describe(view: ViewId, plan: View, null_rows: str, status: str, listed: bool) -> ViewInfo:
    """A view's entry, from its plan."""
    types = column_types(plan.relation)
    names = unique_names([output.name for output in plan.output])
    return ViewInfo(
        id=view,
        name=plan.name,
        sql=plan.sql,
        parameters=tuple(NamedType(p.name, types[p.column]) for p in plan.parameters),
        columns=tuple(NamedType(name, types[o.column]) for name, o in zip(names, plan.output, strict=True)),
        ordered=bool(plan.order),
        limit_rows=plan.limit_rows,
        offset_rows=plan.offset_rows,
        null_rows=null_rows,
        status=status,
        listed=listed,
    )


def dump_catalog(views: list[ViewInfo]) -> bytes:
    """The catalog's record."""
    return orjson.dumps([asdict(view) for view in views])


def load_catalog(version: int, record: bytes) -> LeafCatalog:
    """The catalog from its record."""
    return catalog_of(version, [_view(fields) for fields in orjson.loads(record)])


def _view(fields: dict[str, Any]) -> ViewInfo:
    named: dict[str, Any] = {
        part: tuple(NamedType(item["name"], _type(item["type"])) for item in fields.pop(part))
        for part in ("parameters", "columns")
    }
    return ViewInfo(**named, **fields)


def _type(fields: dict[str, Any]) -> SqlType:
    element = fields.pop("element")
    labels = tuple(fields.pop("labels"))
    return SqlType(**fields, element=None if element is None else _type(element), labels=labels)
