"""Loaded by schemathesis, in its process: some of the random values become ones that mean something to the service.

Only valid values are replaced, and only by valid ones, so that a request that must be refused still must be.
"""

import json
from pathlib import Path
from typing import Any

import schemathesis

_BIGINT = 1 << 63

#: `site.values_of` the service, in the working directory.
_VALUES: dict[str, dict[str, list[Any]]] = json.loads(Path("values.json").read_text(encoding="utf-8"))


def _pick(values: list[Any], given: Any) -> Any:
    """One of `values`, or what was given: the same each time, so that a failure can be repeated."""
    number = sum(str(given).encode()) % (2 * len(values))
    return values[number] if number < len(values) else given


def _is_valid(value: Any, like: Any) -> bool:
    if isinstance(like, int):
        return isinstance(value, int) and not isinstance(value, bool) and -_BIGINT <= value < _BIGINT
    return isinstance(value, str)


def _replaced(given: dict[str, Any], values: dict[str, list[Any]]) -> dict[str, Any]:
    return {
        name: _pick(values[name], value) if name in values and _is_valid(value, values[name][0]) else value
        for name, value in given.items()
    }


@schemathesis.hook
def map_query(context: Any, query: dict[str, Any] | None) -> dict[str, Any] | None:
    """Keys that have rows, and tokens of pages."""
    if not query:
        return query
    view = context.operation.path.rpartition("/")[2]
    return _replaced(query, {**_VALUES["parameters"], "after": _VALUES["tokens"].get(view, [""])})


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """A stream never ends: answers are polled for."""
    del context, kwargs
    if case.operation.path.endswith("}/subscribe") and "live" not in (case.query or {}):
        case.query = {**(case.query or {}), "live": "poll"}


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Views that there are."""
    del context
    return path_parameters and _replaced(path_parameters, _VALUES["path"])


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Views and keys that there are, at any depth of the body."""
    asked = _VALUES["query"] if context.operation.path == "/v1/query" else {}
    return _deep(body, {**_VALUES["path"], **_VALUES["parameters"], **asked})


def _deep(value: Any, values: dict[str, list[Any]]) -> Any:
    if isinstance(value, list):
        return [_deep(part, values) for part in value]
    if isinstance(value, dict):
        return _replaced({name: _deep(part, values) for name, part in value.items()}, values)
    return value
