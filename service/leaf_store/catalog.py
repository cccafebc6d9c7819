"""Catalog of views, which the leaf store carries to every worker."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import orjson

from dataflow.collations import Collation
from dataflow.plan.clock_bounds import ClockBound
from dataflow.plan.nodes import Members, OrderTerm, View, column_types
from dataflow.schema import SqlType
from dataflow.state.ordering import Ordering
from dataflow.types import ViewId
from service.leaf_store.clock import ClockInfo
from service.leaf_store.layout import view_head
from service.leaf_store.plan_records import fields_of, load_plan, types_in
from service.leaf_store.render import unique_names
from service.leaf_store.serving_options import SERVING, Serving

if TYPE_CHECKING:
    from service.leaf_store.computed import ComputedAnswers

_INT8 = SqlType("int8", "bigint")
#: Statuses of views whose contents are incomplete.
INCOMPLETE = frozenset({"building", "quarantined", "outdated"})
#: Status of a view of another shard; statuses of views that cannot be read here.
ELSEWHERE = "elsewhere"
UNREADABLE = frozenset({"broken", ELSEWHERE})
#: Prefix of parameters that are bound from the client's token: ``:claims.sub``.
CLAIMS = "claims."
_DIGEST_BYTES = 8


class ParameterRole(StrEnum):
    """The comparison or cut of a parameter's value."""

    EQUAL = "="
    #: Takes a list; each of its values is a key.
    LIST = "in"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    LIMIT = "limit"
    OFFSET = "offset"


#: Roles of bounds of the first order column.
BOUNDS = frozenset(ParameterRole) - {
    ParameterRole.EQUAL,
    ParameterRole.LIST,
    ParameterRole.LIMIT,
    ParameterRole.OFFSET,
}


@dataclass(frozen=True, slots=True)
class NamedType:
    """A column as readers see it. `nullable`: it may be NULL, as far as is known."""

    name: str
    type: SqlType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """One use of a parameter. A parameter used twice, as ``=`` and as a bound, has two.

    `members`: the list is made of these; it is named by the first of their names.
    """

    name: str
    type: SqlType
    role: ParameterRole = ParameterRole.EQUAL
    members: Members | None = None
    #: NULL is a value like others.
    takes_null: bool = False
    #: The list as a whole is one value of the key.
    whole: bool = False

    @property
    def is_claim(self) -> bool:
        """True if its value comes from the client's token, never from the request."""
        return self.name.startswith(CLAIMS)

    @property
    def given(self) -> "tuple[ParameterInfo, ...]":
        """The parameters that a read gives: those of one value each, if the list is made of such."""
        return (self,) if self.members is None else tuple(ParameterInfo(n, self.type) for n in self.members.names)


