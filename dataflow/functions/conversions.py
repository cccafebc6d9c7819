"""Implicit conversions: PostgreSQL's implicit casts, type categories and preferred types, by the names that overloads
have. The answers are the types' own (`dataflow.types`)."""

from dataflow.types.registry import named


def implicit(source: str, target: str) -> bool:
    """Return whether a value of base type `source` is taken where `target` is expected (``pg_cast.castcontext =
    'i'``)."""
    return source == target or target in named(source).implicit


def category(type_name: str) -> str:
    """The type's category; a type without relatives is one of its own."""
    return named(type_name).category or type_name


def preferred(type_name: str) -> bool:
    """Return whether the type is the preferred one of its category."""
    return named(type_name).preferred


def common_type(names: list[str]) -> str | None:
    """The type that CASE, COALESCE and their like give values of these base types; None if they have none in common.

    After parse_coerce.c: select_common_type.
    """
    chosen = names[0]
    for name in names[1:]:
        if name == chosen:
            continue
        if category(name) != category(chosen):
            return None
        if not preferred(chosen) and implicit(chosen, name) and not implicit(name, chosen):
            chosen = name
    return chosen if all(implicit(name, chosen) for name in names) else None
