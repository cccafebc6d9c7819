"""Lobsters' first rows, small, and its writes: the natural queries' distinct ones, translated, with random values.

One seed is one site and one history. Beside the site's own writes, moderators' and users' changes that its other code
makes: rows are deleted, updated and moved between keys too.
"""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from random import Random

from tests.sql.corpus_file import CorpusFile, Step, read_corpus_file

STORIES, COMMENTS, USERS, TAGS = 70, 60, 8, 6
_DAY = "timestamp '2024-01-01' + ({}) * interval '1 minute'"

#: The original, and what it is here. `{name}` is a random value, see `Site.values`.
WRITES = (
    (
        "INSERT INTO `comments` (`created_at`, `updated_at`, `short_id`, `story_id`, `user_id`, `parent_comment_id`,"
        " `thread_id`, `comment`, `markeddown_comment`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "INSERT INTO comments (created_at, updated_at, short_id, story_id, user_id, parent_comment_id, thread_id,"
        " comment, markeddown_comment) VALUES ({now}, {now}, {new_comment}, {story}, {user}, {comment}, {comment},"
        " 'a reply', '<p>a reply</p>')",
    ),
    (
        "INSERT INTO `comments` (`created_at`, `updated_at`, `short_id`, `story_id`, `user_id`, `comment`,"
        " `markeddown_comment`) VALUES (?, ?, ?, ?, ?, ?, ?)",
        "INSERT INTO comments (created_at, updated_at, short_id, story_id, user_id, comment, markeddown_comment)"
        " VALUES ({now}, {now}, {new_comment}, {story}, {user}, 'a comment', '<p>a comment</p>')",
    ),
    (
        "INSERT INTO `votes` (`user_id`, `story_id`, `comment_id`, `vote`) VALUES (?, ?, ?, ?)",
        "INSERT INTO votes (user_id, story_id, comment_id, vote) VALUES ({user}, {story}, {comment}, {vote})",
    ),
    (
        "INSERT INTO `read_ribbons` (`created_at`, `updated_at`, `user_id`, `story_id`) VALUES (?, ?, ?, ?)",
        "INSERT INTO read_ribbons (created_at, updated_at, user_id, story_id) VALUES ({now}, {now}, {user}, {story})",
    ),
    (
        "UPDATE `read_ribbons` SET `read_ribbons`.`updated_at` = ? WHERE `read_ribbons`.`id` = ?",
        "UPDATE read_ribbons SET updated_at = {now} WHERE id = {ribbon}",
    ),
    (
        "INSERT INTO `votes` (`user_id`, `story_id`, `vote`) VALUES (?, ?, ?)",
        "INSERT INTO votes (user_id, story_id, vote) VALUES ({user}, {story}, {vote})",
    ),
    (
        "INSERT INTO `stories` (`created_at`, `user_id`, `title`, `description`, `short_id`, `markeddown_description`)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        "INSERT INTO stories (created_at, user_id, title, description, short_id, markeddown_description)"
        " VALUES ({now}, {user}, 'a story', 'to be read', {new_story}, '<p>to be read</p>')",
    ),
    (
        "INSERT INTO `taggings` (`story_id`, `tag_id`) VALUES (?, ?)",
        "INSERT INTO taggings (story_id, tag_id) VALUES ({story}, {tag}) ON CONFLICT DO NOTHING",
    ),
    (
        "UPDATE keystores SET value = 100 WHERE keystores.key = 'traffic:hits'",
        "UPDATE keystores SET value = 100 WHERE keystores.key = 'traffic:hits'",
    ),
    (
        "UPDATE keystores SET value = 1521590012 WHERE keystores.key = 'traffic:date'",
        "UPDATE keystores SET value = 1521590012 WHERE keystores.key = 'traffic:date'",
    ),
    ("INSERT INTO `users` (`username`) VALUES (?)", "INSERT INTO users (username) VALUES ({new_user})"),
)

OTHER_WRITES = (
    "UPDATE comments SET is_deleted = 1 - is_deleted WHERE id = {comment}",
    "UPDATE comments SET story_id = {story}, user_id = {user} WHERE id = {comment}",
    "DELETE FROM comments WHERE id = {comment}",
    "UPDATE stories SET is_expired = 1 - is_expired WHERE id = {story}",
    "UPDATE stories SET merged_story_id = {story_or_null} WHERE id = {story}",
    "UPDATE stories SET user_id = {user} WHERE id = {story}",
    "DELETE FROM stories WHERE id = {story}",
    "UPDATE votes SET vote = 1 - vote WHERE id = {number}",
    "UPDATE votes SET story_id = {story}, comment_id = NULL WHERE id = {number}",
    "DELETE FROM votes WHERE id = {number}",
    "DELETE FROM taggings WHERE story_id = {story}",
    "UPDATE taggings SET tag_id = tag_id + 100 WHERE id = {number}",
    "UPDATE tags SET hotness_mod = hotness_mod + 1, inactive = 1 - inactive WHERE id = {tag}",
    "INSERT INTO hidden_stories (user_id, story_id) VALUES ({user}, {story}) ON CONFLICT DO NOTHING",
    "DELETE FROM hidden_stories WHERE user_id = {user}",
    "INSERT INTO saved_stories (created_at, updated_at, user_id, story_id) VALUES ({now}, {now}, {user}, {story})"
    " ON CONFLICT DO NOTHING",
    "INSERT INTO tag_filters (created_at, updated_at, user_id, tag_id) VALUES ({now}, {now}, {user}, {tag})",
    "INSERT INTO suggested_titles (story_id, user_id, title) VALUES ({story}, {user}, 'better')",
    "DELETE FROM suggested_taggings WHERE story_id = {story}",
    "DELETE FROM hats WHERE user_id = {user}",
    "UPDATE users SET karma = karma + 1 WHERE id = {user}",
    "UPDATE read_ribbons SET is_following = 1 - is_following WHERE id = {ribbon}",
)

FIRST_ROWS = f"""
TRUNCATE users, tags, stories, comments, votes, taggings, hidden_stories, saved_stories, read_ribbons, tag_filters,
    suggested_titles, suggested_taggings, hats, keystores RESTART IDENTITY;
INSERT INTO users (username, karma) SELECT 'user' || i, i FROM generate_series(1, {USERS}) i;
INSERT INTO tags (tag, hotness_mod) VALUES ('test', 1);
INSERT INTO tags (tag, hotness_mod) SELECT 'tag' || i, i % 3 - 1 FROM generate_series(2, {TAGS}) i;
INSERT INTO stories (created_at, user_id, title, short_id, is_expired, merged_story_id)
    SELECT {_DAY.format("i")}, 1 + i % {USERS}, 'story ' || i, 's' || i, (i % 9 = 0)::int,
        CASE WHEN i % 11 = 0 THEN 1 + i % 7 END
    FROM generate_series(1, {STORIES}) i;
INSERT INTO comments (created_at, short_id, story_id, user_id, parent_comment_id, comment, is_moderated)
    SELECT {_DAY.format("100 + i")}, 'c' || i, 1 + (i + 1) / 2 * 7 % 10, 1 + i % {USERS},
        CASE WHEN i % 2 = 0 THEN i - 1 END, 'comment ' || i, (i % 13 = 0)::int
    FROM generate_series(1, {COMMENTS}) i;
INSERT INTO votes (user_id, story_id, comment_id, vote)
    SELECT 1 + i % {USERS}, CASE WHEN i % 5 > 0 THEN 1 + i % 10 ELSE 1 + i * i % {STORIES} END,
        CASE WHEN i % 3 = 0 THEN 1 + i % 14 END, (i % 4 > 0)::int
    FROM generate_series(1, 200) i;
INSERT INTO taggings (story_id, tag_id) SELECT i, 1 + i * 5 % {TAGS} FROM generate_series(1, {STORIES}) i;
INSERT INTO hidden_stories (user_id, story_id) SELECT 1 + i % {USERS}, i FROM generate_series(1, 20) i;
INSERT INTO saved_stories (created_at, updated_at, user_id, story_id)
    SELECT {_DAY.format("i")}, {_DAY.format("i")}, 1 + i % {USERS}, i FROM generate_series(1, 20) i;
INSERT INTO read_ribbons (created_at, updated_at, user_id, story_id)
    SELECT {_DAY.format("i")}, {_DAY.format("i")}, 1 + i % {USERS}, 1 + i % 10 FROM generate_series(1, 30) i;
INSERT INTO tag_filters (created_at, updated_at, user_id, tag_id)
    SELECT {_DAY.format("i")}, {_DAY.format("i")}, 1 + i % {USERS}, 1 + i % {TAGS} FROM generate_series(1, 12) i;
INSERT INTO suggested_titles (story_id, user_id, title) SELECT i, 1 + i % {USERS}, 't' FROM generate_series(1, 10) i;
INSERT INTO suggested_taggings (story_id, tag_id, user_id) SELECT i, 1, 1 + i % {USERS} FROM generate_series(1, 10) i;
INSERT INTO hats (user_id, hat) VALUES (1, 'red'), (1, 'blue'), (2, 'green');
INSERT INTO keystores VALUES ('traffic:date', 1), ('traffic:hits', 2);
"""


_VOTES_ON_COMMENTS = "UPDATE votes SET story_id = NULL WHERE comment_id IS NOT NULL AND story_id IS NOT NULL"


class Site:
    """A seeded history."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._made = 0

    def transactions(self, number: int) -> Iterator[str]:
        """So many transactions of a few statements each; every one of `WRITES` comes early."""
        own = [translated for _, translated in WRITES]
        for i in range(number):
            statements = own[4 * i : 4 * i + 4] or self._rng.choices([*own, *OTHER_WRITES], k=self._rng.randint(1, 4))
            statements = [*statements, self._rng.choice(OTHER_WRITES)]
            yield ";\n".join(self._filled(statement) for statement in statements)

    def _filled(self, statement: str) -> str:
        self._made += 1
        draw = self._rng.randint
        story = str(draw(1, 10) if draw(0, 2) else draw(1, STORIES))
        return statement.format(
            now=_DAY.format(draw(0, 400)),
            story=story,
            story_or_null=self._rng.choice(["NULL", str(draw(1, 7))]),
            user=draw(1, USERS),
            comment=draw(1, 14) if draw(0, 2) else draw(1, COMMENTS),
            tag=draw(1, TAGS),
            ribbon=draw(1, 30),
            number=draw(1, 200),
            vote=draw(0, 1),
            new_comment=f"'c{COMMENTS + self._made}'",
            new_story=f"'s{STORIES + self._made}'",
            new_user=f"'new{self._made}'",
        )


def lobsters(seed: int, transactions: int, repaired: bool = False) -> CorpusFile:
    """The reads, the first rows, and a history of so many transactions.

    As published no comment has a score, and nobody a notification: both need a vote without a story, which the schema
    does not allow. `repaired`: it does, and votes on comments have none.
    """
    then = f";\n{_VOTES_ON_COMMENTS}" if repaired else ""
    first = f"ALTER TABLE votes ALTER story_id DROP NOT NULL; {FIRST_ROWS}" if repaired else FIRST_ROWS
    file = read_corpus_file(Path(__file__).parent / "reads.test")
    file.setup.append(Step(first + then, 0))
    file.steps += [Step(sql + then, number) for number, sql in enumerate(Site(seed).transactions(transactions), 1)]
    return file


def schema() -> bytes:
    """Tables and views."""
    return files("load.workloads.lobsters").joinpath("schema.sql").read_bytes()
