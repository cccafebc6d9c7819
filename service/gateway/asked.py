"""Parsing of a batch's body, as far as a gateway needs it: the views and keys of its items.

*Invariants*: bodies that do not have the documented form are not parsed here; a pod reports their errors, or may
accept them, so rights are checked for all views that they name (`named_views`). A forwarded item keeps its meaning:
numbers too large or too precise for the fast parser are parsed and written exactly.

Not here: values of parameters (a pod's `service.worker.reads.batches`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from service.gateway.homes import slot_of
from service.gateway.known import LearnedViews
from service.ground.errors import ApiError
from service.web.messages import Headers, Scope
from service.worker.reads.view_reads import VIEWS_PATH

READ_PATH, QUERY = "/v1/read", "/query"
_KEYS, _READS = "keys", "reads"
_FIELDS = frozenset({"view", "params", "limit", "after"})
_EXACT = frozenset({str, int, bool, type(None)})
_JSON = b"application/json"
#: The members of a body's list, and whether the fast parser preserved every digit.
_Listed = tuple[list[Any], bool]


@dataclass(frozen=True, slots=True)
class AskedBatch:
    """A parsed batch. `items` are the members of the body's only list, `views` and `slots` their views and slots."""

    member: str
    items: Sequence[Mapping[str, Any]]
    views: Sequence[str]
    slots: Sequence[int]
    is_exact: bool

    @classmethod
    def of(cls, scope: Scope, content: bytes, known: LearnedViews, max_keys: int) -> "AskedBatch | None":
        """Parse a batch; None if it does not have the documented form, is empty, or has more than `max_keys`."""
        path, headers = scope["path"], scope["headers"]
        if not any(name == b"content-type" and value.startswith(_JSON) for name, value in headers):
            return None
        if path == READ_PATH:
            return _of_reads(_listed(content, _READS, max_keys), headers, known)
        view = path.removeprefix(VIEWS_PATH).removesuffix(QUERY)
        return None if "/" in view or not view else _of_keys(view, _listed(content, _KEYS, max_keys), headers, known)

    def body_of(self, places: Sequence[int]) -> bytes:
        """Return the body with some of the items."""
        body = {self.member: [self.items[place] for place in places]}
        return orjson.dumps(body) if self.is_exact else json.dumps(body).encode()


def is_batch(scope: Scope) -> bool:
    """Return whether a request is a batch, by its path."""
    path: str = scope["path"]
    return scope["method"] == "POST" and (path == READ_PATH or (path.startswith(VIEWS_PATH) and path.endswith(QUERY)))


def named_views(scope: Scope, content: bytes) -> list[str]:
    """Return the views that a pod may find in a batch, even an invalid one.

    Raises ApiError(invalid_request) if JSON parsers may read the body differently.
    """
    path = scope["path"]
    if path != READ_PATH:
        return [path.removeprefix(VIEWS_PATH).removesuffix(QUERY)]
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ApiError("invalid_request", f"The body is not JSON in UTF-8: {error}.", "See /openapi.json.") from None
    reads = body.get(_READS) if type(body) is dict else None
    views = [read.get("view") for read in reads if type(read) is dict] if type(reads) is list else []
    return [view for view in views if type(view) is str]


def _of_keys(view: str, listed: _Listed, headers: Headers, known: LearnedViews) -> AskedBatch | None:
    keys, is_exact = listed
    if not keys or not all(type(key) is dict for key in keys):
        return None
    who = known.asker(view, headers)
    return AskedBatch(_KEYS, keys, [view] * len(keys), [slot_of(view, key, who) for key in keys], is_exact)


def _of_reads(listed: _Listed, headers: Headers, known: LearnedViews) -> AskedBatch | None:
    reads, is_exact = listed
    if not reads or not all(map(_is_read, reads)):
        return None
    views = [read["view"] for read in reads]
    askers = {view: known.asker(view, headers) for view in views}
    slots = [slot_of(view, read.get("params", {}), askers[view]) for view, read in zip(views, reads, strict=True)]
    return AskedBatch(_READS, reads, views, slots, is_exact)


def _is_read(read: Any) -> bool:
    if type(read) is not dict or not read.keys() <= _FIELDS:
        return False
    return type(read.get("view")) is str and type(read.get("params", {})) is dict


def _listed(content: bytes, member: str, most: int) -> _Listed:
    """Return the list that is the only member of a JSON object, and whether parsing was exact. Empty if there is no
    such list, or it is too long."""
    try:
        body = orjson.loads(content)
        is_exact = _is_exact(body)
        if not is_exact:
            body = json.loads(content)
    except (ValueError, RecursionError):
        return [], True
    listed = body.get(member) if type(body) is dict and len(body) == 1 else None
    return (listed if type(listed) is list and len(listed) <= most else []), is_exact


def _is_exact(value: Any) -> bool:
    if type(value) is dict:
        return all(map(_is_exact, value.values()))
    return all(map(_is_exact, value)) if type(value) is list else type(value) in _EXACT
