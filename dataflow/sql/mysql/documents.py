"""JSON functions of MariaDB: of columns of ``json`` and of texts, by paths that are constants.

A document that a function makes is of a type of its own (`MARIADB_DOCUMENT`): shown, stored and taken apart, but not
compared, for which the server has rules of its own.

Not here: what they compute (`dataflow.functions.mysql_json`), JSON_ARRAYAGG and JSON_OBJECTAGG (`aggregates`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dataflow.errors import EvaluationError, UnsupportedQuery
from dataflow.functions.mysql_json import document, steps_of
from dataflow.functions.mysql_json import element as json_element
from dataflow.plan.expressions import BOOL, INT4
from dataflow.scalar import Call, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import UNKNOWN
from dataflow.sql.expressions.written_calls import has_others
from dataflow.sql.mysql import texts, values
from dataflow.types.documents import MARIADB_DOCUMENT

_UNKNOWN = "nondeterministic"
#: A document of values of any collations.
BUILT = SqlType(MARIADB_DOCUMENT, "json", collation=_UNKNOWN)
#: Texts that functions make of any texts are of this collation, which prevails beside constants.
_BINARY = "utf8mb4_bin"


def check_server(what: str, binder: Binder) -> None:
    """UnsupportedQuery on MySQL, whose documents are no texts."""
    if binder.catalog.dialect != "mariadb":
        raise UnsupportedQuery(f"{what} of MySQL is not on the list of exact functions.")


# --- parts of a document ----------------------------------------------------------------------------------------------


def _document(what: str, part: Scalar) -> Scalar:
    """An argument that is read as a document. UnsupportedQuery if its text cannot have any character."""
    if isinstance(part, Literal) or values.is_coercible(part.type):
        raise UnsupportedQuery(f"{what} of a constant or parameter is not on the list of exact functions.")
    if isinstance(part, Call) and part.function in ("JSON_ARRAY", "JSON_OBJECT"):
        raise UnsupportedQuery(f"{what} of {part.function} is not on the list of exact functions.")
    found = part if part.type.name == MARIADB_DOCUMENT else texts.subject(what, part)
    if found.type.weights is not None and found.type.weights.charset != "utf8mb4":
        raise UnsupportedQuery(f"{what} of {found.type.collation} is not on the list of exact functions.")
    return found


def _path(what: str, part: Scalar) -> Scalar:
    if not isinstance(part, Literal) or part.type != UNKNOWN or part.value is None or steps_of(part.value) is None:
        raise UnsupportedQuery(
            f"{what} with a path that is no constant of names and places, like '$.a.b[0]', is not on the list of exact"
            " functions."
        )
    return functions.typed(part, values.STRING)


def _at_path(name: str, result: Callable[[SqlType], SqlType]) -> texts.Compute:
    """A function of a document and perhaps a path; its result's type by the document's."""

    def compute(parts: Sequence[Scalar], _: SqlType) -> Scalar:
        subject = _document(name, parts[0])
        return Call(name, (subject, *(_path(name, part) for part in parts[1:])), result(subject.type))

    return compute


def _extracted(subject: SqlType) -> SqlType:
    return replace(subject, name=MARIADB_DOCUMENT, sql="json")


def _type(parts: Sequence[Scalar], text: SqlType) -> Scalar:
    """JSON_TYPE: a text of no collation of its own."""
    return Call("JSON_TYPE", (_document("JSON_TYPE", parts[0]),), values.coercible(text))


def _unquote(parts: Sequence[Scalar], text: SqlType) -> Scalar:
    subject = _document("JSON_UNQUOTE", parts[0])
    binary = text.collation == "bytes" or text.collation.endswith("_bin")
    if subject.type.collation != _BINARY or (binary and text.collation != _BINARY):
        raise UnsupportedQuery(f"JSON_UNQUOTE of {subject.type.collation} is not on the list of exact functions.")
    return Call("JSON_UNQUOTE", (subject,), texts.text_of(subject.type))


def _contains(parts: Sequence[Scalar], text: SqlType) -> Scalar:
    subject, wanted = _document("JSON_CONTAINS", parts[0]), parts[1]
    if isinstance(wanted, Literal) and wanted.value is None:
        raise UnsupportedQuery("JSON_CONTAINS of NULL is not on the list of exact functions.")
    if wanted.type.is_boolean:
        raise UnsupportedQuery("JSON_CONTAINS of a condition is not on the list of exact functions.")
    if wanted.type.name == MARIADB_DOCUMENT:
        wanted = _document("JSON_CONTAINS", wanted)
    elif wanted.type.collation != _UNKNOWN:
        wanted = texts.printed_text("JSON_CONTAINS", wanted, text)
    if isinstance(wanted, Literal):
        try:
            document(wanted.value or "")
        except EvaluationError as error:
            raise UnsupportedQuery(f"JSON_CONTAINS of the text {wanted.value!r}, which is not JSON.") from error
    paths = [_path("JSON_CONTAINS", part) for part in parts[2:]]
    return Call("JSON_CONTAINS", (subject, wanted, *paths), BOOL)


def value(binder: Binder, node: Any) -> Scalar:
    """``JSON_VALUE(document, path)``, which has a syntax of its own."""
    check_server("JSON_VALUE", binder)
    if has_others(node, "this", "path"):
        raise UnsupportedQuery("JSON_VALUE with RETURNING or ON is not on the list of exact functions.")
    return _at_path("JSON_VALUE", texts.text_of)(binder.all([node.this, node.args["path"]]), binder.text)


# --- documents of values ----------------------------------------------------------------------------------------------


def elements(what: str, parts: Sequence[Scalar]) -> list[Scalar]:
    """Values that become those of one document. The server fails to mix two binary collations of a character set."""
    found = [_element(what, part) for part in parts]
    if len(set[str]().union(*map(_binary_collations, found))) > 1:
        raise UnsupportedQuery(f"{what} of texts of two binary collations is not on the list of exact functions.")
    return found


def _binary_collations(part: Scalar) -> set[str]:
    """The binary collations of the texts that a document is made of."""
    if isinstance(part, Call) and part.type == BUILT:
        return set[str]().union(*map(_binary_collations, part.arguments))
    # Those without padding are compared as bytes.
    is_binary = part.type.is_string and part.type.collation.endswith(("_bin", "bytes"))
    return {part.type.collation} if is_binary else set()


def _element(what: str, part: Scalar) -> Scalar:
    """A value that becomes one of a document. Conditions are numbers or booleans there by the server's plan."""
    part = values.refuse_printed(part, what)
    sql_type = part.type
    if sql_type == UNKNOWN:
        return functions.typed(part, values.STRING)
    try:
        json_element(sql_type)
        known = values.prints_as_number(sql_type) and (isinstance(part, Literal) or not sql_type.is_boolean)
    except ValueError:
        known = False
    if not known:
        raise UnsupportedQuery(f"{what} of {sql_type.sql} is not on the list of exact functions.")
    if sql_type.is_string and not values.is_coercible(sql_type):
        texts.subject(what, part)
    return part


