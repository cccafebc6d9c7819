"""What random queries may name: tables of the corpus (`tests/sql/corpus/shared/schema.sql`), and values of each kind.

A *kind* is what expressions are typed by here: integers of any width are one kind, so that they are mixed.
"""

from random import Random

INT, TEXT, NUM, BOOL, DATE = "int", "text", "num", "bool", "date"
KINDS = (INT, INT, INT, TEXT, TEXT, NUM, BOOL, DATE)

#: Columns and their kinds, by table.
TABLES: dict[str, dict[str, str]] = {
    "users": {"id": INT, "name": TEXT, "rating": NUM, "karma": INT, "invited_by": INT, "joined": DATE, "active": BOOL},
    "stories": {
        "id": INT, "author_id": INT, "title": TEXT, "score": INT, "price": NUM, "flagged": BOOL, "published": DATE,
    },
    "votes": {"story_id": INT, "user_id": INT, "value": INT},
    "comments": {"id": INT, "story_id": INT, "user_id": INT, "parent_id": INT, "body": TEXT, "points": INT},
    "tags": {"story_id": INT, "tag": TEXT, "note": TEXT},
    "follows": {"user_id": INT, "other_id": INT, "since": DATE},
    "events": {"id": INT, "user_id": INT, "story_id": INT, "kind": TEXT, "amount": NUM},
}  # fmt: skip
#: Pairs of columns that are joined on purpose.
JOINS = (
    ("stories.author_id", "users.id"), ("votes.story_id", "stories.id"), ("votes.user_id", "users.id"),
    ("comments.story_id", "stories.id"), ("comments.user_id", "users.id"), ("comments.parent_id", "comments.id"),
    ("tags.story_id", "stories.id"), ("follows.user_id", "users.id"), ("follows.other_id", "users.id"),
    ("events.story_id", "stories.id"), ("events.user_id", "users.id"), ("users.invited_by", "users.id"),
)  # fmt: skip
VALUES: dict[str, tuple[str, ...]] = {
    INT: ("0", "1", "2", "3", "4", "5", "7", "10", "-3"),
    TEXT: ("", "go", "sql", "web", "ada", "bob", "first", "Alpha", "a_b", "50%"),
    NUM: ("0", "1", "1.0", "1.00", "2.5", "2.50", "-3", "10.25", "NaN"),
    BOOL: ("true", "false"),
    DATE: ("2020-01-01", "2024-01-01", "2024-02-29", "2021-03-15", "1999-12-31"),
}
_CASTS = {INT: "", TEXT: "::text", NUM: "::numeric", BOOL: "::boolean", DATE: "::date"}


def literal(kind: str, rng: Random) -> str:
    """A constant, typed where its text is not enough."""
    value = rng.choice(VALUES[kind])
    if kind == INT:
        return f"({value})" if value.startswith("-") else value
    if kind == BOOL:
        return value
    return f"'{value}'{_CASTS[kind]}"


def stored(kind: str, rng: Random) -> str:
    """A value to store, at times NULL."""
    return "NULL" if rng.random() < 0.15 else f"'{rng.choice(VALUES[kind])}'"
