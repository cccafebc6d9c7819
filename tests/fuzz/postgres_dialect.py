"""PostgreSQL's SQL over the tables of its corpus (`tests/sql/corpus/shared/schema.sql`)."""

from tests.fuzz.dialect import BOOL, CASE, COMPARISONS, DATE, DATES, INT, LIKE, NUM, SAME, TEXT, Dialect

_KINDS = (INT, INT, INT, TEXT, TEXT, NUM, BOOL, DATE)
_LITERALS = {INT: "{}", TEXT: "'{}'::text", NUM: "'{}'::numeric", BOOL: "{}", DATE: "'{}'::date"}
_ROWS = "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"

POSTGRES = Dialect(
    tables={
        "users": {
            "id": INT, "name": TEXT, "rating": NUM, "karma": INT, "invited_by": INT, "joined": DATE, "active": BOOL,
        },
        "stories": {
            "id": INT, "author_id": INT, "title": TEXT, "score": INT, "price": NUM, "flagged": BOOL, "published": DATE,
        },
        "votes": {"story_id": INT, "user_id": INT, "value": INT},
        "comments": {"id": INT, "story_id": INT, "user_id": INT, "parent_id": INT, "body": TEXT, "points": INT},
        "tags": {"story_id": INT, "tag": TEXT, "note": TEXT},
        "follows": {"user_id": INT, "other_id": INT, "since": DATE},
        "events": {"id": INT, "user_id": INT, "story_id": INT, "kind": TEXT, "amount": NUM},
    },
    values={
        INT: ("0", "1", "2", "3", "4", "5", "7", "10", "-3"),
        TEXT: ("", "go", "sql", "web", "ada", "bob", "first", "Alpha", "a_b", "50%"),
        NUM: ("0", "1", "1.0", "1.00", "2.5", "2.50", "-3", "10.25", "NaN"),
        BOOL: ("true", "false"),
        DATE: DATES,
    },
    literals=_LITERALS,
    constants=_LITERALS,
    data="shared/data.test",
    analyze="ANALYZE",
    upserts=("INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT ({keys}) DO UPDATE SET {changes}",),
    assignment="{c} = excluded.{c}",
    kinds=_KINDS,
    joined=(INT, TEXT, NUM, DATE, BOOL),
    parameters=(INT, TEXT),
    ranged=(INT,),
    united=(INT, TEXT, DATE),
    extremes=(INT, TEXT, NUM, DATE),
    forms={
        INT: (
            "({int} + {int})", "({int} - {int})", "({int} * 2)", "abs({int})", "({int} / 3)", "({int} % 4)",
            "(- {int})", "length({text})", "position('a' IN {text.})",
        ),
        NUM: (
            "({num} + {num})", "({num} - {num})", "({num} * {num})", "round({num}, 1)", "({num} + 1)",
            "{int.}::numeric",
        ),
        TEXT: (
            "({text} || {text})", "upper({text})", "lower({text})", "substring({text} FROM 2 FOR 3)",
            "replace({text}, 'a', 'oo')", "left({text}, 2)", "trim({text})", "concat({text}, {text})", "{int.}::text",
        ),
        DATE: ("({date.} + 1)", "({date.} + 31)", "({date.} + -7)"),
        BOOL: ("({condition})",),
    },
    choices=(
        "coalesce({x}, {x})", "coalesce({x}, {x})", CASE, CASE, "nullif({x}, {constant})", "greatest({x}, {x})",
        "least({x}, {x})",
    ),
    null_tests=("{x} IS NULL", "{x} IS NOT NULL", "{x} IS DISTINCT FROM {x}"),
    comparisons={
        SAME: COMPARISONS, TEXT: (*COMPARISONS, *LIKE), BOOL: ("{x}", "{x} = {x}", "{x} IS NOT FALSE"),
    },
    aggregates=(
        *(("count(*)", INT),) * 4, *(("count({distinct}{any})", INT),) * 3, *(("sum({distinct}{int})", NUM),) * 3,
        *(("avg({distinct}{int.})", NUM),) * 2, ("min({x})", SAME), ("max({x})", SAME), ("max({x})", SAME),
        ("bool_and({condition.})", BOOL), ("bool_or({condition.})", BOOL),
        ("string_agg({distinct}{text.}, ',' ORDER BY {again})", TEXT),
    ),
    filters=("", "", "", "", " FILTER (WHERE {condition.})"),
    windowed=0.12,
    windows=(
        ("row_number() {by_all}", INT), ("rank() {some}", INT), ("dense_rank() {some}", INT),
        ("lag({n}) {by_all}", INT), ("lead({n}, 2, 0) {by_all}", INT), ("count(*) {some}", INT),
        ("sum({n}) {some}", NUM), ("max({n}) OVER ({partition})", INT), ("first_value({n}) {by_all}", INT),
        (f"sum({{n}}) OVER ({{partition}}ORDER BY {{total}} {_ROWS})", NUM),
    ),
    terms=("{n}", "{n}", "{n} DESC", "{n} DESC NULLS LAST", "{n} NULLS FIRST"),
    options=dict.fromkeys(_KINDS, "any"),
)  # fmt: skip