def _array(parts: Sequence[Scalar], _: SqlType) -> Scalar:
    return Call("JSON_ARRAY", tuple(elements("JSON_ARRAY", parts)), BUILT)


def _object(parts: Sequence[Scalar], _: SqlType) -> Scalar:
    arguments: list[Scalar] = []
    if len(parts) % 2:
        raise UnsupportedQuery("JSON_OBJECT takes names and values in turn.")
    for name, part in zip(parts[::2], elements("JSON_OBJECT", parts[1::2]), strict=True):
        if not isinstance(name, Literal) or name.type != UNKNOWN or name.value is None:
            raise UnsupportedQuery("JSON_OBJECT with names that are no constant texts is not on the list.")
        arguments += [functions.typed(name, values.STRING), part]
    return Call("JSON_OBJECT", tuple(arguments), BUILT)


def _quote(parts: Sequence[Scalar], _: SqlType) -> Scalar:
    """JSON_QUOTE of a text: of no known collation, so that only documents are made of it."""
    (part,) = parts
    if not values.is_coercible(part.type):
        texts.subject("JSON_QUOTE", part)
    return Call("JSON_QUOTE", (functions.typed(part, values.STRING),), replace(values.STRING, collation=_UNKNOWN))


def _same(result: SqlType) -> Callable[[SqlType], SqlType]:
    return lambda _subject: result


#: Least and most arguments, and the meaning.
DOCUMENTS: dict[str, tuple[int, int, texts.Compute]] = {
    "json_extract": (2, 2, _at_path("JSON_EXTRACT", _extracted)),
    "json_exists": (2, 2, _at_path("JSON_EXISTS", _same(BOOL))),
    "json_length": (1, 2, _at_path("JSON_LENGTH", _same(INT4))),
    "json_valid": (1, 1, _at_path("JSON_VALID", _same(BOOL))),
    "json_type": (1, 1, _type),
    "json_unquote": (1, 1, _unquote),
    "json_quote": (1, 1, _quote),
    "json_contains": (2, 3, _contains),
    "json_array": (0, 100, _array),
    "json_object": (0, 100, _object),
}

__all__ = ["BUILT", "DOCUMENTS", "check_server", "elements", "value"]
