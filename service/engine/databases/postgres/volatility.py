"""PostgreSQL functions that depend on more than their arguments and table contents.

*Invariants*: a function that is not known to be harmless is volatile. IMMUTABLE is trusted for compiled functions only:
one in SQL or a procedural language may read tables whatever its declaration.

Not here: the functions called by a text (`describe`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dataflow.sql.reads import SqlWords

#: Keywords that are functions without parentheses.
_TIME_WORDS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
_SESSION_WORDS = frozenset(
    {
        "current_user",
        "session_user",
        "user",
        "current_role",
        "current_catalog",
        "current_schema",
        "system_user",
    }
)
#: Types whose input reads the system catalogs.
_CATALOG_TYPES = frozenset(
    {
        "regclass",
        "regtype",
        "regproc",
        "regprocedure",
        "regoper",
        "regoperator",
        "regrole",
        "regnamespace",
        "regconfig",
        "regdictionary",
        "regcollation",
    }
)
#: Strings that denote the current time when read as a date or time, or as a range, array or row of such.
_TIME_STRING = re.compile(r"(?<![a-z])(?:now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
#: System columns of a row's place and transactions: they change with every update, even one that changes no column.
_SYSTEM_COLUMNS = frozenset({"cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"})
_TIME_FUNCTIONS = frozenset(
    {
        "now",
        "statement_timestamp",
        "transaction_timestamp",
        "clock_timestamp",
        "timeofday",
        "age",
        "uuidv7",
    }
)
#: STABLE functions that depend only on their arguments and on settings pinned in all sessions of this service.
_ON_SETTINGS_ONLY = frozenset(
    {
        "array_to_json",
        "array_to_string",
        "concat",
        "concat_ws",
        "convert",
        "convert_from",
        "convert_to",
        "date",
        "date_add",
        "date_part",
        "date_subtract",
        "date_trunc",
        "enum_first",
        "enum_last",
        "enum_range",
        "extract",
        "format",
        "generate_series",
        "in_range",
        "json_agg",
        "json_agg_strict",
        "json_build_array",
        "json_build_object",
        "json_object_agg",
        "json_object_agg_strict",
        "json_object_agg_unique",
        "json_object_agg_unique_strict",
        "json_populate_record",
        "json_populate_recordset",
        "json_to_record",
        "json_to_recordset",
        "jsonb_agg",
        "jsonb_agg_strict",
        "jsonb_build_array",
        "jsonb_build_object",
        "jsonb_object_agg",
        "jsonb_object_agg_strict",
        "jsonb_object_agg_unique",
        "jsonb_object_agg_unique_strict",
        "jsonb_path_exists_tz",
        "jsonb_path_match_tz",
        "jsonb_path_query_array_tz",
        "jsonb_path_query_first_tz",
        "jsonb_path_query_tz",
        "jsonb_populate_record",
        "jsonb_populate_record_valid",
        "jsonb_populate_recordset",
        "jsonb_to_record",
        "jsonb_to_recordset",
        "length",
        "make_timestamptz",
        "money",
        "numeric",
        "overlaps",
        "quote_literal",
        "quote_nullable",
        "row_to_json",
        "time",
        "timestamp",
        "timestamptz",
        "timetz",
        "timezone",
        "to_char",
        "to_date",
        "to_json",
        "to_jsonb",
        "to_number",
        "to_timestamp",
        "to_tsquery",
        "to_tsvector",
        "phraseto_tsquery",
        "plainto_tsquery",
        "websearch_to_tsquery",
        "json_to_tsvector",
        "jsonb_to_tsvector",
        "ts_headline",
        "pg_typeof",
        "xml",
        "pg_collation_for",
    }
)
#: VOLATILE functions that change nothing, take no locks, and read only statistics or what SELECT reads.
_HARMLESS = frozenset(
    {
        "random",
        "random_normal",
        "array_sample",
        "array_shuffle",
        "bernoulli",
        "system",
        "clock_timestamp",
        "timeofday",
        "gen_random_uuid",
        "uuidv4",
        "uuidv7",
        "uuid_generate_v1",
        "uuid_generate_v1mc",
        "uuid_generate_v4",
        "gen_random_bytes",
        "gen_salt",
        "currval",
        "lastval",
        "current_query",
        "lo_get",
        "pg_is_in_recovery",
        "pg_current_wal_lsn",
        "pg_current_wal_insert_lsn",
        "pg_current_wal_flush_lsn",
        "pg_column_size",
        "pg_relation_size",
        "pg_table_size",
        "pg_indexes_size",
        "pg_total_relation_size",
        "pg_database_size",
    }
)
_VOLATILITIES = {"i": "IMMUTABLE", "s": "STABLE", "v": "VOLATILE"}
_COMPILED = frozenset({"c", "internal"})


@dataclass(frozen=True, slots=True)
class Function:
    """Row of ``pg_proc``."""

    name: str
    #: True for built-in functions.
    builtin: bool
    volatility: str
    language: str
    kind: str


def time_dependence(words: SqlWords) -> str | None:
    """Returns why a text depends on the time or the user that runs it, by its words alone."""
    for word in sorted(words.bare & (_TIME_WORDS | _SESSION_WORDS | _CATALOG_TYPES)):
        if word in _TIME_WORDS:
            return f"{word.upper()} is the current time."
        if word in _SESSION_WORDS:
            return f"{word.upper()} depends on the session."
        return f"{word} reads the system catalogs."
    if "tablesample" in words.bare:
        return "TABLESAMPLE reads rows at random."
    for name in sorted(words.names & _SYSTEM_COLUMNS):
        return f"The change stream does not carry {name}."
    for string in words.strings:
        if _TIME_STRING.search(string):
            return f"'{string}' is the current time, where a date or time is read."
    return None


def side_effect(functions: Iterable[Function]) -> str | None:
    """Returns the name of a function with possible side effects: any compiled function that is VOLATILE. Functions in
    other languages are the responsibility of their authors, and limited by the login's grants."""
    volatile = (f.name for f in functions if f.volatility == "v" and f.language in _COMPILED)
    return min((name for name in volatile if name not in _HARMLESS), default=None)


def why_volatile(functions: Iterable[Function]) -> str | None:
    """Returns why a call of one of these functions may depend on more than its arguments and table contents."""
    for function in sorted(functions, key=lambda f: f.name):
        name = function.name.upper()
        if function.builtin:
            if function.volatility == "i" or (function.volatility == "s" and function.name in _ON_SETTINGS_ONLY):
                continue
            if function.name in _TIME_FUNCTIONS:
                return f"{name} depends on the current time."
            return f"{name} depends on more than its arguments."
        if function.volatility != "i" or function.language not in _COMPILED or function.kind != "f":
            return (
                f"{name} is a user-defined function, {_VOLATILITIES[function.volatility]} and in the language"
                f" {function.language}: its dependencies are unknown."
            )
    return None
