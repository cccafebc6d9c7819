"""MariaDB's SQL over the tables of its corpus (`tests/sql/corpus_mariadb/shared/schema.sql`).

Its texts are equal without case, accents and spaces at their ends: where any one of equal texts may be shown, further
expressions do not tell them apart. Nothing makes the server fail: what has few digits is computed with, *wide* integers
and floats hardly are. Most forms are kept up to date; a few are not, so that both are side by side.
"""

from tests.fuzz.dialect import BOOL, CASE, COMPARISONS, DATE, DATES, INT, LIKE, NUM, SAME, TEXT, Dialect

#: A text that stands for its equals; texts of a binary collation; integers of any range; doubles.
ALIKE, EXACT, WIDE, FLOAT, ENUM, MOMENT = "alike", "exact", "wide", "float", "enum", "moment"
_CONSTANTS = {
    **dict.fromkeys((INT, NUM, BOOL, WIDE, FLOAT), "{}"),
    **dict.fromkeys((TEXT, ALIKE, EXACT, ENUM, DATE, MOMENT), "'{}'"),
}
_TEXTS = ("", "go", "Go", "sql", "web", "ada", "Áda", "bob", "first", "Alpha", "a_b", "50%", "go ", "ß")
_ROWS = "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
_COMPARISONS = (*COMPARISONS, "{x} <=> {x}", "{x} <=> {x}", "{x} <=> {constant}")

