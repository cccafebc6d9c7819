"""A SQL type as one object: its declaration, and answers to what is asked of its values.

Not here: the answers themselves, a module for each family (`registry` lists them); functions on values
(`dataflow.functions`), which are compiled from these answers once, before any row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from dataflow.cached_hash import CachedHash, cached_hash
from dataflow.collations import Collation
from dataflow.types.arrays import array, array_json
from dataflow.types.registry import rules_of
from dataflow.types.rules import OrderForm, OrderText, TextForm, TypeRules, ValueKind, quoted

F = TypeVar("F")


class _Resolved(CachedHash):
    """The rules of a type, once they were asked for; no part of its value."""

    __slots__ = ("_rules",)
    _rules: TypeRules


@cached_hash
@dataclass(frozen=True, slots=True)
class SqlType(_Resolved):
    """A type of the upstream, with everything that equality and order of its values depend on."""

    #: PostgreSQL's ``typname``: ``int4``, ``text``, ``timestamptz`` … (an array's is its element's, see `element`).
    #: Types of MariaDB and MySQL have the same names where values print and compare the same, else names of their own.
    name: str
    #: The type in a cast, quoted and qualified where needed: ``int8``, ``public.mood``, ``int4[]``.
    sql: str
    #: ``base``, ``enum``, ``array`` or ``other`` (carried as text; neither compared nor ordered).
    kind: str = "base"
    #: The element type of an array.
    element: "SqlType | None" = None
    #: Labels of an enum or set, in order.
    labels: tuple[str, ...] = ()
    #: For text kinds: ``bytes`` (C, POSIX, C.UTF-8: order is byte order), ``deterministic`` (equality is byte
    #: equality, order is the collation's own), ``nondeterministic``, or of MariaDB and MySQL the name of `weights`.
    collation: str = "bytes"
    #: For text kinds: what upper and lower case are (`dataflow.functions.folding`); empty if that is not known.
    folding: str = ""
    #: For text kinds, enums and sets of MariaDB and MySQL: how they compare, if not as bytes. `collation` is its name.
    weights: Collation | None = None

    @property
    def rules(self) -> TypeRules:
        """The type's rules."""
        try:
            return self._rules
        except AttributeError:
            rules = rules_of(self) if self.kind != "array" or self.element is None else array(self.element.rules)
            object.__setattr__(self, "_rules", rules)
            return rules

    # Kinds

    @property
    def is_integer(self) -> bool:
        """True if it is ``int2``, ``int4`` or ``int8``."""
        return self.rules.kind is ValueKind.INTEGER

    @property
    def is_whole(self) -> bool:
        """True if all values are whole numbers."""
        return self.rules.kind in (ValueKind.INTEGER, ValueKind.UNSIGNED)

    @property
    def is_decimal(self) -> bool:
        """True if it is ``numeric``."""
        return self.rules.kind is ValueKind.DECIMAL

    @property
    def is_float(self) -> bool:
        """True if it is ``float4`` or ``float8``."""
        return self.rules.kind is ValueKind.FLOAT

    @property
    def is_number(self) -> bool:
        """True if arithmetic computes with its values."""
        return self.rules.kind in (ValueKind.INTEGER, ValueKind.UNSIGNED, ValueKind.DECIMAL, ValueKind.FLOAT)

    @property
    def is_boolean(self) -> bool:
        """True if it is the type of conditions."""
        return self.rules.kind is ValueKind.BOOLEAN

    @property
    def is_text(self) -> bool:
        """True if it is text whose trailing spaces count."""
        return self.rules.kind is ValueKind.TEXT

    @property
    def is_string(self) -> bool:
        """True if it is text, padded or not."""
        return self.rules.kind in (ValueKind.TEXT, ValueKind.PADDED_TEXT)

    @property
    def is_bytes(self) -> bool:
        """True if it is ``bytea``."""
        return self.rules.kind is ValueKind.BYTES

    @property
    def is_moment(self) -> bool:
        """True if it is ``date``, ``timestamp`` or ``timestamptz``."""
        return self.rules.kind is ValueKind.MOMENT

    @property
    def is_interval(self) -> bool:
        """True if it is ``interval``."""
        return self.rules.kind is ValueKind.INTERVAL

    @property
    def is_document(self) -> bool:
        """True if it is ``json`` or ``jsonb`` of PostgreSQL, or ``json`` of MariaDB."""
        return self.rules.kind is ValueKind.DOCUMENT

    # Equality and order

    @property
    def family(self) -> str:
        """Types of one family are compared by their common normal form: integers and ``numeric`` are one."""
        return self.rules.family or (self.name if self.kind == "base" else self.sql)

    @property
    def comparable(self) -> bool:
        """True if `normal_form` decides the upstream's ``=``."""
        return self.rules.comparable

    @property
    def orderable(self) -> bool:
        """True if `order_form` sorts as the upstream does."""
        return self.rules.order_form is not None

    @property
    def one_text(self) -> bool:
        """True if equal values always print the same, so that it does not matter which of them is printed."""
        return self.rules.normal_form is None or self.rules.one_text

    @property
    def normal_form(self) -> TextForm | None:
        """The function that gives a value's normal form; None if its text is that already."""
        return self.rules.normal_form

    @property
    def order_form(self) -> OrderForm:
        """The function that gives bytes which sort as the values do. ValueError if the type is not `orderable`."""
        return self._known(self.rules.order_form)

    @property
    def order_text(self) -> OrderText:
        """The inverse of `order_form`: a text that has that order form. ValueError if the type is not `orderable`."""
        return self._known(self.rules.order_text)

    @property
    def compared_form(self) -> OrderForm:
        """The `order_form` of ``<``, MIN and MAX: enums and sets of MariaDB and MySQL are texts to these."""
        rules = self.rules
        return self._known(rules.compared_form if rules.compared_apart else rules.order_form)

    def _known(self, form: F | None) -> F:
        if form is None:
            raise ValueError(f"the order of {self.sql} is not known")
        return form

    # Input and output

    @property
    def takes_parameters(self) -> bool:
        """True if `parse` knows the type."""
        return self.rules.parse is not None

    def parse(self, text: str) -> str:
        """`text` as the upstream would print the value that it stands for. ValueError says what is expected.

        Accepts less than the upstream's input functions do, and gives for what it accepts exactly what they would.
        """
        if "\0" in text:
            raise ValueError("text without NUL characters is expected")
        parse = self.rules.parse
        if parse is None:
            raise ValueError(f"values of type {self.sql} cannot be given here")
        return parse(text)

    def json_form(self, big_text: bool = False) -> TextForm | None:
        """The function that gives a value's JSON; None if its text is that. `big_text`: 64-bit integers are strings."""
        if self.kind == "array" and self.element is not None:
            return array_json(self.element.json_form(big_text), ";" if self.element.name == "box" else ",")
        return quoted if big_text and self.rules.big else self.rules.json_form

    def json_schema(self, big_text: bool = False) -> Mapping[str, Any]:
        """The JSON Schema of values' JSON."""
        if self.kind == "array" and self.element is not None:
            # The upstream does not say how many dimensions an array has.
            return {"type": "array", "items": {}}
        return _BIG_TEXT if big_text and self.rules.big else self.rules.schema


_BIG_TEXT = {"type": "string", "pattern": "^-?[0-9]+$"}
