"""The OpenAPI document: FastAPI's for the fixed routes, and one path for each registered view."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api_schemas.problem import Problem
from dataflow.schema import SqlType
from service.leaf_store.catalog import NamedType, ParameterInfo, ParameterRole, ViewInfo
from service.leaf_store.serving_options import OnLag
from service.web.problem_responses import READ_CODES, problem_responses
from service.worker.reads.view_reads import VIEWS_PATH
from service.worker.subscriptions.document import add_subscriptions

_DESCRIPTION = "SQL views answered from memory, maintained incrementally from the database's change stream."


def document(app: FastAPI, views: Sequence[ViewInfo], *, guarded: bool = False, sql: bool = True) -> dict[str, Any]:
    """Return OpenAPI 3.1 for the fixed routes and these views. `guarded`: all need a bearer token; `sql`: with the
    views' SQL."""
    result = get_openapi(
        title=app.title, version=app.version, openapi_version="3.1.0", description=_DESCRIPTION, routes=app.routes
    )
    schemas = result["components"]["schemas"]
    # Errors are problems everywhere; FastAPI would document its own form for invalid bodies.
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schemas["Problem"] = Problem.model_json_schema()
    add_subscriptions(result)
    for view in sorted(views, key=lambda view: view.name):
        result["paths"][VIEWS_PATH + view.name] = {"get": _operation(view, sql=sql)}
        schemas[_row_name(view)] = _row_schema(view)
        schemas[_answer_name(view)] = _answer_schema(view)
    if guarded:
        result["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        result["security"] = [{"bearer": []}]
    return result


def _row_name(view: ViewInfo) -> str:
    """Return the name of a row's type in generated clients. The dot separates it from other views and fixed schemas."""
    return f"{view.name}.row"


def _answer_name(view: ViewInfo) -> str:
    return f"{view.name}.answer"


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def value_schema(sql_type: SqlType, bigint_text: bool = False) -> dict[str, Any]:
    """The JSON form of a type's values (never NULL). `bigint_text`: 64-bit integers are strings."""
    described = {} if sql_type.kind == "enum" else {"description": f"SQL's {sql_type.sql}"}
    return {**sql_type.json_schema(bigint_text), **described}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema:
        return {**schema, "type": [schema["type"], "null"], "enum": [*schema["enum"], None]}
    if "oneOf" in schema:
        return {**schema, "oneOf": [*schema["oneOf"], {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else schema


def _operation(view: ViewInfo, *, sql: bool) -> dict[str, Any]:
    given = [parameter for parameter in view.given if not parameter.is_claim]
    own = {parameter.name: parameter for parameter in reversed(given)}
    parameters = [_parameter(view, own[name]) for name in dict.fromkeys(p.name for p in given)]
    if view.ordered:
        parameters += [page for page in _PAGE_PARAMETERS if page["name"] not in own]
    return {
        "tags": ["views"],
        "summary": view.name,
        "description": f"```sql\n{view.sql}\n```" if sql else "",
        "operationId": view.name,
        "parameters": [*parameters, *_HEADER_PARAMETERS],
        "responses": {
            "200": {
                "description": "The rows, exact at `version`.",
                "headers": HEADERS,
                "content": {"application/json": {"schema": _reference(_answer_name(view))}},
            },
            "304": {"description": "The answer is unchanged: its ETag is that of If-None-Match."},
            **problem_responses(READ_CODES),
        },
    }


def _parameter(view: ViewInfo, parameter: ParameterInfo) -> dict[str, Any]:
    document = {"name": parameter.name, "in": "query", "required": True, "schema": value_schema(parameter.type)}
    uses = [_USES[p.role] for p in view.given if p.name == parameter.name and p.role in _USES]
    if parameter.role is ParameterRole.LIST:
        document["schema"] = {"type": "array", "items": document["schema"], "minItems": 1}
        document |= {"style": "form", "explode": True}
    elif parameter.role in (ParameterRole.LIMIT, ParameterRole.OFFSET):
        document["schema"] = {"type": "integer", "format": "int64", "minimum": 0}
    if uses:
        document["description"] = " ".join(uses)
    return document


def _row_schema(view: ViewInfo) -> dict[str, Any]:
    bigint_text = view.serving.bigint_text
    return {
        "type": "object",
        "properties": {column.name: _column_schema(column, bigint_text) for column in view.columns},
        "required": [column.name for column in view.columns],
        "additionalProperties": False,
    }


def _column_schema(column: NamedType, bigint_text: bool) -> dict[str, Any]:
    schema = value_schema(column.type, bigint_text)
    return _nullable(schema) if column.nullable else schema


def _answer_schema(view: ViewInfo) -> dict[str, Any]:
    version = {"type": "string", "examples": ["pg:0/16B3748"]}
    if view.serving.on_lag is OnLag.FORWARD:
        version = _nullable(version) | {"description": "null: the database's own answer, exact at no known version."}
    return {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": _reference(_row_name(view))},
            "version": version,
            "next": {"type": ["string", "null"], "description": "The token of the next page."},
        },
        "required": ["rows", "version", "next"],
    }


#: Effects of parameters other than equality.
_USES = {
    ParameterRole.LIST: "A list: give it once for each value.",
    ParameterRole.LESS: "Rows below it.",
    ParameterRole.AT_MOST: "Rows up to it.",
    ParameterRole.GREATER: "Rows above it.",
    ParameterRole.AT_LEAST: "Rows from it on.",
    ParameterRole.LIMIT: "Maximum number of rows.",
    ParameterRole.OFFSET: "Without so many of the first rows.",
}
_PAGE_PARAMETERS: list[dict[str, Any]] = [
    {
        "name": "limit",
        "in": "query",
        "description": "Maximum number of rows, within the view's own LIMIT.",
        "schema": {"type": "integer", "minimum": 1, "maximum": (1 << 31) - 1},
    },
    {
        "name": "after",
        "in": "query",
        "description": "The `next` of an earlier page, with the same parameters.",
        "schema": {"type": "string"},
    },
]
_HEADER_PARAMETERS: list[dict[str, Any]] = [
    {"name": "If-None-Match", "in": "header", "schema": {"type": "string"}},
    {
        "name": "Upquery-Min-Version",
        "in": "header",
        "description": "Minimum version of the answer: a version, or a position of the database.",
        "schema": {"type": "string"},
    },
    {
        "name": "Prefer",
        "in": "header",
        "description": "`wait=2`: maximum seconds to wait for a version or for a key that is not cached.",
        "schema": {"type": "string"},
    },
]
HEADERS: dict[str, Any] = {
    "ETag": {"description": "Weak; over `rows` and `next`.", "schema": {"type": "string"}},
    "Cache-Control": {
        "description": "The view's `cache_control`, or `no-cache`.",
        "schema": {"type": "string"},
    },
    "Cache-Status": {"description": "Source of the answer (RFC 9211).", "schema": {"type": "string"}},
    "Age": {"description": "Upper bound of the lag behind the database, in seconds.", "schema": {"type": "integer"}},
    "Upquery-Version": {"description": "`version`, unless it is null.", "schema": {"type": "string"}},
    "Upquery-Age-Ms": {
        "description": "Upper bound of the lag behind the database, in milliseconds.",
        "schema": {"type": "integer"},
    },
    "Server-Timing": {
        "description": "Duration of the read: `leaf` from memory, `miss` with the engine.",
        "schema": {"type": "string"},
    },
    "Link": {"description": 'The next page, `rel="next"`.', "schema": {"type": "string"}},
}
