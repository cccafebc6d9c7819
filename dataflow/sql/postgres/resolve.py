"""Which overload a call means: PostgreSQL's rules for functions and operators (parse_func.c, parse_oper.c), over the
overloads that `dataflow.evaluate.SIGNATURES` lists.

Calls that are not exactly the upstream's on their types, or only for some constants, are an UnsupportedQuery.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from dataflow.errors import EvaluationError, UnsupportedQuery
from dataflow.evaluate import SIGNATURES, type_key
from dataflow.functions.conversions import category, implicit, preferred
from dataflow.functions.date_fields import to_char_tokens
from dataflow.functions.folding import ASCII, folds_ascii_plainly
from dataflow.functions.like import like_matcher
from dataflow.functions.patterns import regular_expression
from dataflow.functions.signature import Signature
from dataflow.scalar import Call, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions.cast_types import UNKNOWN, type_of
from dataflow.sql.expressions.coercion import cast, text_type, typed

_UNKNOWN = "unknown"


def call(name: str, arguments: Sequence[Scalar], text: SqlType, written: str | None = None) -> Scalar:
    """The call of a plain function, its arguments cast to what it takes. `text`: the type of text of no column.

    `written`: what a refusal calls it.
    """
    shown = written or name.upper()
    found = resolve(name, [type_name(a.type) for a in arguments])
    if found is None or found.function is None:
        types = ", ".join(a.type.sql for a in arguments)
        raise UnsupportedQuery(f"{shown} of {types} is not on the list of exact functions.")
    taken = [coerced(a, t) for a, t in zip(arguments, found.arguments, strict=True)]
    result = text_type(taken, text)
    if result.collation == "nondeterministic" and name != "||":
        raise UnsupportedQuery(
            f"{shown} of text of a nondeterministic collation is not on the list of exact functions."
        )
    taken = [_collated(a, result) for a in taken]
    if found.folding and not result.folding:
        raise UnsupportedQuery(
            f"{shown} depends on the upper and lower case of the collation's locale, which is not known exactly."
        )
    check = _CHECKS.get(name)
    if check is not None:
        check(shown, found, taken)
    return Call(name, tuple(taken), result if found.result == "text" else type_of(found.result))


def type_name(sql_type: SqlType) -> str:
    """The type of an argument, as signatures name it."""
    return _UNKNOWN if sql_type == UNKNOWN else type_key(sql_type)


def coerced(expression: Scalar, taken: str) -> Scalar:
    """An argument as one of the type that a signature takes."""
    if taken == "text" and expression.type.is_text:
        return expression
    target = type_of(taken)
    expression = typed(expression, target)
    return expression if type_key(expression.type) == taken else cast(expression, target)


def _collated(expression: Scalar, text: SqlType) -> Scalar:
    """A constant text compares and folds as the columns beside it do."""
    if isinstance(expression, Literal) and expression.type.is_string:
        changed = replace(expression.type, collation=text.collation, folding=text.folding)
        return Literal(expression.value, changed)
    return expression


# --- the rules ------------------------------------------------------------------------------------------------------


def resolve(name: str, types: Sequence[str]) -> Signature | None:
    """The overload for arguments of these types (``unknown``: a constant of no type); None if there is no best one."""
    overloads = SIGNATURES.get(name, ())
    if not name.isidentifier() and len(types) == 2 and types.count(_UNKNOWN) == 1:
        known = types[0] if types[1] == _UNKNOWN else types[1]
        for overload in overloads:
            if overload.arguments == (known, known):
                return overload
    return chosen(overloads, types)


def chosen(overloads: Sequence[Signature], types: Sequence[str]) -> Signature | None:
    """The one of these overloads."""
    for overload in overloads:
        if overload.arguments == tuple(types):
            return overload
    candidates = [s for s in overloads if len(s.arguments) == len(types) and _takes(s, types)]
    for narrow in (_most_exact, _most_preferred, _by_category, _by_known_type):
        if len(candidates) > 1:
            candidates = narrow(candidates, types)
    return candidates[0] if len(candidates) == 1 else None


def _takes(overload: Signature, types: Sequence[str]) -> bool:
    return all(t == _UNKNOWN or implicit(t, a) for t, a in zip(types, overload.arguments, strict=True))


def _best(candidates: list[Signature], score: Callable[[Signature], int]) -> list[Signature]:
    best = max(score(c) for c in candidates)
    return [c for c in candidates if score(c) == best]


def _most_exact(candidates: list[Signature], types: Sequence[str]) -> list[Signature]:
    return _best(candidates, lambda c: sum(a == t for a, t in zip(c.arguments, types, strict=True)))


def _most_preferred(candidates: list[Signature], types: Sequence[str]) -> list[Signature]:
    def score(candidate: Signature) -> int:
        pairs = zip(candidate.arguments, types, strict=True)
        return sum(t != _UNKNOWN and (a == t or (preferred(a) and category(a) == category(t))) for a, t in pairs)

    return _best(candidates, score)


def _by_category(candidates: list[Signature], types: Sequence[str]) -> list[Signature]:
    """Constants of no type are text where that is possible, else of the one category that all candidates take."""
    for place, type_name in enumerate(types):
        if type_name != _UNKNOWN:
            continue
        categories = {category(c.arguments[place]) for c in candidates}
        if "S" in categories:
            chosen = "S"
        elif len(categories) == 1:
            (chosen,) = categories
        else:
            continue
        candidates = [c for c in candidates if category(c.arguments[place]) == chosen]
        candidates = [c for c in candidates if preferred(c.arguments[place])] or candidates
    return candidates


def _by_known_type(candidates: list[Signature], types: Sequence[str]) -> list[Signature]:
    known = {t for t in types if t != _UNKNOWN}
    if len(known) != 1 or _UNKNOWN not in types:
        return candidates
    (only,) = known
    assumed = [only] * len(types)
    return [c for c in candidates if _takes(c, assumed)] or candidates


# --- constants that a function is exact for ------------------------------------------------------------------------

#: A value of each type on which a field's name is tried.
_SAMPLES = {
    "timestamp": "2000-01-01 00:00:00",
    "timestamptz": "2000-01-01 00:00:00+00",
    "date": "2000-01-01",
    "time": "00:00:00",
    "interval": "1 day",
}

Check = Callable[[str, Signature, Sequence[Scalar]], None]


def _constant(shown: str, expression: Scalar, what: str) -> str | None:
    if not isinstance(expression, Literal):
        raise UnsupportedQuery(f"{shown} with {what} that is no constant is not on the list of exact functions.")
    return expression.value


def _check_field(shown: str, found: Signature, arguments: Sequence[Scalar]) -> None:
    field = _constant(shown, arguments[0], "a field")
    assert found.function is not None
    if field is None:
        return
    try:
        found.function(field, _SAMPLES[found.arguments[1]])
    except EvaluationError as error:
        raise UnsupportedQuery(f"{shown}: {error}.") from error


def _check_to_char(shown: str, _: Signature, arguments: Sequence[Scalar]) -> None:
    pattern = _constant(shown, arguments[1], "a pattern")
    try:
        to_char_tokens(pattern or "")
    except ValueError as error:
        raise UnsupportedQuery(f"{shown}: {error}.") from error


def _check_like(_: str, __: Signature, arguments: Sequence[Scalar]) -> None:
    pattern = arguments[1]
    if isinstance(pattern, Literal) and pattern.value is not None:
        try:
            like_matcher(pattern.value)
        except (ValueError, EvaluationError) as error:
            raise UnsupportedQuery(f"{error}.") from error


def _check_regular_expression(shown: str, found: Signature, arguments: Sequence[Scalar]) -> None:
    pattern = _constant(shown, arguments[1], "a pattern")
    if found.folding and not folds_ascii_plainly(arguments[0].type.folding):
        raise UnsupportedQuery(f"{shown}: upper and lower case of ASCII letters are a language's own here.")
    if not arguments[0].type.folding:
        raise UnsupportedQuery(f"{shown}: the classes of characters of the collation's locale are not known exactly.")
    if pattern is None:
        return
    try:
        regular_expression(pattern, found.folding)
    except ValueError as error:
        raise UnsupportedQuery(f"{shown}: of the regular expression {pattern!r}, {error}.") from error


def _check_replacement(shown: str, found: Signature, arguments: Sequence[Scalar]) -> None:
    constants = [_constant(shown, a, "a pattern, replacement or flags") for a in arguments[1:]]
    if not arguments[0].type.folding:
        raise UnsupportedQuery(f"{shown}: the classes of characters of the collation's locale are not known exactly.")
    if None in constants or found.function is None:
        return
    try:
        found.function("", *constants)
    except ValueError as error:
        raise UnsupportedQuery(f"{shown} with {constants[0]!r}: {error}.") from error


def _check_found(shown: str, found: Signature, arguments: Sequence[Scalar]) -> None:
    """SUBSTRING by a regular expression."""
    if found.arguments == ("text", "text"):
        _check_replacement(shown, found, arguments)


def _check_zone(shown: str, found: Signature, arguments: Sequence[Scalar]) -> None:
    """DATE_TRUNC, perhaps in a time zone."""
    _check_field(shown, replace(found, function=_first_two(found)), arguments)
    if len(arguments) == 3 and str(_constant(shown, arguments[2], "a time zone")).upper() != "UTC":
        raise UnsupportedQuery(f"{shown}: no other time zone than UTC is computed here.")


def _first_two(found: Signature) -> Callable[..., str | None]:
    assert found.function is not None
    function = found.function
    rest = ("UTC",) * (len(found.arguments) - 2)
    return lambda a, b: function(a, b, *rest)


def _check_encoding(shown: str, found: Signature, arguments: Sequence[Scalar]) -> None:
    form = _constant(shown, arguments[1], "an encoding")
    assert found.function is not None
    try:
        found.function("\\x", form or "hex")
    except EvaluationError as error:
        raise UnsupportedQuery(f"{shown}: {error}.") from error


def _check_initcap(shown: str, _: Signature, arguments: Sequence[Scalar]) -> None:
    if arguments[0].type.folding != ASCII:
        raise UnsupportedQuery(f"{shown}: which characters are letters, only the collation's locale knows.")


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("extract", "date_part", "timezone"), _check_field),
    "date_trunc": _check_zone,
    "substring": _check_found,
    "encode": _check_encoding,
    "to_char": _check_to_char,
    **dict.fromkeys(("like", "ilike"), _check_like),
    **dict.fromkeys(("matches", "imatches"), _check_regular_expression),
    "regexp_replace": _check_replacement,
    "initcap": _check_initcap,
}