MARIADB = Dialect(
    tables={
        "users": {
            "id": INT, "name": TEXT, "email": TEXT, "rating": NUM, "karma": INT, "mood": ENUM, "invited_by": INT,
            "joined": DATE, "active": BOOL,
        },
        "sections": {"code": TEXT, "label": TEXT, "parent": TEXT},
        "stories": {
            "id": INT, "author_id": INT, "section": TEXT, "title": TEXT, "score": INT, "price": NUM, "weight": FLOAT,
            "flagged": BOOL, "created_at": MOMENT, "published": DATE,
        },
        "votes": {"story_id": INT, "user_id": INT, "value": INT, "at": MOMENT},
        "comments": {
            "id": INT, "story_id": INT, "user_id": INT, "parent_id": INT, "body": TEXT, "points": INT, "share": NUM,
        },
        "tags": {"story_id": INT, "tag": TEXT, "note": EXACT},
        "follows": {"user_id": INT, "other_id": INT, "since": DATE},
        "events": {
            "id": INT, "user_id": INT, "story_id": INT, "kind": EXACT, "amount": NUM, "took": FLOAT, "at": MOMENT,
        },
        "vals": {
            "id": INT, "grp": INT, "i1": INT, "i2": WIDE, "i4": WIDE, "i8": WIDE, "u8": WIDE, "n2": NUM, "f8": FLOAT,
            "v": TEXT, "b": BOOL, "d": DATE, "dt": MOMENT,
        },
    },
    values={
        INT: ("0", "1", "2", "3", "4", "5", "7", "10", "-3"),
        TEXT: _TEXTS,
        ALIKE: _TEXTS,
        EXACT: ("", "open", "Open", "n", "N", "m", "é"),
        NUM: ("0", "1", "1.0", "1.00", "2.5", "2.50", "-3", "10.25", "0.005", "-0.4"),
        WIDE: ("0", "1", "2", "5", "10", "100", "65535"),
        FLOAT: ("0", "0.1", "1.5", "2.5", "-2.5", "3e0", "1e-7", "-0.0"),
        BOOL: ("true", "false"),
        ENUM: ("sad", "ok", "happy"),
        DATE: DATES,
        MOMENT: ("2024-01-01 00:00:00", "2024-01-02 11:30:00", "2024-02-29 23:59:59", "2023-12-31 23:00:00"),
    },
    # A whole number is an integer, and so is a parameter beside it.
    literals={**_CONSTANTS, NUM: "({} + 0.0)"},
    constants=_CONSTANTS,
    data="../corpus_mariadb/shared/data.test",
    analyze="ANALYZE TABLE users, stories, votes, comments, tags, follows, vals",
    upserts=(
        "INSERT INTO {table} ({columns}) VALUES ({values}) ON DUPLICATE KEY UPDATE {changes}",
        "REPLACE INTO {table} ({columns}) VALUES ({values})",
    ),
    assignment="{c} = VALUES({c})",
    kinds=(INT, INT, INT, TEXT, ALIKE, ALIKE, NUM, NUM, BOOL, DATE, WIDE, FLOAT, EXACT, ENUM, MOMENT),
    joined=(INT, ALIKE, NUM, DATE, BOOL, WIDE),
    parameters=(INT, INT, ALIKE, NUM, DATE, WIDE, EXACT),
    ranged=(INT, NUM, DATE, WIDE),
    united=(INT, ALIKE, DATE, NUM, WIDE),
    extremes=(INT, ALIKE, NUM, DATE, WIDE, FLOAT, MOMENT),
    forms={
        INT: (
            "({int} + {int})", "({int} - {int})", "({int} * 2)", "ABS({int})", "({int} DIV 3)", "({int} % 4)",
            "(- {int})", "({int.} DIV {int.})", "MOD({int}, {int.})", "({condition})", "({condition} + {bool})",
            "CHAR_LENGTH({text.})", "SIGN({int.})",
        ),
        NUM: (
            "({num} + {num})", "({num} - {num})", "({num.} * {num.})", "({num} + {int.})", "({int.} / {int.})",
            "({num.} / {int.})", "({num.} / {num.})", "({num} * 1.5)", "ABS({num})", "(- {num})", "ROUND({num}, 1)",
        ),
        TEXT: (
            "CONCAT({text}, {text})", "CONCAT({text}, {text})", "CONCAT({text.}, {text.})", "CONCAT({text.}, {text.})",
            "CONCAT({text}, '!')", "CONCAT({text}, '!')", "CONCAT('<', {text}, '>')", "CONCAT('<', {text}, '>')",
            "SUBSTRING({text}, 2, 3)", "REPLACE({text}, 'a', 'oo')", "LEFT({text}, 2)",
        ),
        ALIKE: ("{text}", "{text}", "COALESCE({text}, {alike})", "IFNULL({alike.}, {alike.})", "UPPER({alike})"),
        EXACT: ("CONCAT({exact}, {exact.})", "CONCAT({exact.}, '')", "LOWER({exact})"),
        WIDE: ("IFNULL({wide}, {wide.})", "IF({condition}, {wide.}, {int.})", "({wide.} % 3)"),
        FLOAT: ("({float.} + {float.})", "({float.} - {num.})", "(- {float.})", "({float.} / 2)", "ABS({float.})"),
        DATE: ("{date.}", "{date.}", "{date.}", "({date.} + INTERVAL 1 DAY)"),
        MOMENT: ("{moment.}", "{moment.}", "{moment.}", "({moment.} - INTERVAL 1 HOUR)"),
        BOOL: ("({condition})",),
    },
    choices=(
        "COALESCE({x}, {x})", "COALESCE({x}, {x})", "IFNULL({x}, {x})", CASE, CASE, "IF({condition}, {x}, {x})",
        "IF({condition}, {x}, {x})", *("NULLIF({x}, {constant})", "NULLIF({x}, {x.})") * 4, "GREATEST({x}, {x})",
    ),
    null_tests=("{x} IS NULL", "{x} IS NOT NULL", "NOT ({x} <=> {x})", "ISNULL({x})"),
    comparisons={
        SAME: _COMPARISONS,
        TEXT: (*_COMPARISONS, *_COMPARISONS, *LIKE),
        BOOL: ("{x}", "{x} = {x}", "{x} IS NOT FALSE", "NOT {x}", "{x} <=> {x}"),
        INT: (*_COMPARISONS, "{int} < {num}", "{int} = {wide}", "{int} > {float.}", "{int}",
              "({int}, {int}) = ({int}, {int})"),
        NUM: (*_COMPARISONS, "{num} = {int}", "{num} <> {wide}", "{num} < {float.}", "{num.}"),
        WIDE: (*_COMPARISONS, "{wide} > {int}", "{wide} <=> {num}", "{wide} < {float.}"),
        DATE: (*_COMPARISONS, "{date} < {moment}"),
        MOMENT: (*_COMPARISONS, "{moment} >= {date}"),
    },
    aggregates=(
        *(("COUNT(*)", INT),) * 4, *(("COUNT({distinct}{any})", INT),) * 3, *(("SUM({distinct}{int})", NUM),) * 2,
        ("SUM({distinct}{num.})", NUM), ("SUM({condition.})", NUM), ("SUM({wide.})", NUM),
        ("AVG({distinct}{int.})", NUM), ("AVG({num.})", NUM), ("(SUM({num.}) / COUNT(*))", NUM),
        *(("MIN({x})", SAME),) * 2, *(("MAX({x})", SAME),) * 2,
        ("GROUP_CONCAT({distinct}{int.} ORDER BY {again} + 0)", TEXT),
    ),
    filters=("",),
    windowed=0.03,
    windows=(
        ("ROW_NUMBER() {by_all}", INT), ("RANK() {some}", INT), ("DENSE_RANK() {some}", INT),
        ("LAG({n}) {by_all}", INT), ("LEAD({n}, 2) {by_all}", INT), ("COUNT(*) {some}", INT), ("SUM({n}) {some}", NUM),
        ("MAX({n}) OVER ({partition})", INT), (f"SUM({{n}}) OVER ({{partition}}ORDER BY {{total}} {_ROWS})", NUM),
    ),
    terms=("{n}", "{n}", "{n}", "{n}", "{n} DESC", "{n} DESC", "{n} DESC", "c{n} IS NULL, {n}"),
    picked={TEXT: ALIKE},
    also={ALIKE: (TEXT,)},
    options={ALIKE: "alike", FLOAT: "any"},
)  # fmt: skip
