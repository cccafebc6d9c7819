"""Which type becomes which without being asked: PostgreSQL's implicit casts, type categories and preferred types."""

_WIDER = ("int2", "int4", "int8", "numeric", "float4", "float8")
_TEXTS = ("text", "varchar", "bpchar", "name")

#: Implicit casts (``pg_cast.castcontext = 'i'``) between the types that we know.
IMPLICIT: dict[str, frozenset[str]] = {
    **{name: frozenset(_WIDER[i + 1 :]) for i, name in enumerate(_WIDER)},
    "text": frozenset({"varchar", "bpchar", "name"}),
    "varchar": frozenset({"text", "bpchar", "name"}),
    "bpchar": frozenset({"text", "varchar", "name"}),
    "name": frozenset({"text"}),
    "date": frozenset({"timestamp", "timestamptz"}),
    "timestamp": frozenset({"timestamptz"}),
    "time": frozenset({"timetz", "interval"}),
}

_CATEGORIES: dict[str, str] = {
    **dict.fromkeys((*_WIDER, "oid"), "N"),
    **dict.fromkeys(_TEXTS, "S"),
    **dict.fromkeys(("date", "time", "timetz", "timestamp", "timestamptz"), "D"),
    "interval": "T",
    "bool": "B",
}
PREFERRED = frozenset({"float8", "text", "timestamptz", "interval", "bool", "oid"})


def implicit(source: str, target: str) -> bool:
    """Whether a value of base type `source` is taken where `target` is expected."""
    return source == target or target in IMPLICIT.get(source, ())


def category(type_name: str) -> str:
    """The type's category; a type without relatives is one of its own."""
    return _CATEGORIES.get(type_name, type_name)


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
        if chosen not in PREFERRED and implicit(chosen, name) and not implicit(name, chosen):
            chosen = name
    return chosen if all(implicit(name, chosen) for name in names) else None
