"""Everything computed of PostgreSQL's SQL, as subjects: plain functions, casts, comparisons, arrays, documents."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

from dataflow.bounds import MAX_CHARACTERS
from dataflow.errors import UnsupportedQuery
from dataflow.evaluate import SIGNATURES, compile_scalar
from dataflow.functions.casts import castable
from dataflow.functions.comparison import OPERATORS
from dataflow.functions.json_constructors import json_key
from dataflow.functions.signature import Signature
from dataflow.plan.render import render
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.postgres import resolve
from tests.dataflow.functions.awkward import type_of
from tests.dataflow.functions.test_signatures import CONSTANTS, PATTERNS
from tests.fuzz.hostile.subject import Subject

SCALARS = (
    "bool",
    "int2",
    "int4",
    "int8",
    "numeric",
    "float4",
    "float8",
    "text",
    "bpchar",
    "bytea",
    "mood",
    "uuid",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "json",
    "jsonb",
)
ARRAYS = ("text[]", "int4[]", "numeric[]", "timestamp[]")
_SIZED = {
    "numeric": ("numeric(10,2)", "numeric(1000,500)", "numeric(3,-2)"),
    "text": ("varchar(3)", "bpchar(5)"),
    "timestamp": ("timestamp(0)", "timestamp(3)"),
    "timestamptz": ("timestamptz(1)",),
    "varchar": ("varchar(3)",),
}
_HOSTILE_PATTERNS = (
    "(a|aa)+b",
    "(a*)*b",
    "(a+)+$",
    "(x?){50}x{50}",
    "a{0,255}",
    "(a|b|ab)*c",
    "^(a|a)*$",
    ".*.*.*=.*",
    "[^b]*b[^b]*b",
    "(.*)(.*)(.*)x",
    "a.{200}b",
    "((a{1,50}){1,5})",
    "\U0001f600",
    "\u017f",
    "k",
)
_ONE_WAY = ("a", "ab", "a+", "[ab]", "[^a]+", "x{2}", "^a", "b$", ".", "a.b", "\u00e9", r"\d+", "[a-z]{3}")


class PostgresSubjects:
    """The subjects of a database whose texts fold so."""

    def __init__(self, text: SqlType, rng: Random) -> None:
        self._folding = text.folding
        self._rng = rng

    def type_of(self, name: str) -> SqlType:
        """The type of that name in this database."""
        if name == "mood":
            return SqlType("mood", "mood", "enum", labels=("sad", "ok", "happy"))
        if name.endswith("[]"):
            element = self.type_of(name[:-2])
            return SqlType(element.name, name, "array", element)
        bare = name.partition("(")[0]
        return SqlType(bare, name, folding=self._folding if type_of(bare).folding else "")

    def subject(self, name: str, types: tuple[str, ...], expression: Scalar) -> Subject:
        """An expression as a subject."""
        return Subject(name, types, render(expression, lambda i: f"c{i}"), compile_scalar(expression))

    def call(self, function: str, types: tuple[str, ...], result: str, title: str = "") -> Subject:
        """A function of columns."""
        arguments = tuple(ColumnRef(i, self.type_of(t)) for i, t in enumerate(types))
        expression = Call(function, arguments, self.type_of(result))
        return self.subject(f"{title or function}({', '.join(types)})", types, expression)

    def all(self) -> Iterator[Subject]:
        """Every one."""
        yield from self.plain()
        yield from self.casts()
        yield from self.comparisons()
        yield from self.choices()
        yield from self.arrays()
        yield from self.documents()

    # --- plain functions ----------------------------------------------------------------------------------------------

    def plain(self) -> Iterator[Subject]:
        """Every overload of every plain function."""
        yield self._repeat()
        for name in sorted(set(SIGNATURES) - {"pi", "repeat"}):
            for overload in SIGNATURES[name]:
                if overload.function is not None:
                    yield from self._overload(name, overload)

    def _overload(self, name: str, overload: Signature) -> Iterator[Subject]:
        constants = list(self._constants(name, overload))
        if not constants:
            yield self.call(name, overload.arguments, overload.result)
        for fixed in constants:
            columns = tuple(t for i, t in enumerate(overload.arguments) if i not in fixed)
            numbers = iter(range(len(columns)))
            arguments = tuple(
                Literal(fixed[i], self.type_of(t)) if i in fixed else ColumnRef(next(numbers), self.type_of(t))
                for i, t in enumerate(overload.arguments)
            )
            try:
                resolve.call(name, list(arguments), self.type_of("text"))
            except UnsupportedQuery:
                continue
            expression = Call(name, arguments, self.type_of(overload.result))
            yield self.subject(f"{name}({', '.join(overload.arguments)})", columns, expression)

    def _repeat(self) -> Subject:
        """REPEAT. The server is spared what is left to it, and an empty text two billion times: both take seconds."""
        called = self.call("repeat", ("text", "int4"), "text")
        sql = f"CASE WHEN length(c0) * c1::int8 <= {MAX_CHARACTERS} THEN repeat(c0, least(c1, {MAX_CHARACTERS})) END"
        return replace(called, sql=sql)

    def _constants(self, name: str, overload: Signature) -> Iterator[dict[int, str]]:
        """Yield values of the arguments that are constants in plans, by place."""
        if name == "regexp_replace":
            for pattern in _ONE_WAY:
                new = self._rng.choice(("", "x", "\u00e9\u00e9", "aa"))
                yield {1: pattern, 2: new} | ({3: "g"} if len(overload.arguments) == 4 else {})
        elif name == "substring" and overload.arguments == ("text", "text"):
            yield from ({1: pattern} for pattern in _ONE_WAY)
        elif name in ("matches", "imatches"):
            patterns = (*PATTERNS, *_HOSTILE_PATTERNS)
            yield from ({1: p} for p in patterns if name == "matches" or p.isascii())
        elif name == "date_trunc" and len(overload.arguments) == 3:
            yield from ({0: field, 2: "UTC"} for field in ("hour", "week", "century"))
        else:
            for (function, place), values in CONSTANTS.items():
                if function == name:
                    yield from ({place: value} for value in values if value is not None)

    # --- casts and comparisons ----------------------------------------------------------------------------------------

    def casts(self) -> Iterator[Subject]:
        """Every cast that is exact."""
        for source in (*SCALARS, *ARRAYS, "varchar"):
            for target in (*SCALARS, "varchar", *_SIZED.get(source, ())):
                left, right = self.type_of(source), self.type_of(target)
                if source != target and castable(left, right):
                    expression = Call("cast", (ColumnRef(0, left),), right)
                    yield self.subject(f"cast({source} as {target})", (source,), expression)

    def comparisons(self) -> Iterator[Subject]:
        """Every comparison of values of types that are compared."""
        for left, right in product((*SCALARS, *ARRAYS), repeat=2):
            for operator in (*OPERATORS, "is distinct from"):
                try:
                    yield self.call(operator, (left, right), "bool")
                except ValueError:
                    continue

    def choices(self) -> Iterator[Subject]:
        """GREATEST, NULLIF and their like, CONCAT."""
        for name in SCALARS:
            for function in ("greatest", "least", "nullif", "coalesce"):
                try:
                    yield self.call(function, (name, name), name)
                except ValueError:
                    continue
        yield self.call("concat", ("text", "text", "text"), "text")
        yield self.call("concat_ws", ("text", "text", "text", "text"), "text")
        yield self.call("num_nulls", ("text", "int4"), "int4")

    # --- arrays and documents -----------------------------------------------------------------------------------------

    def arrays(self) -> Iterator[Subject]:
        """Functions of arrays, ANY and ALL."""
        for array in ARRAYS:
            element = array[:-2]
            yield self.call("subscript", (array, "int4"), element)
            for function in ("array_length", "array_upper", "array_lower"):
                yield self.call(function, (array, "int4"), "int4")
            yield self.call("cardinality", (array,), "int4")
            yield self.call("array_to_string", (array, "text"), "text")
            yield self.call("array_to_string", (array, "text", "text"), "text")
            yield from (self.call(f"array {o}", (array, array), "bool") for o in ("@>", "<@", "&&"))
            yield self.call("array_append", (array, element), array)
            yield self.call("array_prepend", (element, array), array)
            yield self.call("array_cat", (array, array), array)
            yield self.call("array_position", (array, element), "int4")
            yield self.call("array_remove", (array, element), array)
            yield self.call("array", (element, element, element), array)
            for quantifier, operator in product(("any", "all"), ("=", "<>", "<")):
                yield self.call(f"{quantifier} {operator}", (element, array), "bool")

    def documents(self) -> Iterator[Subject]:
        """Documents made of values of every type."""
        for name in (*SCALARS, *ARRAYS):
            for kind in ("json", "jsonb"):
                yield self.call(f"to_{kind}", (name,), kind)
                yield self.call(f"{kind}_build_array", (name, "text", name), kind)
                try:
                    json_key(self.type_of(name))
                except ValueError:
                    continue
                if not name.endswith("[]"):
                    yield self.call(f"{kind}_build_object", (name, name, "text", "int4"), kind)
