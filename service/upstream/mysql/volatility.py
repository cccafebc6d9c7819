"""Which functions of MariaDB and MySQL depend on their arguments, and on settings that every session has alike, only.

*Invariants*: what is not known to be harmless is harmful.

Not here: which functions a text calls (`dataflow.sql.reads`), those that no view may call (`dataflow.sql.mysql`).
"""

import re

from dataflow.sql.reads import Words

#: How the words have a parameter: its name and place.
_PARAMETER = re.compile(r": \w+@\d+@\d+")
#: Functions that users made may be called like others, if their database is named.
_QUALIFIED_CALL = re.compile(r"\. (\S+) \(")
_TIME = frozenset({
    "now", "sysdate", "current_timestamp", "current_date", "current_time", "curdate", "curtime", "localtime",
    "localtimestamp", "utc_date", "utc_time", "utc_timestamp",
})  # fmt: skip
#: Those of the time that are words without parentheses.
_TIME_WORDS = frozenset({"current_timestamp", "current_date", "current_time", "localtime", "localtimestamp",
                         "utc_date", "utc_time", "utc_timestamp"})  # fmt: skip
_SESSION = frozenset({
    "user", "current_user", "session_user", "system_user", "database", "schema", "connection_id", "version",
    "current_role", "row_count", "found_rows",
})  # fmt: skip
_SESSION_WORDS = frozenset({"current_user", "current_role"})
_RANDOM = frozenset({"rand", "uuid", "uuid_short", "uuid_v4", "uuid_v7", "sys_guid", "random_bytes", "encrypt"})
#: Of their arguments only. `unix_timestamp` without one is the time.
_PURE = frozenset({
    # Conditions.
    "if", "ifnull", "nullif", "coalesce", "isnull", "nvl", "nvl2", "greatest", "least", "interval", "decode_oracle",
    # Numbers.
    "abs", "acos", "asin", "atan", "atan2", "ceil", "ceiling", "conv", "cos", "cot", "crc32", "crc32c", "degrees",
    "exp", "floor", "ln", "log", "log10", "log2", "mod", "oct", "pi", "pow", "power", "radians", "round", "sign", "sin",
    "sqrt", "tan", "truncate", "bit_count", "div",
    # Texts.
    "ascii", "bin", "bit_length", "char", "char_length", "character_length", "chr", "concat", "concat_ws", "elt",
    "export_set", "field", "find_in_set", "format", "from_base64", "hex", "insert", "instr", "lcase", "left", "length",
    "lengthb", "locate", "lower", "lpad", "ltrim", "make_set", "mid", "natural_sort_key", "octet_length", "ord",
    "position", "quote", "regexp_instr", "regexp_like", "regexp_replace", "regexp_substr", "repeat", "replace",
    "reverse", "right", "rpad", "rtrim", "sformat", "soundex", "space", "strcmp", "substr", "substring",
    "substring_index", "to_base64", "trim", "ucase", "unhex", "upper", "weight_string", "charset", "collation",
    "coercibility", "convert", "cast", "binary", "md5", "sha", "sha1", "sha2", "compress", "uncompress",
    "uncompressed_length", "aes_encrypt", "aes_decrypt", "extractvalue", "updatexml", "match", "against", "to_char",
    # Dates and times.
    "adddate", "addtime", "add_months", "convert_tz", "date", "date_add", "date_format", "date_sub", "datediff", "day",
    "dayname", "dayofmonth", "dayofweek", "dayofyear", "extract", "from_days", "from_unixtime", "get_format", "hour",
    "last_day", "makedate", "maketime", "microsecond", "minute", "month", "monthname", "months_between", "period_add",
    "period_diff", "quarter", "sec_to_time", "second", "str_to_date", "subdate", "subtime", "time", "time_format",
    "time_to_sec", "timediff", "timestamp", "timestampadd", "timestampdiff", "to_days", "to_seconds", "unix_timestamp",
    "week", "weekday", "weekofyear", "year", "yearweek",
    # Documents, addresses.
    "json_array", "json_array_append", "json_array_insert", "json_array_intersect", "json_compact", "json_contains",
    "json_contains_path", "json_depth", "json_detailed", "json_equals", "json_exists", "json_extract", "json_insert",
    "json_keys", "json_key_value", "json_length", "json_loose", "json_merge", "json_merge_patch",
    "json_merge_preserve", "json_normalize", "json_object", "json_overlaps", "json_pretty", "json_query", "json_quote",
    "json_remove", "json_replace", "json_schema_valid", "json_search", "json_set", "json_storage_size", "json_table",
    "json_type", "json_unquote", "json_valid", "json_value", "inet_aton", "inet_ntoa", "inet6_aton", "inet6_ntoa",
    "is_ipv4", "is_ipv4_compat", "is_ipv4_mapped", "is_ipv6", "is_uuid", "uuid_to_bin", "bin_to_uuid",
    # Aggregates and window functions.
    "avg", "bit_and", "bit_or", "bit_xor", "count", "group_concat", "json_arrayagg", "json_objectagg", "max", "min",
    "std", "stddev", "stddev_pop", "stddev_samp", "sum", "var_pop", "var_samp", "variance", "cume_dist", "dense_rank",
    "first_value", "lag", "last_value", "lead", "median", "nth_value", "ntile", "percent_rank", "percentile_cont",
    "percentile_disc", "rank", "row_number", "any_value", "grouping",
})  # fmt: skip
#: Words of the grammar that may stand before a parenthesis, and types with a length.
_GRAMMAR = frozenset({
    "in", "and", "or", "not", "xor", "on", "using", "over", "select", "distinct", "all", "any", "some", "exists",
    "from", "join", "where", "having", "when", "then", "else", "case", "union", "union all", "intersect", "except",
    "as", "values", "value", "by", "group by", "order by", "partition by", "partition", "between", "like", "rlike",
    "regexp", "is", "div", "mod", "limit", "offset", "with", "lateral", "columns", "row", "rows", "escape", "separator",
    "inner", "cross", "left", "right", "outer", "straight_join", "natural", "index", "key", "keys", "force", "use",
    "ignore", "collate", "decimal", "numeric", "dec", "varchar", "nchar", "character", "varbinary", "datetime",
    "float", "double", "signed", "unsigned", "desc", "asc", "within group", "group", "order", "window", "within",
})  # fmt: skip


def why_volatile(words: Words, defined: frozenset[str]) -> str | None:
    """Why a text depends on more than what tables hold, by its words. `defined`: names that it gives to SELECTs."""
    bare = {word.lower() for word in words.bare}
    for word in sorted(bare & (_TIME_WORDS | _SESSION_WORDS)):
        return f"{word.upper()} is the current time." if word in _TIME else f"{word.upper()} depends on the session."
    if "@" in _PARAMETER.sub("", words.rest):
        return "A variable of the session is none of the database."
    qualified = _QUALIFIED_CALL.search(words.rest)
    if qualified is not None:
        return f"{qualified[1].upper()} is a function of a database: what it depends on is not known."
    for word in sorted({word.lower() for word in words.called} - _GRAMMAR - defined):
        name = word.upper()
        if word in _TIME or (word == "unix_timestamp" and "unix_timestamp ( )" in words.rest.lower()):
            return f"{name} depends on the current time."
        if word in _SESSION:
            return f"{name} depends on the session."
        if word in _RANDOM:
            return f"{name} is different each time."
        if word not in _PURE:
            return f"What {name} depends on is not known."
    return None
