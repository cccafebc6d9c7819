"""Calls of plain functions and operators, and the syntax that some have of their own (EXTRACT, TRIM, ``->``).

Each becomes a call by PostgreSQL's name of the function; `resolve` says which overload it is.
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.evaluate import SIGNATURES
from dataflow.scalar import Literal, Scalar
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import UNKNOWN, type_of
from dataflow.sql.expressions.coercion import folded
from dataflow.sql.expressions.written_calls import has_others
from dataflow.sql.postgres import resolve
from dataflow.sql.postgres.grammar import SIGN

_INFIX: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.Pow: "^",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "#",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.JSONBExtract: "#>",
    exp.JSONBExtractScalar: "#>>",
}
#: Operators that PostgreSQL reads from left to right with ``||`` and all others, where the parser does not.
_LOOSE: dict[type[exp.Expr], str] = {
    exp.RegexpLike: "matches",
    exp.RegexpILike: "imatches",
    exp.JSONBContainsTopKey: "?",
    exp.JSONBContainsAnyTopKeys: "?|",
    exp.JSONBContainsAllTopKeys: "?&",
    exp.ArrayContainsAll: "@>",
    exp.ArrayContainedBy: "<@",
    exp.ArrayOverlaps: "&&",
}
#: Our names of operators, which are no functions upstream.
_INTERNAL = frozenset({"matches", "imatches", "like", "ilike", "neg"})
_OF_ARRAYS = frozenset({"@>", "<@", "&&"})
_SHOWN = {"matches": "~", "imatches": "~*"}
_OTHER_OPERATORS: tuple[type[exp.Expr], ...] = (exp.DPipe, *list(_INFIX)[6:], *_LOOSE)
_TRIMS = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _call(binder: Binder, name: str, arguments: list[Scalar], written: str | None = None) -> Scalar:
    return folded(resolve.call(name, arguments, binder.text, written))


def _function(binder: Binder, node: Any) -> Scalar:
    """A function by its name."""
    name = str(node.this.this if isinstance(node.this, exp.Identifier) else node.this)
    name = name if isinstance(node.this, exp.Identifier) else name.lower()
    arguments = binder.all(node.expressions)
    if name in _OTHERS:
        return _OTHERS[name](binder, name, arguments)
    if name not in SIGNATURES or not name.isidentifier() or name in _INTERNAL:
        raise UnsupportedQuery(f"{name.upper()} is not on the list of exact functions.")
    return _call(binder, name, arguments)


def _array_cat(_: Binder, __: str, arguments: list[Scalar]) -> Scalar:
    if len(arguments) != 2:
        raise UnsupportedQuery("ARRAY_CAT takes two arrays.")
    return functions.array_pair("||", *arguments)


def _infix(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "expression", "typed", "safe")
    name = _INFIX[type(node)]
    if isinstance(node, exp.Pow) and binder.written_name(node) in ("pow", "power"):
        name = "power"
    return _call(binder, name, [binder.bind(node.this), binder.bind(node.expression)], name)


def _check_loose(node: Any) -> None:
    if isinstance(node.expression, _OTHER_OPERATORS) or isinstance(node.this, tuple(_LOOSE)):
        raise UnsupportedQuery("Operators that are read from left to right need parentheses here.")


def _loose(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "expression")
    name = _LOOSE[type(node)]
    _check_loose(node)
    left, right = binder.bind(node.this), binder.bind(node.expression)
    if name in _OF_ARRAYS and "array" in (left.type.kind, right.type.kind):
        return functions.array_pair(name, left, right)
    if name == "&&":
        raise UnsupportedQuery(f"&& of {left.type.sql} is not on the list of exact functions.")
    return _call(binder, name, [left, right], _SHOWN.get(name, name))


def _extract_path(binder: Binder, name: str, arguments: list[Scalar]) -> Scalar:
    """JSON_EXTRACT_PATH and the like: ``#>`` with the keys as an array."""
    document, *keys = arguments
    if document.type.name != name.partition("_")[0] or not keys or not all(k.type == UNKNOWN for k in keys):
        raise UnsupportedQuery(f"{name.upper()} with keys that are no constants is not on the list of exact functions.")
    path = folded(functions.array(keys))
    return _call(binder, "#>>" if name.endswith("_text") else "#>", [document, path])


