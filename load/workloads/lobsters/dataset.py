"""The site's rows, the same on every machine: as many people, stories, comments and votes as the real site had.

Pure and deterministic: one seed, no clock. Counts and skew are those of `statistics`; what is not known of the real
site, and assumed here, is named in `Assumed`. Which stories are popular does not depend on their ids.

Not here: the tables (``schema.sql``), how rows get into a database (`bulk_load`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from random import Random

from load.workloads.lobsters import statistics
from load.workloads.lobsters.statistics import Popularity, values

OPENED = datetime(2012, 7, 3, tzinfo=UTC)
#: When the statistics were taken. The visits of a run come after.
COUNTED = datetime(2018, 3, 12, tzinfo=UTC)
_WORDS = (
    "the",
    "of",
    "and",
    "in",
    "to",
    "for",
    "with",
    "on",
    "from",
    "as",
    "at",
    "is",
    "was",
    "not",
    "we",
    "it",
    "this",
    "database",
    "kernel",
    "compiler",
    "cache",
    "query",
    "index",
    "memory",
    "thread",
    "lock",
    "stream",
    "log",
    "state",
    "view",
    "table",
    "row",
    "key",
    "value",
    "type",
    "function",
    "parser",
    "editor",
    "terminal",
    "browser",
    "network",
    "packet",
    "protocol",
    "server",
    "client",
    "queue",
    "tree",
    "graph",
    "hash",
    "sort",
    "proof",
    "model",
    "test",
    "build",
    "release",
    "patch",
    "review",
    "design",
    "paper",
    "history",
    "security",
    "privacy",
    "hardware",
    "runtime",
)
_NULL = "\\N"


class Assumed:
    """Numbers that the site's administrator did not publish."""

    TAGS = 100
    #: Of all stories, half have a second tag.
    SECOND_TAG = 0.5
    #: Of comments, those that answer another (the thesis's load generator has the same).
    REPLIES = 0.5
    #: Of votes; the requests for up and down votes are so (`statistics.PAGES`).
    STORY_DOWN, COMMENT_DOWN = 0.042, 0.079
    MERGED = 0.01
    #: Rows for each story; those of people are of stories that they draw.
    HIDDEN, SAVED, FILTERS, TITLES, TAGGINGS = 0.5, 0.5, 0.25, 0.02, 0.05
    HATS = 100
    #: Of the last year: who wrote on a story's page has seen it then.
    RIBBONS = timedelta(days=365)
    #: Words of titles and of comments.
    TITLE_WORDS, COMMENT_WORDS = 8, 60


@dataclass(frozen=True, slots=True)
class LobstersSize:
    """How much of the site: 1 is all of it."""

    scale: float = 1.0
    seed: int = 1

    @property
    def users(self) -> int:
        return max(20, round(statistics.USERS * self.scale))


@dataclass(frozen=True, slots=True)
class CopyRows:
    """Rows of one table as lines of COPY text."""

    table: str
    columns: tuple[str, ...]
    lines: Iterator[str]


@dataclass(frozen=True, slots=True)
class LobstersSite:
    """Popularity of people, and the comments. Ids begin with 1; the list's place is the id less one."""

    size: LobstersSize
    story_votes: list[int]
    comment_votes: list[int]
    user_votes: list[int]
    #: The story of each comment.
    comment_story: list[int]
    #: How often each story is commented on.
    story_comments: list[int]
    users: Popularity = field(repr=False)
    stories: Popularity = field(repr=False)
    stories_to_comment: Popularity = field(repr=False)
    comments: Popularity = field(repr=False)


def site(size: LobstersSize) -> LobstersSite:
    """The site of a size. Takes a fraction of a second, so that each process of a load can have its own."""
    random = Random(size.seed)
    story_votes = values(statistics.VOTES_PER_STORY, 10, size.scale)
    commented = _comments_of_stories(values(statistics.COMMENTS_PER_STORY, 10, size.scale), size, random)
    places = list(range(len(story_votes)))
    random.shuffle(places)
    # Stories with many votes have many comments: both lists rise.
    story_votes = [story_votes[place] for place in places]
    commented = [commented[place] if place < len(commented) else 0 for place in places]
    comment_story = [story for story, number in enumerate(commented, 1) for _ in range(number)]
    random.shuffle(comment_story)
    comment_votes = values(statistics.VOTES_PER_COMMENT, 10, size.scale)[: len(comment_story)]
    random.shuffle(comment_votes)
    comment_votes += [0] * (len(comment_story) - len(comment_votes))
    user_votes = values(statistics.VOTES_PER_USER, 100, size.scale)
    user_votes = [*user_votes, *[0] * (size.users - len(user_votes))][: size.users]
    random.shuffle(user_votes)
    return LobstersSite(
        size,
        story_votes,
        comment_votes,
        user_votes,
        comment_story,
        commented,
        Popularity(user_votes),
        Popularity(story_votes),
        Popularity(commented),
        Popularity(comment_votes),
    )


