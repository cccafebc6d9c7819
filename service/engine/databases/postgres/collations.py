"""Properties of the upstream's collations: byte order, and mappings of upper and lower case.

*Invariants*: all properties were observed on the server: the case mappings are those that it returned.

Not here: what follows from it (`dataflow.types`, `dataflow.functions.folding`).
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import md5
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection, Error

from cdc.postgres.names import qualified_name
from dataflow.functions.folding import ASCII, class_of, simple_lower, simple_upper

DEFAULT_COLLATION = 100
#: Providers and locales with byte order. (All builtin locales have it, in UTF-8.)
_BYTE_LOCALES = frozenset({"C", "POSIX", "C.UTF-8", "C.UTF8", "C.utf8"})
_ASCII_LOCALES = frozenset({"C", "POSIX"})
#: Builtin locales with one-to-one case mappings.
_SIMPLE_BUILTIN = frozenset({"C.UTF-8", "C.UTF8"})
#: Ranges that contain letters, without ideographs, syllables and private-use characters, which have no case.
_LETTERS = ((0x1, 0x3400), (0xA000, 0xAC00), (0xF900, 0x17000), (0x1D000, 0x1F000))
_MAX_EXCEPTIONS = 200

_COLLATIONS = """
SELECT c.oid, n.nspname, c.collname, c.collprovider::text, c.collisdeterministic, c.collcollate, c.collctype, {locale}
FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace
"""
_DATABASE = """
SELECT {provider}, d.datcollate, d.datctype, {locale} FROM pg_catalog.pg_database d
WHERE d.datname = pg_catalog.current_database()
"""
_DIGESTS = "SELECT pg_catalog.md5(pg_catalog.lower(s)), pg_catalog.md5(pg_catalog.upper(s)) FROM "
_FOLDED = "SELECT pg_catalog.lower(s), pg_catalog.upper(s) FROM "
_CHARACTERS = "(SELECT %s::pg_catalog.text COLLATE {collation} AS s) AS characters"


@dataclass(frozen=True, slots=True)
class PostgresCollation:
    """Collation properties for `SqlType.collation` and `SqlType.folding`."""

    order: str = "bytes"
    folding: str = ""


@dataclass(frozen=True, slots=True)
class _Provided:
    """Collation in the server's catalog. `locale`: of the builtin and ICU providers."""

    written: str
    provider: str
    deterministic: bool
    collate: str | None
    ctype: str | None
    locale: str | None


#: Observations by connection: a server process does not change its case mappings.
_SEEN: WeakKeyDictionary[AsyncConnection, dict[_Provided, str]] = WeakKeyDictionary()


async def load_collations(connection: AsyncConnection, used: Iterable[int]) -> dict[int, PostgresCollation]:
    """Loads all collations by OID, including the database's default; case mappings only for those in `used`."""
    utf8 = (await _all(connection, "SELECT pg_catalog.current_setting('server_encoding')"))[0][0] == "UTF8"
    version = connection.info.server_version
    locale = "colllocale" if version >= 170000 else "colliculocale" if version >= 150000 else "NULL"
    provided = {
        oid: _Provided(qualified_name(schema, name), *rest)
        for oid, schema, name, *rest in await _all(connection, _COLLATIONS.format(locale=locale))
    }
    provided[DEFAULT_COLLATION] = await _default(connection, version)
    wanted = {*used, DEFAULT_COLLATION}
    found: dict[int, PostgresCollation] = {}
    for oid, item in provided.items():
        folding = await _folding(connection, item) if utf8 and oid in wanted else ""
        found[oid] = PostgresCollation(_order(item, utf8), folding)
    return found


async def _default(connection: AsyncConnection, version: int) -> _Provided:
    locale = "d.datlocale" if version >= 170000 else "d.daticulocale" if version >= 150000 else "NULL"
    provider = "d.datlocprovider::text" if version >= 150000 else "'c'"
    (row,) = await _all(connection, _DATABASE.format(locale=locale, provider=provider))
    return _Provided('pg_catalog."default"', row[0], True, *row[1:])


def _order(item: _Provided, utf8: bool) -> str:
    """Returns the order; the server's byte order equals the local one in UTF-8 only."""
    if not item.deterministic:
        return "nondeterministic"
    byte_order = item.provider == "b" or (item.provider == "c" and item.collate in _BYTE_LOCALES)
    return "bytes" if byte_order and utf8 else "deterministic"


async def _folding(connection: AsyncConnection, item: _Provided) -> str:
    """Returns the class of case mappings; empty unless they are one to one, character by character."""
    if item.provider == "c":
        return ASCII if item.ctype in _ASCII_LOCALES else await _seen(connection, item)
    if item.provider == "b":
        if item.locale == "C":
            return ASCII
        return await _seen(connection, item) if item.locale in _SIMPLE_BUILTIN else ""
    return ""


async def _seen(connection: AsyncConnection, item: _Provided) -> str:
    """Compares once per connection, since it takes the server as long as the rest of a catalog. See `_compared`."""
    seen = _SEEN.setdefault(connection, {})
    if item not in seen:
        with suppress(Error):
            seen[item] = await _compared(connection, item.written)
    return seen.get(item, "")


async def _compared(connection: AsyncConnection, collation: str) -> str:
    """Compares the server's case mappings of all letters with Python's. Raises `Error`."""
    ours = _unicode()
    source = _CHARACTERS.format(collation=collation)
    async with connection.transaction():
        (digests,) = await _all(connection, _DIGESTS + source, [ours.characters])
        if digests == ours.digests:
            return class_of({}, {})
        ((lower, upper),) = await _all(connection, _FOLDED + source, [ours.characters])
    if not len(lower) == len(upper) == len(ours.characters):
        return ""
    exceptions = [
        {c: to for c, to, expected in zip(ours.characters, found, mapped, strict=True) if to != expected}
        for found, mapped in ((lower, ours.lower), (upper, ours.upper))
    ]
    return class_of(*exceptions) if sum(map(len, exceptions)) <= _MAX_EXCEPTIONS else ""


@dataclass(frozen=True)
class _Unicode:
    """All letters and their mappings. Not slotted, since the digests are cached."""

    characters: str
    lower: str
    upper: str

    @cached_property
    def digests(self) -> tuple[str, str]:
        """Digests of the lower-case and the upper-case mappings."""
        lower, upper = (md5(s.encode(), usedforsecurity=False).hexdigest() for s in (self.lower, self.upper))
        return lower, upper


@cache
def _unicode() -> _Unicode:
    characters = "".join(chr(i) for start, end in _LETTERS for i in range(start, end))
    return _Unicode(characters, "".join(map(simple_lower, characters)), "".join(map(simple_upper, characters)))


async def _all(connection: AsyncConnection, query: str, parameters: list[str] | None = None) -> list[tuple]:  # type: ignore[type-arg]
    return await (await connection.execute(query.encode(), parameters)).fetchall()
