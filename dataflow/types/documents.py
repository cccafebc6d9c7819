"""``json`` and ``jsonb``, and ``json`` of MySQL, whose text is the server's. None of them is ordered here."""

from dataflow.errors import EvaluationError
from dataflow.json_documents import normal_form, normalised
from dataflow.types.rules import Rules, TypeRules, ValueKind

#: Of kind ``other``: neither compared nor ordered.
MYSQL_JSON = "mysql_json"


def _parse(text: str) -> str:
    try:
        return normalised(text)
    except EvaluationError as error:
        raise ValueError("JSON is expected") from error


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
}
#: As the servers declare it.
MYSQL_DOCUMENT = TypeRules(json_form=None, schema={})