def _comments_of_stories(numbers: list[int], size: LobstersSize, random: Random) -> list[int]:
    """Numbers of comments that add up to the total. Stories in the histogram's lowest bin share the rest."""
    wanted = round(sum(items for _, items in statistics.VOTES_PER_COMMENT) * size.scale)
    few = round(statistics.COMMENTS_PER_STORY[0][1] * size.scale)
    shared = [0] * few
    for _ in range(max(0, wanted - sum(numbers[few:]))):
        shared[int(random.random() * few)] += 1
    return [*sorted(shared), *numbers[few:]]


def slug(number: int) -> str:
    """The six letters by which pages name a story or a comment."""
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def tables(of: LobstersSite) -> Iterator[CopyRows]:
    random = Random(of.size.seed + 1)
    stories, people = len(of.story_votes), of.size.users
    authors = [of.users.draw(random) for _ in range(stories)]
    commenters = [of.users.draw(random) for _ in of.comment_story]
    written = [_moment(place / len(of.comment_story)) for place in range(len(of.comment_story))]
    yield CopyRows("users", ("username", "karma"), (f"user{i}\t{of.user_votes[i - 1]}\n" for i in range(1, people + 1)))
    yield CopyRows("tags", ("tag", "hotness_mod"), (f"{_tag(i)}\t{i % 3 - 1}\n" for i in range(Assumed.TAGS)))
    yield CopyRows(
        "stories",
        (
            "created_at",
            "user_id",
            "url",
            "title",
            "description",
            "short_id",
            "merged_story_id",
            "markeddown_description",
        ),
        _stories(authors, random),
    )
    yield CopyRows(
        "comments",
        (
            "created_at",
            "updated_at",
            "short_id",
            "story_id",
            "user_id",
            "parent_comment_id",
            "thread_id",
            "comment",
            "markeddown_comment",
        ),
        _comments(of.comment_story, commenters, written, random),
    )
    yield CopyRows("votes", ("user_id", "story_id", "comment_id", "vote"), _votes(of, authors, commenters, random))
    yield CopyRows("taggings", ("story_id", "tag_id"), _taggings(stories, random))
    yield CopyRows(
        "read_ribbons", ("created_at", "updated_at", "user_id", "story_id"), _ribbons(of, authors, commenters, written)
    )
    yield from _of_people(of, random)


def _of_people(of: LobstersSite, random: Random) -> Iterator[CopyRows]:
    """Small tables of people's data, of assumed sizes."""
    stories = len(of.story_votes)

    def pairs(share: float) -> list[tuple[int, int]]:
        drawn = ((of.users.draw(random), of.stories.draw(random)) for _ in range(round(stories * share)))
        return sorted(set(drawn))

    at = _text(COUNTED)
    yield CopyRows("hidden_stories", ("user_id", "story_id"), (f"{u}\t{s}\n" for u, s in pairs(Assumed.HIDDEN)))
    yield CopyRows(
        "saved_stories",
        ("created_at", "updated_at", "user_id", "story_id"),
        (f"{at}\t{at}\t{u}\t{s}\n" for u, s in pairs(Assumed.SAVED)),
    )
    yield CopyRows(
        "tag_filters",
        ("created_at", "updated_at", "user_id", "tag_id"),
        (f"{at}\t{at}\t{u}\t{1 + s % Assumed.TAGS}\n" for u, s in pairs(Assumed.FILTERS)),
    )
    yield CopyRows(
        "suggested_titles",
        ("user_id", "story_id", "title"),
        (f"{u}\t{s}\t{_words(random, Assumed.TITLE_WORDS)}\n" for u, s in pairs(Assumed.TITLES)),
    )
    yield CopyRows(
        "suggested_taggings",
        ("user_id", "story_id", "tag_id"),
        (f"{u}\t{s}\t{1 + s % Assumed.TAGS}\n" for u, s in pairs(Assumed.TAGGINGS)),
    )
    yield CopyRows("hats", ("user_id", "hat"), (f"{of.users.draw(random)}\tA hat\n" for _ in range(Assumed.HATS)))
    unread = (f"user:{user}:unread_messages\t0\n" for user in range(1, of.size.users + 1))
    traffic = ("traffic:date\t1520812800\n", "traffic:hits\t100\n")
    yield CopyRows("keystores", ("key", "value"), chain(unread, traffic))