def _concatenation(binder: Binder, node: Any) -> Scalar:
    left, right = binder.bind(node.this), binder.bind(node.expression)
    names = {left.type.name, right.type.name}
    if "jsonb" in names and names <= {"jsonb", "unknown"}:
        return _call(binder, "||", [left, right], "||")
    if "array" in (left.type.kind, right.type.kind):
        return functions.appended(left, right)
    if not names & {"text", "varchar", "name", "bpchar", "unknown"}:
        raise UnsupportedQuery(f"{left.type.sql} || {right.type.sql} is not on the list of exact functions.")
    if "unknown" in names and "bytea" in names:
        raise UnsupportedQuery(f"{left.type.sql} || {right.type.sql} is not on the list of exact functions.")
    return _call(binder, "||", [functions.as_text(left, binder.text), functions.as_text(right, binder.text)], "||")


def _negation(binder: Binder, node: Any) -> Scalar:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        # The sign belongs to the constant: -2147483648 is an integer.
        return functions.constant_of(f"-{node.this.this}")
    operand = binder.bind(node.this)
    return _call(binder, "neg", [operand], "-")


def _like(binder: Binder, node: Any, escape: exp.Expr | None = None) -> Scalar:
    _check_only(node, "this", "expression", "negate")
    if node.meta.get(SIGN):
        _check_loose(node)
    if isinstance(node.expression, exp.Any | exp.All | exp.Tuple | exp.Query):
        raise UnsupportedQuery(f"{node.sql('postgres')} is not on the list of exact expressions.")
    pattern = binder.bind(node.expression)
    if escape is not None:
        pattern = _call(binder, "like_escape", [pattern, binder.bind(escape)], "ESCAPE")
    subject = binder.bind(node.this)
    name = "ilike" if isinstance(node, exp.ILike) else "like"
    found = _call(binder, name, [subject, pattern])
    return functions.logical("not", [found]) if node.args.get("negate") else found


def _escape(binder: Binder, node: Any) -> Scalar:
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise UnsupportedQuery(f"{node.sql('postgres')} is not on the list of exact expressions.")
    return _like(binder, node.this, node.expression)


def _extract(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "expression")
    field = Literal(str(node.this.name).lower(), UNKNOWN)
    return _call(binder, "extract", [field, binder.bind(node.expression)])


def _substring(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "start", "length")
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    return _call(binder, "substring", [binder.bind(p) for p in parts if p is not None])


def _trim(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "position", "expression")
    name = _TRIMS[str(node.args.get("position") or "BOTH").upper()]
    characters = node.args.get("expression")
    arguments = [binder.bind(node.this)] + ([] if characters is None else [binder.bind(characters)])
    return _call(binder, name, arguments, "TRIM")


def _position(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "substr")
    if binder.written_name(node) not in ("position", "strpos", node.key):
        raise UnsupportedQuery(f"{binder.written_name(node).upper()} is not on the list of exact functions.")
    return _call(binder, "position", [binder.bind(node.this), binder.bind(node.args["substr"])])


def _overlay(binder: Binder, node: Any) -> Scalar:
    _check_only(node, "this", "expression", "from_", "for_")
    parts = [node.this, node.expression, node.args.get("from_"), node.args.get("for_")]
    return _call(binder, "overlay", [binder.bind(p) for p in parts if p is not None])


def _at_time_zone(binder: Binder, node: Any) -> Scalar:
    subject = binder.bind(node.this)
    if subject.type.name == "date":
        subject = functions.cast(subject, type_of("timestamptz"))
    return _call(binder, "timezone", [binder.bind(node.args["zone"]), subject], "AT TIME ZONE")


