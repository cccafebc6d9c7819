"""Views and writes of the site: its 44 reads as views, and its writes.

Each write says which keys a careful author of a cache deletes after it. Not in these lists, since nobody knows the keys
or would delete them so often: the front page (every vote changes it), other people's notifications, and what a reader
has made of the stories and comments of a list.

Not here: tables and data (`bulk_load`), who reads what (`pages`).
"""

import re
from collections.abc import Iterator
from importlib.resources import files

from load.site import SiteDefinition, SiteView, SiteWrite
from load.workloads.lobsters.bulk_load import schema_sql

#: The type of every parameter, by name.
_TYPES = {
    "id": "integer",
    "story_id": "integer",
    "user_id": "integer",
    "comment_id": "integer",
    "merged_story_id": "integer",
    "ids": "integer[]",
    "story_ids": "integer[]",
    "comment_ids": "integer[]",
    "short_id": "text",
    "username": "text",
    "key": "text",
}
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
#: Views whose rows have a total order. (The front page's is that of a view below, which SQL does not promise.)
ORDERED = ("newest_comments", "recent_stories")
#: Views with several right answers: ORDER BY … LIMIT 1 among equals.
AMBIGUOUS = ("favourite_tag",)

_SEEN = (("ribbon", {"user_id": ":user_id", "story_id": ":story_id"}), ("notifications", {"user_id": ":user_id"}))
_STORY_VOTED = (
    ("story_with_votes_by_short_id", {"short_id": ":short_id"}),
    ("vote_on_story", {"user_id": ":user_id", "story_id": ":story_id"}),
    ("stories_with_votes", {"ids": ":story_id"}),
    ("frontpage_stories", {"ids": ":story_id"}),
)
_COMMENT_VOTED = (
    ("comments_of_story", {"story_id": ":story_id"}),
    ("comments_with_votes", {"ids": ":comment_id"}),
    ("vote_on_comment", {"user_id": ":user_id", "story_id": ":story_id", "comment_id": ":comment_id"}),
    ("comments_with_votes", {"ids": ":comment_id"}),
)
_VOTED_STORY = "INSERT INTO votes (user_id, story_id, vote) VALUES (:user_id, :story_id, :vote)"
_VOTED_COMMENT = (
    "INSERT INTO votes (user_id, story_id, comment_id, vote) VALUES (:user_id, :story_id, :comment_id, :vote)"
)
#: The author's own vote is cast with the comment. The original asks for the new id in between: a round trip more.
_NEW_COMMENT = (
    "WITH written AS (INSERT INTO comments (created_at, updated_at, short_id, story_id, user_id, {columns}comment,"
    " markeddown_comment) VALUES (localtimestamp, localtimestamp, :short_id, :story_id, :user_id, {values}:text, :text)"
    " RETURNING id, story_id, user_id)"
    " INSERT INTO votes (user_id, story_id, comment_id, vote) SELECT user_id, story_id, id, 1 FROM written"
)
_NEW_STORY = (
    "WITH written AS (INSERT INTO stories (created_at, user_id, title, description, short_id, markeddown_description)"
    " VALUES (localtimestamp, :user_id, :title, 'to be read', :short_id, 'to be read') RETURNING id, user_id),"
    " tagged AS (INSERT INTO taggings (story_id, tag_id) SELECT id, :tag_id FROM written)"
    " INSERT INTO votes (user_id, story_id, vote) SELECT user_id, id, 1 FROM written"
)
_OF_COMMENT = {"short_id": "text", "story_id": "integer", "user_id": "integer", "text": "text"}
_COMMENTED: tuple[tuple[str, dict[str, str]], ...] = (
    ("comments_of_story", {"story_id": ":story_id"}),
    ("comment_by_short_id", {"short_id": ":short_id"}),
    ("comment_exists", {"short_id": ":short_id"}),
    ("comment_of_story", {"story_id": ":story_id", "short_id": ":short_id"}),
    ("stats_of_user", {"id": ":user_id"}),
    ("newest_comments", {}),
)

WRITES = (
    SiteWrite(
        "see_first",
        (
            "INSERT INTO read_ribbons (created_at, updated_at, user_id, story_id)"
            " VALUES (localtimestamp, localtimestamp, :user_id, :story_id)",
        ),
        {"user_id": "bigint", "story_id": "bigint"},
        _SEEN,
    ),
    SiteWrite(
        "see_again",
        ("UPDATE read_ribbons SET updated_at = localtimestamp WHERE id = :ribbon",),
        {"ribbon": "bigint", "user_id": "bigint", "story_id": "bigint"},
        _SEEN,
    ),
    SiteWrite(
        "vote_story",
        (_VOTED_STORY,),
        {"user_id": "integer", "story_id": "integer", "vote": "smallint", "short_id": "text"},
        _STORY_VOTED,
    ),
    SiteWrite(
        "vote_comment",
        (_VOTED_COMMENT,),
        {"user_id": "integer", "story_id": "integer", "comment_id": "integer", "vote": "smallint"},
        _COMMENT_VOTED,
    ),
    SiteWrite("comment", (_NEW_COMMENT.format(columns="", values=""),), _OF_COMMENT, _COMMENTED),
    SiteWrite(
        "reply",
        (_NEW_COMMENT.format(columns="parent_comment_id, thread_id, ", values=":parent, :thread, "),),
        {**_OF_COMMENT, "parent": "integer", "thread": "integer"},
        _COMMENTED,
    ),
    SiteWrite(
        "submit",
        (_NEW_STORY,),
        {"user_id": "integer", "title": "text", "short_id": "text", "tag_id": "integer"},
        (
            ("story_by_short_id", {"short_id": ":short_id"}),
            ("story_with_votes_by_short_id", {"short_id": ":short_id"}),
            ("story_exists", {"short_id": ":short_id"}),
            ("stats_of_user", {"id": ":user_id"}),
            ("favourite_tag", {"user_id": ":user_id"}),
            ("recent_stories", {}),
        ),
    ),
)


def lobsters() -> SiteDefinition:
    return SiteDefinition("lobsters", schema_sql(), tuple(views()), WRITES)


def views() -> Iterator[SiteView]:
    lines = iter(files("load.workloads.lobsters").joinpath("views.txt").read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith("view "):
            sql = next(lines)
            yield SiteView(line.split()[1], sql, {name: _TYPES[name] for name in _PARAMETER.findall(sql)})
