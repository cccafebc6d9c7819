"""Which of PostgreSQL's functions depend on more than their arguments and what tables hold.

*Invariants*: what is not known to be harmless is harmful. IMMUTABLE is believed of compiled functions only: one in SQL
or a procedural language may read tables whatever it is declared.

Not here: which functions a text calls (`describe`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dataflow.sql.reads import Words

#: Keywords that are functions without parentheses.
_TIME_WORDS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
_SESSION_WORDS = frozenset({
    "current_user", "session_user", "user", "current_role", "current_catalog", "current_schema", "system_user",
})  # fmt: skip
#: Types whose input reads the system catalogs.
_CATALOG_TYPES = frozenset({
    "regclass", "regtype", "regproc", "regprocedure", "regoper", "regoperator", "regrole", "regnamespace",
    "regconfig", "regdictionary", "regcollation",
})  # fmt: skip
#: Strings that are the current time where a date or time is read.
_TIME_STRING = re.compile(r"(?:[\w:+.\-]+\s+)*(?:now|today|tomorrow|yesterday)(?:\s+[\w:+.\-]+)*", re.IGNORECASE)
_TIME_FUNCTIONS = frozenset({
    "now", "statement_timestamp", "transaction_timestamp", "clock_timestamp", "timeofday", "age", "uuidv7",
})  # fmt: skip
#: STABLE functions that depend, beside their arguments, only on settings that every session of ours pins.
_ON_SETTINGS_ONLY = frozenset({
    "array_to_json", "array_to_string", "concat", "concat_ws", "convert", "convert_from", "convert_to", "date",
    "date_add", "date_part", "date_subtract", "date_trunc", "enum_first", "enum_last", "enum_range", "extract",
    "format", "generate_series", "in_range", "json_agg", "json_agg_strict", "json_build_array", "json_build_object",
    "json_object_agg", "json_object_agg_strict", "json_object_agg_unique", "json_object_agg_unique_strict",
    "json_populate_record", "json_populate_recordset", "json_to_record", "json_to_recordset", "jsonb_agg",
    "jsonb_agg_strict", "jsonb_build_array", "jsonb_build_object", "jsonb_object_agg", "jsonb_object_agg_strict",
    "jsonb_object_agg_unique", "jsonb_object_agg_unique_strict", "jsonb_path_exists_tz", "jsonb_path_match_tz",
    "jsonb_path_query_array_tz", "jsonb_path_query_first_tz", "jsonb_path_query_tz", "jsonb_populate_record",
    "jsonb_populate_record_valid", "jsonb_populate_recordset", "jsonb_to_record", "jsonb_to_recordset", "length",
    "make_timestamptz", "money", "numeric", "overlaps", "quote_literal", "quote_nullable", "row_to_json", "time",
    "timestamp", "timestamptz", "timetz", "timezone", "to_char", "to_date", "to_json", "to_jsonb", "to_number",
    "to_timestamp", "to_tsquery", "to_tsvector", "phraseto_tsquery", "plainto_tsquery", "websearch_to_tsquery",
    "json_to_tsvector", "jsonb_to_tsvector", "ts_headline", "pg_typeof", "xml", "pg_collation_for",
})  # fmt: skip
_VOLATILITIES = {"i": "IMMUTABLE", "s": "STABLE", "v": "VOLATILE"}
_COMPILED = frozenset({"c", "internal"})


@dataclass(frozen=True, slots=True)
class Function:
    """A row of ``pg_proc``."""

    name: str
    #: Whether it is PostgreSQL's own.
    builtin: bool
    volatility: str
    language: str
    kind: str


def time_dependence(words: Words) -> str | None:
    """Why a text depends on when, or by whom, it is run, as its words alone tell."""
    for word in sorted(words.bare & (_TIME_WORDS | _SESSION_WORDS | _CATALOG_TYPES)):
        if word in _TIME_WORDS:
            return f"{word.upper()} is the current time."
        if word in _SESSION_WORDS:
            return f"{word.upper()} depends on the session."
        return f"{word} reads the system catalogs."
    if "tablesample" in words.bare:
        return "TABLESAMPLE reads rows at random."
    for string in words.strings:
        if _TIME_STRING.fullmatch(string.strip()):
            return f"'{string}' is the current time, where a date or time is read."
    return None


def why_volatile(functions: Iterable[Function]) -> str | None:
    """Why a call of one of these may depend on more than its arguments and what tables hold."""
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
                f"{name} is a function of this database, {_VOLATILITIES[function.volatility]} and in the language"
                f" {function.language}: what it depends on is not known."
            )
    return None