def _interval(_: Binder, node: Any) -> Scalar:
    """``INTERVAL '1' DAY``."""
    unit = node.args.get("unit")
    number = node.this
    if not isinstance(unit, exp.Var) or not isinstance(number, exp.Literal) or not str(number.this).isdecimal():
        raise UnsupportedQuery(f"{node.sql('postgres')} is not on the list of exact expressions.")
    return functions.typed(Literal(f"{number.this} {str(unit.this).lower()}", UNKNOWN), type_of("interval"))


def _make_interval(binder: Binder, node: Any) -> Scalar:
    """MAKE_INTERVAL, also with named arguments."""
    fields = ("year", "month", "week", "day", "hour", "minute", "second")
    _check_only(node, *fields)
    given = [node.args.get(field) for field in fields]
    zero = Literal("0", UNKNOWN)
    arguments = [zero if g is None else binder.bind(g.expression if isinstance(g, exp.Kwarg) else g) for g in given]
    return _call(binder, "make_interval", arguments)


def _collate(binder: Binder, node: Any) -> Scalar:
    return functions.collate(binder.bind(node.this), str(node.expression.name))


def _array(binder: Binder, node: Any) -> Scalar:
    if any(isinstance(e, exp.Query | exp.Subquery | exp.Array) for e in node.expressions):
        raise UnsupportedQuery("This array is not on the list of exact expressions.")
    return functions.array(binder.all(node.expressions))


def _bracket(binder: Binder, node: Any) -> Scalar:
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        raise UnsupportedQuery(f"{node.sql('postgres')} is not on the list of exact expressions.")
    return functions.subscript(binder.bind(node.this), binder.bind(node.expressions[0]))


def _check_only(node: exp.Expr, *arguments: str) -> None:
    if has_others(node, *arguments):
        raise UnsupportedQuery(f"{node.sql('postgres')} is not on the list of exact expressions.")


#: Functions that are no plain ones.
_OTHERS: dict[str, Callable[[Binder, str, list[Scalar]], Scalar]] = {
    **dict.fromkeys(
        ("concat", "concat_ws"), lambda binder, name, arguments: functions.concatenated(name, arguments, binder.text)
    ),
    **dict.fromkeys(("greatest", "least"), lambda _, name, arguments: functions.extreme(name, arguments)),
    **dict.fromkeys(("num_nulls", "num_nonnulls"), lambda _, name, arguments: functions.count_nulls(name, arguments)),
    **dict.fromkeys(
        ("array_append", "array_position", "array_remove"),
        lambda _, name, arguments: functions.array_operation(name, 0, arguments),
    ),
    "array_prepend": lambda _, name, arguments: functions.array_operation(name, 1, arguments),
    "array_cat": _array_cat,
    **dict.fromkeys(
        ("json_extract_path", "json_extract_path_text", "jsonb_extract_path", "jsonb_extract_path_text"), _extract_path
    ),
    **dict.fromkeys(
        ("array_length", "array_upper", "array_lower", "cardinality"),
        lambda _, name, arguments: functions.array_function(name, arguments),
    ),
    "array_to_string": lambda binder, _, arguments: functions.joined(arguments, binder.text),
    **dict.fromkeys(
        (
            "to_json",
            "to_jsonb",
            "json_build_object",
            "jsonb_build_object",
            "json_build_array",
            "jsonb_build_array",
        ),
        lambda _, name, arguments: functions.built_json(name, arguments),
    ),
}

BINDERS: dict[type[exp.Expr], Callable[[Binder, Any], Scalar]] = {
    **dict.fromkeys(_INFIX, _infix),
    **dict.fromkeys(_LOOSE, _loose),
    exp.Anonymous: _function,
    exp.DPipe: _concatenation,
    exp.Neg: _negation,
    exp.BitwiseNot: lambda binder, node: _call(binder, "~", [binder.bind(node.this)], "~"),
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.Extract: _extract,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.StrPosition: _position,
    exp.Overlay: _overlay,
    exp.AtTimeZone: _at_time_zone,
    exp.Interval: _interval,
    exp.MakeInterval: _make_interval,
    exp.Collate: _collate,
    exp.Array: _array,
    exp.Bracket: _bracket,
}
