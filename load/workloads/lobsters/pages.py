"""The site's pages: the queries of each, in order, and its writes (thesis Table 6.1).

Queries that depend on nothing but each other's earlier answers are asked together, so that a page is a few rounds of
requests; the original asks one after another. A page that wrote asks for what its writer must see as new as that.

*Invariants*: all that is random about a visit is in its arguments.

Not here: how often which page is visited, and by whom (`workload`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from load.driver.visit import HttpCall, HttpReply, Visit, read_many, write
from load.workloads.lobsters.dataset import slug

Row = dict[str, Any]
Read = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Visitor:
    user: int
    #: Of a story, comment or user, as the page needs it.
    about: int = 0
    #: A number nobody had before, for what is written.
    new: int = 0


#: By the name under which latencies are reported.
Page = Callable[[Visitor], Visit]


def rows_of(reply: HttpReply) -> list[list[Row]]:
    """The rows of each read of a request."""
    return [result["rows"] for result in orjson.loads(reply.body)["results"]]


def version_of(reply: HttpReply) -> str:
    """The minimum version of a read that must show a write."""
    version: str = orjson.loads(reply.body)["version"]
    return version


def story(visitor: Visitor) -> Visit:
    """A story with its comments. Visiting it marks it as seen, which may take away notifications."""
    user = visitor.user
    (reply,) = yield [read_many([("story_with_votes_by_short_id", {"short_id": slug(visitor.about)}), _unread(user)])]
    (shown,) = rows_of(reply)[0]
    of_both = {"user_id": user, "story_id": shown["id"]}
    (reply,) = yield [
        read_many(
            [
                ("user_by_id", {"id": shown["user_id"]}),
                ("ribbon", of_both),
                ("merged_into", {"merged_story_id": shown["id"]}),
                ("comments_of_story", {"story_id": shown["id"]}),
                ("vote_on_story", of_both),
                ("hidden_story", of_both),
                ("saved_story", of_both),
                ("taggings_of_story", {"story_id": shown["id"]}),
            ]
        )
    ]
    _, ribbons, _, comments, _, _, _, taggings = rows_of(reply)
    seen, _ = yield [
        _see(of_both, ribbons),
        _read_some(
            [
                ("users_by_id", {"ids": _distinct(comments, "user_id")}),
                ("votes_on_comments", {"user_id": user, "comment_ids": _distinct(comments, "id")}),
                ("tags_by_id", {"ids": _distinct(taggings, "tag_id")}),
            ]
        ),
    ]
    yield [read_many([_notifications(user)], newer_than=version_of(seen))]


def frontpage(visitor: Visitor) -> Visit:
    yield from _stories("frontpage", "frontpage_stories", visitor.user)


def recent(visitor: Visitor) -> Visit:
    yield from _stories("recent_stories", "stories_with_votes", visitor.user)


def _stories(ids_of: str, stories_of: str, user: int) -> Visit:
    """A list of stories, with what its reader has made of them."""
    first: list[Read] = [(ids_of, {}), ("filters_of_user", {"user_id": user}), _notifications(user), _unread(user)]
    (reply,) = yield [read_many(first)]
    ids = _distinct(rows_of(reply)[0], "id")
    of_stories, of_both = {"story_ids": ids}, {"user_id": user, "story_ids": ids}
    (reply,) = yield [
        read_many(
            [
                (stories_of, {"ids": ids}),
                ("tagged_stories", of_stories),
                ("suggested_titles_of", of_stories),
                ("suggested_taggings_of", of_stories),
                ("taggings_of_stories", of_stories),
                ("votes_on_stories", of_both),
                ("hidden_of_user", of_both),
                ("saved_of_user", of_both),
            ]
        )
    ]
    stories, _, _, _, taggings, _, _, _ = rows_of(reply)
    yield [
        _read_some(
            [
                ("users_by_id", {"ids": _distinct(stories, "user_id")}),
                ("tags_by_id", {"ids": _distinct(taggings, "tag_id")}),
            ]
        )
    ]


def comments(visitor: Visitor) -> Visit:
    user = visitor.user
    (reply,) = yield [read_many([("newest_comments", {}), _notifications(user), _unread(user)])]
    ids = _distinct(rows_of(reply)[0], "id")
    (reply,) = yield [
        read_many([("comments_with_votes", {"ids": ids}), ("votes_on_comments", {"user_id": user, "comment_ids": ids})])
    ]
    shown, _ = rows_of(reply)
    stories = _distinct(shown, "story_id")
    (reply,) = yield [
        read_many(
            [
                ("hidden_among", {"user_id": user, "story_ids": stories}),
                ("users_by_id", {"ids": _distinct(shown, "user_id")}),
                ("stories_with_votes", {"ids": stories}),
            ]
        )
    ]
    yield [read_many([("users_by_id", {"ids": _distinct(rows_of(reply)[2], "user_id")})])]


def user(visitor: Visitor) -> Visit:
    asking, about = visitor.user, visitor.about
    (reply,) = yield [
        read_many([("user_by_name", {"username": f"user{about}"}), _notifications(asking), _unread(asking)])
    ]
    (shown,) = rows_of(reply)[0]
    of_user = {"user_id": shown["id"]}
    (reply,) = yield [
        read_many([("stats_of_user", {"id": shown["id"]}), ("favourite_tag", of_user), ("has_hat", of_user)])
    ]
    favourite = rows_of(reply)[1]
    if favourite:
        yield [read_many([("tag_by_id", {"id": favourite[0]["id"]})])]


def vote_on_story(vote: int) -> Page:
    """Voting for a story (1) or against it (0)."""

    def visit(visitor: Visitor) -> Visit:
        short_id = slug(visitor.about)
        (reply,) = yield [read_many([("story_by_short_id", {"short_id": short_id})])]
        of_both = {"user_id": visitor.user, "story_id": rows_of(reply)[0][0]["id"]}
        (reply,) = yield [read_many([("vote_on_story", of_both)])]
        if not rows_of(reply)[0]:
            yield [write("vote_story", {**of_both, "vote": vote, "short_id": short_id})]

    return visit


def vote_on_comment(vote: int) -> Page:
    """Voting for a comment (1) or against it (0)."""

    def visit(visitor: Visitor) -> Visit:
        (reply,) = yield [read_many([("comment_by_short_id", {"short_id": slug(visitor.about)})])]
        comment = rows_of(reply)[0][0]
        of_all = {"user_id": visitor.user, "story_id": comment["story_id"], "comment_id": comment["id"]}
        (reply,) = yield [read_many([("vote_on_comment", of_all)])]
        if not rows_of(reply)[0]:
            yield [write("vote_comment", {**of_all, "vote": vote})]

    return visit


def comment(visitor: Visitor) -> Visit:
    """Commenting on a story."""
    short_id = slug(visitor.new)
    shown = yield from _commented_story(visitor, short_id)
    of_new = {"short_id": short_id, "story_id": shown["id"], "user_id": visitor.user, "text": "a comment"}
    (written,) = yield [write("comment", of_new)]
    yield from _own_comment(visitor, short_id, version_of(written))


def reply(visitor: Visitor) -> Visit:
    """Answering a comment of a story; its first, so that there is one: the ones shown are asked for."""
    short_id = slug(visitor.new)
    shown = yield from _commented_story(visitor, short_id)
    (answer,) = yield [read_many([("comments_of_story", {"story_id": shown["id"]})])]
    said = rows_of(answer)[0]
    of_new = {"short_id": short_id, "story_id": shown["id"], "user_id": visitor.user, "text": "an answer"}
    if not said:
        (written,) = yield [write("comment", of_new)]
    else:
        parent = said[visitor.new % len(said)]
        yield [read_many([("comment_of_story", {"story_id": shown["id"], "short_id": parent["short_id"]})])]
        thread = parent["thread_id"] or parent["id"]
        (written,) = yield [write("reply", {**of_new, "parent": parent["id"], "thread": thread})]
    yield from _own_comment(visitor, short_id, version_of(written))


def _commented_story(visitor: Visitor, short_id: str) -> Any:
    """Reads before a comment is written; returns the story."""
    (reply,) = yield [
        read_many(
            [("story_by_short_id", {"short_id": slug(visitor.about)}), ("comment_exists", {"short_id": short_id})]
        )
    ]
    (shown,) = rows_of(reply)[0]
    yield [read_many([("user_by_id", {"id": shown["user_id"]})])]
    return shown


def _own_comment(visitor: Visitor, short_id: str, version: str) -> Visit:
    """Shows the writer the comment, and the vote that came with it."""
    (reply,) = yield [read_many([("comment_by_short_id", {"short_id": short_id})], newer_than=version)]
    for written in rows_of(reply)[0]:
        of_all = {"user_id": visitor.user, "story_id": written["story_id"], "comment_id": written["id"]}
        yield [read_many([("vote_on_comment", of_all)], newer_than=version)]


def submit(visitor: Visitor) -> Visit:
    short_id = slug(visitor.new)
    (reply,) = yield [read_many([("test_tag", {}), ("story_exists", {"short_id": short_id})])]
    tag = rows_of(reply)[0][0]["id"]
    of_new = {"user_id": visitor.user, "title": f"benchmark {short_id}", "short_id": short_id, "tag_id": tag}
    (written,) = yield [write("submit", of_new)]
    newer_than = version_of(written)
    (reply,) = yield [read_many([("story_by_short_id", {"short_id": short_id})], newer_than=newer_than)]
    for shown in rows_of(reply)[0]:
        of_both = {"user_id": visitor.user, "story_id": shown["id"]}
        yield [read_many([("vote_on_story", of_both)], newer_than=newer_than)]


def login(visitor: Visitor) -> Visit:
    yield [read_many([("user_exists", {"username": f"user{visitor.user}"})])]


def _notifications(user: int) -> Read:
    return "notifications", {"user_id": user}


def _unread(user: int) -> Read:
    return "keystore", {"key": f"user:{user}:unread_messages"}


def _see(of_both: Mapping[str, int], ribbons: Sequence[Row]) -> HttpCall:
    if ribbons:
        return write("see_again", {"ribbon": ribbons[0]["id"], **of_both})
    return write("see_first", of_both)


def _distinct(rows: Sequence[Row], column: str) -> list[int]:
    return list(dict.fromkeys([row[column] for row in rows]))


def _read_some(reads: Sequence[Read]) -> HttpCall:
    """Without those of empty lists, which nobody would ask."""
    return read_many([read for read in reads if all(value != [] for value in read[1].values())])
