"""The JSON Schema of a type against the JSON of its values."""

import pytest

from dataflow.schema import SqlType
from dataflow.types.documents import MYSQL_JSON
from dataflow.types.registry import TYPES

ALL = [SqlType(name, name) for name in sorted(TYPES)] + [SqlType(MYSQL_JSON, "json", "other")]


@pytest.mark.parametrize("type_", ALL, ids=lambda type_: type_.name)
def test_what_is_written_as_it_is_is_no_string(type_: SqlType) -> None:
    """A text that is JSON already is a number, a truth value or a document: none of these has quotes around it."""
    if type_.json_form() is None:
        assert type_.json_schema().get("type") != "string"
