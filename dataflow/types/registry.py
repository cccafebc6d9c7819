"""All types, by name: a family's module, and its line here, is what makes a type known."""

from collections.abc import Mapping

from dataflow.types import (
    addresses,
    dates,
    decimals,
    documents,
    floats,
    integers,
    intervals,
    labels,
    mysql_dates,
    scalars,
    texts,
)
from dataflow.types.rules import Declaration, Rules, TypeRules

#: The types of kind ``base``.
TYPES: Mapping[str, Rules] = {
    **integers.TYPES,
    **decimals.TYPES,
    **floats.TYPES,
    **scalars.TYPES,
    **texts.TYPES,
    **dates.TYPES,
    **intervals.TYPES,
    **mysql_dates.TYPES,
    **labels.TYPES,
    **addresses.TYPES,
    **documents.TYPES,
}
_CARRIED = TypeRules()


def rules_of(declaration: Declaration) -> TypeRules:
    """The rules of a type that is no array."""
    match declaration.kind:
        case "base":
            rules = TYPES.get(declaration.name, _CARRIED)
            return rules if isinstance(rules, TypeRules) else rules(declaration)
        case "enum":
            return labels.enum(declaration)
        case _:
            mysql_json = declaration.name == documents.MYSQL_JSON and declaration.sql == "json"
            return documents.MYSQL_DOCUMENT if mysql_json else _CARRIED


def named(name: str) -> TypeRules:
    """The rules of a base type without a length, scale or collation."""
    rules = TYPES.get(name, _CARRIED)
    return rules if isinstance(rules, TypeRules) else rules(Plain(name))


class Plain:
    """A type that is declared by its name only."""

    kind = "base"
    labels: tuple[str, ...] = ()
    collation = "deterministic"
    weights = None

    def __init__(self, name: str) -> None:
        self.name = self.sql = name


#: What columns of PostgreSQL may be of; others of its types are carried as text.
OF_POSTGRES = frozenset(name for name in TYPES if named(name).of_postgres)
#: What columns of MariaDB and MySQL are of, by the name of their type, where that decides it.
OF_MYSQL = {rules.of_mysql: name for name in TYPES if (rules := named(name)).of_mysql}