@dataclass(frozen=True, slots=True)
class OrderColumn:
    """A term of the order in which a key's rows are stored."""

    type: SqlType
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class ViewInfo:
    """A view without its plan. `null_rows` is the answer (a JSON array) if a parameter is NULL (None: the upstream's
    answer).

    `parameters` are in the order in which a read gives their values: those of the key, as in the plan; those
    `within` a key, which select rows of it by the columns of `storage`; then bounds, LIMIT and OFFSET.

    Without slots: derived properties are cached at their first use.
    """

    id: ViewId
    name: str
    sql: str
    parameters: tuple[ParameterInfo, ...]
    columns: tuple[NamedType, ...]
    ordered: bool
    limit_rows: int | None
    offset_rows: int
    null_rows: str | None
    #: ``building``, ``ready``, ``quarantined``, ``outdated``, ``broken`` or ``elsewhere``, and the reason.
    status: str
    reason: str | None = None
    #: Whether the name denotes this view (False: a replacement that is not published yet).
    listed: bool = True
    #: The order of a key's rows in the store, and whether answers have the same order.
    storage: tuple[OrderColumn, ...] = ()
    direct: bool = True
    #: Answers are cached answers of the upstream: a key has all parameters as given, NULLs and lists included.
    refreshed: bool = False
    #: How many of `parameters` select rows of a key.
    within: int = 0
    serving: Serving = SERVING
    #: Bounds of the first column of `storage` that depend on the current time.
    clock: tuple[ClockInfo, ...] = ()
    #: Conditions on the current time that filter rows, by the last columns of `storage`: one each.
    filters: tuple[ClockInfo, ...] = ()
    #: Values of the current time that keys begin with.
    clock_keys: tuple[ClockInfo, ...] = ()
    #: The plan of answers that reads compute from rows (`View.at_read`).
    at_read: View | None = None
    #: Digest of its plan and of the columns of its tables; empty if unknown.
    meaning: str = field(default="", compare=False)

    @cached_property
    def building(self) -> bool:
        """True if its contents are incomplete, so that it must not be read."""
        return self.status in INCOMPLETE

    @property
    def cache_control(self) -> str | None:
        """The Cache-Control header of its answers; None: the service's default."""
        return self.serving.cache_control

    @cached_property
    def definition(self) -> str:
        """Digest of the view's meaning and of its parameters' values: equal in every process that has this view,
        whatever its id, and different for another view of the same name."""
        record = _json((self.sql, self.parameters, self.serving), lambda collation: collation.name)
        return blake2b(record, digest_size=_DIGEST_BYTES).hexdigest()

    @cached_property
    def head(self) -> bytes:
        """Prefix of all keys of its records."""
        return view_head(self.id)

    @cached_property
    def given(self) -> tuple[ParameterInfo, ...]:
        """The parameters that a read gives; `parameters` has lists for those that are members of one."""
        return tuple(given for parameter in self.parameters for given in parameter.given)

    @cached_property
    def claims(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.name for p in self.parameters if p.is_claim))

    @cached_property
    def cut(self) -> bool:
        """True if an answer may omit rows of its key."""
        return self.limit_rows is not None or self.offset_rows > 0

    @property
    def timed(self) -> bool:
        """True if its answers depend on the time of the read."""
        return bool(self.clock or self.clock_keys)

    @cached_property
    def plain(self) -> bool:
        """True if the values of its parameters are its key."""
        return not (self.within or self.timed) and all(
            parameter.role is ParameterRole.EQUAL for parameter in self.parameters
        )

    @cached_property
    def one_key(self) -> bool:
        """True if a read without a page is of one whole key."""
        return self.plain or self.refreshed

    @cached_property
    def whole(self) -> bool:
        """True if a read without a page is of whole keys: of one, or of several without an order."""
        keyed = all(parameter.role in (ParameterRole.EQUAL, ParameterRole.LIST) for parameter in self.parameters)
        return self.one_key or (keyed and not (self.cut or self.ordered or self.storage))

    @cached_property
    def bag(self) -> bool:
        """True if a read without a page answers all rows of its keys or selection, without an order."""
        return bool(self.within) or (self.whole and not self.cut)

    @cached_property
    def ordering(self) -> Ordering:
        return ordering_of(self.storage)

    @cached_property
    def filter_columns(self) -> tuple[tuple[ClockInfo, OrderColumn, Ordering], ...]:
        """The filters with their columns, and the order of each."""
        columns = self.storage[len(self.storage) - len(self.filters) :]
        return tuple((bound, c, ordering_of([c])) for bound, c in zip(self.filters, columns, strict=True))

    @cached_property
    def answer_ordering(self) -> Ordering:
        """The order in which rows are answered, or computed from, with the columns that they are filtered by behind
        it."""
        return self.ordering if self.direct or self.at_read else ordering_of(self.storage[1:])

    @cached_property
    def computed(self) -> "ComputedAnswers":
        """The computation of answers, if `at_read`."""
        assert self.at_read is not None
        # A process that reads no such view does not load the operators and functions of SQL.
        from service.leaf_store.computed import ComputedAnswers

        return ComputedAnswers(self.id, self.at_read, self.serving.bigint_text)


def ordering_of(columns: Sequence[OrderColumn]) -> Ordering:
    """Return the order of rows of these columns."""
    terms = [OrderTerm(i, column.descending, column.nulls_first) for i, column in enumerate(columns)]
    return Ordering(terms, [column.type for column in columns])


@dataclass(frozen=True, slots=True)
class LeafCatalog:
    """All views of one catalog version. `by_name` has the listed ones. `known`: False until the engine has
    registered its views."""

    version: int
    by_id: dict[ViewId, ViewInfo]
    by_name: dict[str, ViewInfo]
    known: bool = True


def catalog_of(version: int, views: list[ViewInfo], *, known: bool = True) -> LeafCatalog:
    return LeafCatalog(version, {v.id: v for v in views}, {v.name: v for v in views if v.listed}, known)


def describe(
    view: ViewId,
    plan: View,
    null_rows: str | None,
    status: str,
    listed: bool,
    refreshed: bool = False,
    serving: Serving = SERVING,
    never_null: Collection[int] = (),
) -> ViewInfo:
    """Return a view's entry, from its plan. `never_null`: output columns that are never NULL."""
    types, answer = column_types(plan.relation), plan.answer
    shown = column_types(answer.relation)
    names = unique_names([output.name for output in answer.output])
    return ViewInfo(
        id=view,
        name=plan.name,
        sql=plan.sql,
        parameters=tuple(_parameters(plan, types)),
        columns=tuple(
            NamedType(name, shown[output.column], number not in never_null)
            for number, (name, output) in enumerate(zip(names, answer.output, strict=True))
        ),
        ordered=bool(answer.order),
        limit_rows=answer.limit_rows,
        offset_rows=answer.offset_rows,
        null_rows=null_rows,
        status=status,
        listed=listed,
        storage=tuple(OrderColumn(types[t.column], t.descending, t.nulls_first) for t in plan.leaf_order),
        direct=plan.is_direct and plan.at_read is None,
        refreshed=refreshed,
        within=len(plan.within),
        serving=serving,
        clock=tuple(_clock_info(bound, types) for bound in plan.clock),
        filters=tuple(_clock_info(bound, types) for bound in plan.clock_filters),
        clock_keys=tuple(_clock_info(bound, types) for bound in plan.clock_keys),
        at_read=plan.at_read,
    )


