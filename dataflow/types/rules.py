"""The behaviour of a SQL type's values: when two are equal, how they sort, how they are read and written.

A *normal form* is a text that two values share exactly if the upstream's ``=`` calls them equal; it is itself a valid
literal of the type. An *order form* is bytes that compare as the upstream orders the values. Both take the exact text
that the upstream prints (PostgreSQL: TimeZone UTC, DateStyle ISO, IntervalStyle postgres, bytea_output hex,
extra_float_digits 1; MariaDB and MySQL: one text per value, which the families' modules describe).

*Invariants*: types of one `family` share one normal form, so keys of joins between them match. No order form is a
prefix of another of its type. Behaviour that is not known exactly is absent, never guessed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from json.encoder import encode_basestring
from typing import Any, Protocol

from dataflow.collations import Collation

#: From a value's text.
TextForm = Callable[[str], str]
OrderForm = Callable[[str], bytes]
#: Bytes that begin with an order form -> a text with that order form, and the form's length. ValueError (or another
#: error of decoding) for bytes that begin with none.
OrderText = Callable[[bytes], tuple[str, int]]
#: User input -> the text that the upstream prints for it. ValueError says what is expected.
Parse = Callable[[str], str]


class ValueKind(Enum):
    """Types whose values functions treat alike."""

    INTEGER = auto()
    #: Of 64 bits without a sign (MariaDB, MySQL).
    UNSIGNED = auto()
    DECIMAL = auto()
    FLOAT = auto()
    BOOLEAN = auto()
    #: Text whose trailing spaces count.
    TEXT = auto()
    PADDED_TEXT = auto()
    BYTES = auto()
    #: Dates and timestamps of PostgreSQL.
    MOMENT = auto()
    TIME = auto()
    INTERVAL = auto()
    DOCUMENT = auto()
    #: Enums of PostgreSQL, enums and sets of MariaDB and MySQL.
    LABELS = auto()
    ARRAY = auto()
    OTHER = auto()


class Declaration(Protocol):
    """A type as it is declared (`SqlType`)."""

    @property
    def name(self) -> str: ...
    @property
    def sql(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def collation(self) -> str: ...
    @property
    def weights(self) -> Collation | None: ...


@dataclass(frozen=True, slots=True)
class TypeRules:
    """The behaviour of one type's values. The defaults are those of a type that is carried as text."""

    kind: ValueKind = ValueKind.OTHER
    #: Types whose values are compared with each other by their normal forms; "" is the type itself.
    family: str = ""
    #: Whether `normal_form` decides the upstream's ``=``.
    comparable: bool = False
    #: None: the text is the normal form.
    normal_form: TextForm | None = None
    #: Whether equal values always print the same.
    one_text: bool = True
    #: By ORDER BY, and back; None: the order is not known.
    order_form: OrderForm | None = None
    order_text: OrderText | None = None
    #: Whether ``<``, MIN and MAX have another order than ORDER BY; that one.
    compared_apart: bool = False
    compared_form: OrderForm | None = None
    #: None: values cannot be given as parameters.
    parse: Parse | None = None
    #: A value as JSON; None: its text is JSON.
    json_form: TextForm | None = encode_basestring
    #: Whether JSON may need a string since values have more digits than a JavaScript number holds.
    big: bool = False
    #: The JSON Schema of `json_form`.
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    #: The most digits of a whole number.
    digits: int = 0
    #: Mean bytes of a value's text, for estimates.
    width_bytes: int = 32
    #: The names of the types of SUM and AVG; "" if these have no exact form whatever the order of rows.
    sum: str = ""
    average: str = ""
    #: Whether a sum is made of the values: the upstream's own sum of them is not exact, or has no inverse.
    summed_by_value: bool = False
    #: Whether the database of the type has MIN and MAX of it (PostgreSQL, of types that others have too).
    extremes: bool = True
    #: Whether the cast to ``text`` keeps the text.
    prints_itself: bool = False
    #: PostgreSQL's implicit casts, its category (a type without relatives is one of its own), and whether it is that
    #: one's preferred type.
    implicit: frozenset[str] = frozenset()
    category: str = ""
    preferred: bool = False
    #: Whether columns of PostgreSQL may be of the type: others of its types are carried as text.
    of_postgres: bool = False
    #: The name of columns of the type in MariaDB and MySQL, if that is all that there is to their type but a fraction.
    of_mysql: str = ""


#: A type's rules, or those of a declaration where they depend on it.
Rules = TypeRules | Callable[[Declaration], TypeRules]


def quoted(text: str) -> str:
    """A text without any character that JSON escapes, as a JSON string."""
    return f'"{text}"'


INVERTED = bytes(255 - i for i in range(256))
_WIDE = 16
WIDE_INFINITIES = {"-infinity": b"\0" * _WIDE, "infinity": b"\xff" * _WIDE}
_INFINITE_TEXTS = {data: text for text, data in WIDE_INFINITIES.items()}


def order_wide(number: int) -> bytes:
    """A number of up to 127 bits as 16 bytes that sort as it does."""
    return (number + (1 << 126)).to_bytes(_WIDE, "big")


def wide_number(data: bytes) -> int:
    """The inverse of `order_wide`."""
    return int.from_bytes(data[:_WIDE], "big") - (1 << 126)


def wide_text(text_of: Callable[[int], str]) -> OrderText:
    """The inverse of an order form that is `order_wide`, or infinite."""

    def read(data: bytes) -> tuple[str, int]:
        infinity = _INFINITE_TEXTS.get(data[:_WIDE])
        return (text_of(wide_number(data)) if infinity is None else infinity), _WIDE

    return read


def order_ascii(text: str) -> bytes:
    """The order of texts without NUL characters, none of which sorts by a collation."""
    return text.encode() + b"\0"


def ascii_text(data: bytes) -> tuple[str, int]:
    """The inverse of `order_ascii`."""
    end = data.index(b"\0")
    return data[:end].decode(), end + 1
