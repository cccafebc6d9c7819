"""``json`` and ``jsonb``, and documents of MariaDB and MySQL, whose text is the server's.

Of these, only columns of MariaDB's ``json`` are ordered here: they are text of a collation, with a check.
"""

from dataclasses import replace
from json.encoder import encode_basestring

from dataflow.errors import EvaluationError
from dataflow.json_documents import is_json, normal_form, normalised
from dataflow.types import texts
from dataflow.types.rules import Declaration, Rules, TypeRules, ValueKind

#: Of kind ``other``: neither compared nor ordered.
MYSQL_JSON = "mysql_json"
#: Columns of MariaDB's ``json``.
MARIADB_JSON = "mariadb_json"
#: Results of MariaDB's functions that make documents: text to clients, neither compared nor ordered.
MARIADB_DOCUMENT = "mariadb_document"


def _parse(text: str) -> str:
    try:
        return normalised(text)
    except EvaluationError as error:
        raise ValueError("JSON is expected") from error


def _mariadb_json(declaration: Declaration) -> TypeRules:
    return replace(texts.text(declaration), json_form=_json, schema={})


def _json(text: str) -> str:
    """The document; as a string if it is JSON to the server only (``[1.]``), or was stored without the check."""
    return text if is_json(text) else encode_basestring(text)


TYPES: dict[str, Rules] = {
    "json": TypeRules(kind=ValueKind.DOCUMENT, json_form=None, schema={}, prints_itself=True, of_postgres=True),
    "jsonb": TypeRules(
        kind=ValueKind.DOCUMENT,
        comparable=True,
        normal_form=normal_form,
        one_text=False,
        parse=_parse,
        json_form=None,
        schema={},
        prints_itself=True,
        of_postgres=True,
    ),
    MARIADB_JSON: _mariadb_json,
    MARIADB_DOCUMENT: TypeRules(kind=ValueKind.DOCUMENT, prints_itself=True),
}
#: As the servers declare it.
MYSQL_DOCUMENT = TypeRules(json_form=None, schema={})
