"""The simulated upstream's tables: a news site with three or four values per column, so that everything collides.

Which foreign keys writers are held to differs from run to run: without them children come before their parents. The
engine is told of none.
"""

from dataclasses import dataclass, replace
from itertools import count

from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.types import Value

INT4 = SqlType("int4", "int4")
INT8 = SqlType("int8", "int8")
TEXT = SqlType("text", "text")
NUMERIC = SqlType("numeric", "numeric")
BOOL = SqlType("bool", "bool")

#: Joins the publication while transactions are open.
LATE_TABLE = "public.follows"

NUMBERS = ("0", "0.00", "1", "1.0", "1.00", "2.5", "2.50", "-3", "40.125")
ODD_NUMBERS = (*NUMBERS, "NaN", "Infinity", "-Infinity")


def column(name: str, sql_type: SqlType, not_null: bool = False) -> Column:
    """A column in one line."""
    return Column(name, sql_type, not_null)


TABLES = (
    Table(
        "public.users",
        (column("id", INT4, True), column("name", TEXT), column("karma", NUMERIC)),
        keys=((0,),),
    ),
    Table(
        "public.stories",
        (column("id", INT4, True), column("author", INT4), column("title", TEXT), column("score", NUMERIC)),
        keys=((0,),),
    ),
    Table(
        "public.votes",
        (column("story", INT4), column("voter", INT4), column("weight", INT4)),
    ),
    Table(
        "public.comments",
        (
            column("id", INT4, True),
            column("story", INT4),
            column("author", INT4),
            column("parent", INT4),
            column("body", TEXT),
        ),
        keys=((0,),),
    ),
    Table(
        "public.tags",
        (column("story", INT4, True), column("tag", TEXT, True)),
        keys=((0, 1),),
    ),
    Table(
        LATE_TABLE,
        (column("follower", INT4), column("followee", INT4), column("tag", TEXT)),
    ),
)

#: Each column has an index.
CATALOG = Catalog({t.name: replace(t, indexes=tuple((column,) for column in range(len(t.columns)))) for t in TABLES})


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns of a table, by ordinal, that reference another's, or its own."""

    columns: tuple[int, ...]
    parent: str
    parent_columns: tuple[int, ...]


FOREIGN_KEYS = {
    "public.users": (),
    "public.stories": (ForeignKey((1,), "public.users", (0,)),),
    "public.votes": (ForeignKey((0,), "public.stories", (0,)), ForeignKey((1,), "public.users", (0,))),
    "public.comments": (
        ForeignKey((1,), "public.stories", (0,)),
        ForeignKey((2,), "public.users", (0,)),
        ForeignKey((3,), "public.comments", (0,)),
    ),
    "public.tags": (ForeignKey((0,), "public.stories", (0,)),),
    LATE_TABLE: (ForeignKey((1,), "public.users", (0,)),),
}

#: The values a column takes, by name. Ids come from the small range that references use too.
DOMAINS: dict[str, tuple[Value, ...]] = {
    "id": ("1", "2", "3", "4", "5"),
    "name": ("a", "b", "", None),
    "karma": (*NUMBERS, None),
    "author": ("1", "2", "3", "4", None),
    "title": ("x", "y", None),
    "score": (*NUMBERS, None),
    "story": ("1", "2", "3", "4", "5", None),
    "voter": ("1", "2", "3", "4", None),
    "weight": ("0", "1", "2", "-1", None),
    "parent": ("1", "2", "3", "4", None),
    "body": ("x", "y", "z", None),
    "tag": ("p", "q", "r"),
    "follower": ("1", "2", "3", "4", None),
    "followee": ("1", "2", "3", "4", None),
}

#: How many rows a table is kept at, about.
SIZES = {
    "public.users": 4,
    "public.stories": 5,
    "public.votes": 9,
    "public.comments": 6,
    "public.tags": 6,
    LATE_TABLE: 6,
}


@dataclass(frozen=True, slots=True)
class SchemaVariant:
    """Difference between the upstreams of two runs."""

    #: One bit per foreign key, in the order of `FOREIGN_KEYS`.
    foreign_keys: int
    odd_numbers: bool


def enforced(variant: SchemaVariant) -> dict[str, tuple[ForeignKey, ...]]:
    """The foreign keys that writers are held to in this variant, by table."""
    bits = count()
    return {
        table: tuple(key for key in keys if variant.foreign_keys >> next(bits) & 1)
        for table, keys in FOREIGN_KEYS.items()
    }


def domain(name: str, variant: SchemaVariant) -> tuple[Value, ...]:
    """The values of a column in this variant."""
    if name in ("karma", "score") and variant.odd_numbers:
        return (*ODD_NUMBERS, None)
    return DOMAINS[name]
