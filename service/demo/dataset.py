"""The news site's data: who wrote, voted and commented, the same on every machine.

The generator is pure and deterministic (one seed, no clock). Votes on stories and stories of authors are Zipf
distributed, as on real sites: a few stories have thousands of votes and most a handful.

Not here: the tables (``schema.sql``), how rows get into a database (`loading`), what happens afterwards (`write_load`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from random import Random

#: When the site opened; stories and comments come in order from then on.
OPENED = datetime(2024, 1, 1, tzinfo=UTC)

TAGS = (
    "ask",
    "show",
    "databases",
    "python",
    "rust",
    "go",
    "c",
    "linux",
    "web",
    "security",
    "networking",
    "compilers",
    "distributed",
    "hardware",
    "games",
    "science",
    "math",
    "history",
    "design",
    "testing",
    "performance",
    "release",
    "culture",
    "law",
    "privacy",
    "education",
    "browsers",
    "graphics",
    "audio",
    "video",
    "mobile",
    "cloud",
    "devops",
    "storage",
    "kernel",
    "formal-methods",
    "haskell",
    "lisp",
    "java",
    "javascript",
    "php",
    "ruby",
    "erlang",
    "elixir",
    "vcs",
    "editors",
    "email",
    "fonts",
    "api",
    "caching",
)

_FIRST = (
    "ada",
    "alan",
    "barbara",
    "dana",
    "edgar",
    "elena",
    "frances",
    "grace",
    "hedy",
    "ivan",
    "jim",
    "joan",
    "karen",
    "leslie",
    "lin",
    "margaret",
    "niklaus",
    "olga",
    "peter",
    "radia",
    "sophie",
    "tony",
    "vera",
    "yukihiro",
)
_SUBJECTS = (
    "A small database",
    "Partial state",
    "The change stream",
    "An old compiler",
    "Our cache",
    "The query planner",
    "A faster parser",
    "Write-ahead logs",
    "Incremental views",
    "A tiny kernel",
    "The index",
    "Materialized views",
    "A type system",
    "Consistent hashing",
    "The garbage collector",
    "A text editor",
)
_VERBS = (
    "in a weekend",
    "explained",
    "considered",
    "ten years later",
    "from first principles",
    "without locks",
    "that fits in memory",
    "nobody asked for",
    "in production",
    "measured",
    "and what went wrong",
    "for humans",
    "at scale",
    "revisited",
    "by hand",
    "in 500 lines",
)
_REMARKS = (
    "This matches what we saw.",
    "Do you have numbers for that?",
    "The second figure is the interesting one.",
    "I would have used an index.",
    "Nice write-up, thank you.",
    "How does it behave when the disk is full?",
    "We tried this and went back.",
    "See also the original paper.",
)


@dataclass(frozen=True, slots=True)
class DatasetSize:
    """How many rows of each table. `votes` and `taggings` come out a little different."""

    users: int = 10_000
    stories: int = 20_000
    votes: int = 520_000
    comments: int = 60_000


@dataclass(frozen=True, slots=True)
class Lines:
    """Rows of one table as lines of COPY text: columns as the database takes them, tab separated."""

    table: str
    columns: tuple[str, ...]
    rows: int
    lines: Iterator[str]


def user_name(number: int) -> str:
    """The name of a user; the low numbers are the busy ones, and 0 is elena."""
    number_of_first = (number + 5) % len(_FIRST)
    return _FIRST[number_of_first] if number < len(_FIRST) else f"{_FIRST[number_of_first]}{number // len(_FIRST)}"


def title(story: int) -> str:
    """The title of a story."""
    return f"{_SUBJECTS[story * 7 % len(_SUBJECTS)]} {_VERBS[(story * 5 + story // 16) % len(_VERBS)]}"


def remark(number: int) -> str:
    """The text of a comment."""
    return _REMARKS[number % len(_REMARKS)]


def zipf_weights(count: int, exponent: float) -> list[float]:
    """Cumulative weights of the ranks 1 … `count`, for `random.choices` and `bisect`."""
    return list(accumulate((rank + 3) ** -exponent for rank in range(count)))


def generate(size: DatasetSize, seed: int = 1) -> Iterator[Lines]:
    """All tables, parents first."""
    random = Random(seed)
    votes = _votes_of_stories(size, random)
    authors = random.choices(range(size.users), cum_weights=zipf_weights(size.users, 0.8), k=size.stories)
    yield Lines("users", ("name", "display_name", "joined", "last_seen"), size.users, _users(size))
    yield Lines(
        "stories",
        ("id", "title", "url", "author", "created_at", "score", "removed"),
        size.stories,
        _stories(size, authors, votes),
    )
    yield Lines("votes", ("story_id", "user_id", "value"), sum(votes), _votes(size, votes))
    yield Lines(
        "comments",
        ("id", "story_id", "parent_id", "author", "body", "created_at"),
        size.comments,
        _comments(size, random),
    )
    yield Lines("tags", ("id", "name"), len(TAGS), (f"{i}\t{name}\n" for i, name in enumerate(TAGS, 1)))
    taggings = _taggings(size, random)
    yield Lines("taggings", ("story_id", "tag_id"), len(taggings), iter(taggings))


def _votes_of_stories(size: DatasetSize, random: Random) -> list[int]:
    """How many votes each story has. Popular stories lie anywhere in time; nobody votes twice on one."""
    weights = [(rank + 3) ** -0.85 for rank in range(size.stories)]
    scale = size.votes / sum(weights)
    counts = [min(size.users, round(weight * scale)) for weight in weights]
    random.shuffle(counts)
    return counts


def _value(story: int, vote: int) -> int:
    """One vote in sixteen is a downvote."""
    return -1 if (story + vote) % 16 == 0 else 1


def _users(size: DatasetSize) -> Iterator[str]:
    for number in range(size.users):
        name = user_name(number)
        joined = (OPENED - timedelta(days=number % 900)).date()
        yield f"{name}\t{name.capitalize()}\t{joined}\t\\N\n"


def _stories(size: DatasetSize, authors: list[int], votes: list[int]) -> Iterator[str]:
    step = timedelta(days=600) / size.stories
    for story in range(1, size.stories + 1):
        created = OPENED + step * story
        score = sum(_value(story, vote) for vote in range(votes[story - 1]))
        url = "\\N" if story % 9 == 0 else f"https://example.org/{story}"
        removed = "t" if story % 97 == 0 else "f"
        yield f"{story}\t{title(story)}\t{url}\t{user_name(authors[story - 1])}\t{created}\t{score}\t{removed}\n"


def _votes(size: DatasetSize, votes: list[int]) -> Iterator[str]:
    """The voters of a story are a run of users, which starts anywhere: all different."""
    names = [user_name(number) for number in range(size.users)]
    for story in range(1, size.stories + 1):
        first = story * 7919
        for vote in range(votes[story - 1]):
            yield f"{story}\t{names[(first + vote) % size.users]}\t{_value(story, vote)}\n"


def _comments(size: DatasetSize, random: Random) -> Iterator[str]:
    """Comments in order of time, each on a recent story; every third answers an earlier one on the same story."""
    last_on: dict[int, int] = {}
    step = timedelta(days=600) / size.comments
    for comment in range(1, size.comments + 1):
        newest = max(1, size.stories * comment // size.comments)
        story = max(1, newest - int(random.expovariate(1 / 400)))
        parent = str(last_on[story]) if comment % 3 == 0 and story in last_on else "\\N"
        last_on[story] = comment
        author = user_name(random.randrange(size.users))
        yield f"{comment}\t{story}\t{parent}\t{author}\t{remark(comment)}\t{OPENED + step * comment}\n"


def _taggings(size: DatasetSize, random: Random) -> list[str]:
    weights = zipf_weights(len(TAGS), 0.9)
    numbers = range(1, len(TAGS) + 1)
    lines: list[str] = []
    for story in range(1, size.stories + 1):
        chosen = set(random.choices(numbers, cum_weights=weights, k=1 + story % 3))
        lines.extend(f"{story}\t{tag}\n" for tag in sorted(chosen))
    return lines