def _clock_info(bound: ClockBound, types: tuple[SqlType, ...]) -> ClockInfo:
    return ClockInfo(bound.operator, bound.value, types[bound.column])


def _parameters(plan: View, types: tuple[SqlType, ...]) -> Iterator[ParameterInfo]:
    for parameter in (*plan.parameters, *plan.within):
        sql_type = types[parameter.column]
        # Of a column there are no parameters that are arrays.
        element = sql_type.element if sql_type.kind == "array" else None
        yield ParameterInfo(
            parameter.name,
            element or sql_type,
            ParameterRole.EQUAL if element is None and not parameter.many else ParameterRole.LIST,
            parameter.members,
            parameter.takes_null,
            element is not None,
        )
    for bound in plan.ranges:
        yield ParameterInfo(bound.name, types[bound.column], ParameterRole(bound.operator))
    limit, offset = plan.answer.limit_parameter, plan.answer.offset_parameter
    for name, role in ((limit, ParameterRole.LIMIT), (offset, ParameterRole.OFFSET)):
        if name is not None:
            yield ParameterInfo(name, _INT8, role)


def collations_of(view: ViewInfo) -> set[Collation]:
    """Return the collations in a view's part of the catalog's record."""
    return {sql_type.weights for sql_type in _types_of(view) if sql_type.weights is not None}


def _types_of(view: ViewInfo) -> Iterator[SqlType]:
    yield from (parameter.type for parameter in view.parameters)
    yield from (column.type for column in view.columns)
    yield from (column.type for column in view.storage)
    for bound in view.clock + view.filters + view.clock_keys:
        yield from (bound.type, *types_in(bound.value))
    yield from types_in(view.at_read)


def dump_view(view: ViewInfo, digest: Callable[[Collation], str]) -> bytes:
    """Return a view's part of the catalog's record. `digest`: the name of a collation (`collations`)."""
    return _json(view, digest)


def join_catalog(views: Iterable[bytes]) -> bytes:
    """Return the catalog's record from its parts."""
    return b"[" + b",".join(views) + b"]"


def _json(value: object, digest: Callable[[Collation], str]) -> bytes:
    def plain(value: object) -> object:
        if isinstance(value, Collation):
            return digest(value)
        return fields_of(value)

    return orjson.dumps(value, plain, orjson.OPT_PASSTHROUGH_DATACLASS)


def load_catalog(version: int, record: bytes, collation: Callable[[str], Collation]) -> LeafCatalog:
    """Return the catalog from its record."""
    return catalog_of(version, [_view(view, collation) for view in orjson.loads(record)])


def _view(view: dict[str, Any], collation: Callable[[str], Collation]) -> ViewInfo:
    def typed(values: dict[str, Any]) -> SqlType:
        element, weights = values.pop("element"), values.pop("weights")
        return SqlType(
            **{**values, "labels": tuple(values["labels"])},
            element=None if element is None else typed(element),
            weights=None if weights is None else collation(weights),
        )

    def listed(values: dict[str, Any] | None) -> Members | None:
        return None if values is None else Members(tuple(values["names"]), tuple(values["constants"]))

    def timed(records: list[dict[str, Any]]) -> tuple[ClockInfo, ...]:
        return tuple(ClockInfo(c["operator"], load_plan(c["value"], typed), typed(c["type"])) for c in records)

    parts: dict[str, Any] = {
        "parameters": tuple(
            ParameterInfo(
                p["name"],
                typed(p["type"]),
                ParameterRole(p["role"]),
                listed(p["members"]),
                p["takes_null"],
                p["whole"],
            )
            for p in view.pop("parameters")
        ),
        "columns": tuple(NamedType(c["name"], typed(c["type"]), c["nullable"]) for c in view.pop("columns")),
        "storage": tuple(OrderColumn(typed(o.pop("type")), **o) for o in view.pop("storage")),
        "serving": Serving.of(view.pop("serving")),
        "clock": timed(view.pop("clock")),
        "filters": timed(view.pop("filters")),
        "clock_keys": timed(view.pop("clock_keys")),
        "at_read": load_plan(view.pop("at_read"), typed),
    }
    return ViewInfo(**parts, **view)