def _text(moment: datetime) -> str:
    """Formats a time for a column without a zone."""
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds")


def _tag(number: int) -> str:
    return f"tag{number}" if number else "test"


def _moment(share: float) -> str:
    return _text(OPENED + share * (COUNTED - OPENED))


def _words(random: Random, number: int) -> str:
    drawn = random.random
    return " ".join([_WORDS[int(drawn() * len(_WORDS))] for _ in range(max(1, int(number * (0.3 + 1.4 * drawn()))))])


def _stories(authors: Sequence[int], random: Random) -> Iterator[str]:
    for number, author in enumerate(authors, 1):
        into = str(1 + int(random.random() * len(authors))) if random.random() < Assumed.MERGED else _NULL
        at = _moment(number / len(authors))
        title = _words(random, Assumed.TITLE_WORDS)
        yield f"{at}\t{author}\thttps://example.org/{slug(number)}\t{title}\t\t{slug(number)}\t{into}\t\n"


def _comments(
    stories: Sequence[int], commenters: Sequence[int], written: Sequence[str], random: Random
) -> Iterator[str]:
    """Comments in the order of their times; an answer has the thread of its parent."""
    threads: dict[int, list[tuple[int, int]]] = {}
    for number, story, user, at in zip(count(1), stories, commenters, written, strict=False):
        before = threads.setdefault(story, [])
        parent, thread = _NULL, number
        if before and random.random() < Assumed.REPLIES:
            answered, thread = before[int(random.random() * len(before))]
            parent = str(answered)
        before.append((number, thread))
        text = _words(random, Assumed.COMMENT_WORDS)
        yield f"{at}\t{at}\t{slug(number)}\t{story}\t{user}\t{parent}\t{thread}\t{text}\t<p>{text}</p>\n"


def _votes(of: LobstersSite, authors: Sequence[int], commenters: Sequence[int], random: Random) -> Iterator[str]:
    """Nobody votes twice; the author's own vote is the first, as the site casts it."""
    for story, (number, author) in enumerate(zip(of.story_votes, authors, strict=True), 1):
        for user, vote in _voters(of.users, author, number, Assumed.STORY_DOWN, random):
            yield f"{user}\t{story}\t{_NULL}\t{vote}\n"
    for comment, (number, author) in enumerate(zip(of.comment_votes, commenters, strict=True), 1):
        for user, vote in _voters(of.users, author, number, Assumed.COMMENT_DOWN, random):
            yield f"{user}\t{of.comment_story[comment - 1]}\t{comment}\t{vote}\n"


def _voters(users: Popularity, author: int, number: int, down: float, random: Random) -> Iterator[tuple[int, int]]:
    voted = {author}
    yield author, 1
    # A small site has stories with more votes than it has busy people: drawing must end.
    for _ in range(4 * number):
        if len(voted) >= number:
            return
        user = users.draw(random)
        if user not in voted:
            voted.add(user)
            yield user, int(random.random() >= down)


def _taggings(stories: int, random: Random) -> Iterator[str]:
    """The tags' popularity is one over their rank."""
    tags = Popularity([1 / rank for rank in range(1, Assumed.TAGS + 1)])
    for story in range(1, stories + 1):
        first = tags.draw(random)
        yield f"{story}\t{first}\n"
        if random.random() < Assumed.SECOND_TAG and (second := tags.draw(random)) != first:
            yield f"{story}\t{second}\n"


def _ribbons(
    of: LobstersSite, authors: Sequence[int], commenters: Sequence[int], written: Sequence[str]
) -> Iterator[str]:
    """Read ribbons: recent commenters of a story saw its page when they commented, and not since."""
    since = _text(COUNTED - Assumed.RIBBONS)
    seen: dict[tuple[int, int], str] = {}
    for story, author in enumerate(authors, 1):
        seen[author, story] = _moment(story / len(authors))
    for story, user, at in zip(of.comment_story, commenters, written, strict=True):
        seen[user, story] = max(at, seen.get((user, story), at))
    for (user, story), at in seen.items():
        if at >= since:
            yield f"{at}\t{at}\t{user}\t{story}\n"
