"""Bodies of requests on the admin port."""

from collections.abc import Iterator
from typing import Any

from service.protocol.admin_models import Body


def bodies(kind: type[Body] = Body) -> Iterator[type[Body]]:
    for below in kind.__subclasses__():
        yield below
        yield from bodies(below)


def numbers(schema: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every integer and number in a JSON schema, with its path."""
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number"):
            yield path, schema
        for name, part in schema.items():
            yield from numbers(part, f"{path}.{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from numbers(part, path)


def test_every_number_of_a_request_has_a_maximum() -> None:
    """Processes exchange integers of 64 bits."""
    found = [each for body in bodies() for each in numbers(body.model_json_schema(), body.__name__)]
    assert found
    assert [path for path, schema in found if "maximum" not in schema and "exclusiveMaximum" not in schema] == []
