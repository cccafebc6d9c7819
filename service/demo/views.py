"""The views of the demo: the SQL behind the pages of a news site, as an application would write it.

Every order is total, so that an answer can be compared row by row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from service.demo.dataset import TAGS, DatasetSize, user_name

#: Draws a parameter's value, popular ones more often.
Draw = Callable[[Random, DatasetSize], str]


@dataclass(frozen=True, slots=True)
class DemoView:
    """A view, what it is for, and what its readers ask for."""

    name: str
    purpose: str
    sql: str
    #: The parameter, and the value that the printed ``curl`` line has; None for a view without parameters.
    example: tuple[str, str] | None
    draw: Draw | None

    def parameters(self, random: Random, size: DatasetSize) -> dict[str, str]:
        """Parameters that some reader might send."""
        if self.example is None or self.draw is None:
            return {}
        return {self.example[0]: self.draw(random, size)}

    @property
    def example_parameters(self) -> dict[str, str]:
        """The parameters of the printed ``curl`` line."""
        return dict([self.example]) if self.example else {}


def draw_story(random: Random, size: DatasetSize) -> str:
    """Some story; the low numbers are those that people talk about."""
    return str(_popular(random, size.stories))


def draw_user(random: Random, size: DatasetSize) -> str:
    """Some user; the busiest are looked up most."""
    return user_name(_popular(random, size.users) - 1)


def draw_tag(random: Random, _: DatasetSize) -> str:
    """Some tag; the common ones are read most."""
    return TAGS[_popular(random, len(TAGS)) - 1]


def _popular(random: Random, count: int) -> int:
    """A number from 1 to `count`, the low ones more often and none never."""
    return (int(random.paretovariate(0.4)) - 1) % count + 1


VIEWS = (
    DemoView(
        name="story_with_votes",
        purpose="a story and its number of votes",
        sql="""
SELECT s.id, s.title, s.author, COUNT(v.user_id) AS votes
FROM stories s
LEFT JOIN votes v ON v.story_id = s.id
WHERE s.id = :id
GROUP BY s.id, s.title, s.author
""",
        example=("id", "7"),
        draw=draw_story,
    ),
    DemoView(
        name="stories_of_author",
        purpose="an author's stories with their scores",
        sql="""
SELECT s.id, s.title, s.created_at, COALESCE(SUM(v.value), 0) AS score, COUNT(v.user_id) AS votes
FROM stories s
LEFT JOIN votes v ON v.story_id = s.id
WHERE s.author = :author AND NOT s.removed
GROUP BY s.id, s.title, s.created_at
ORDER BY s.created_at DESC, s.id DESC
""",
        example=("author", "elena"),
        draw=draw_user,
    ),
    DemoView(
        name="comments_of_story",
        purpose="the comments of a story with their authors",
        sql="""
SELECT c.id, c.parent_id, c.body, c.created_at, u.name AS author, u.display_name
FROM comments c
JOIN users u ON u.name = c.author
WHERE c.story_id = :story_id
ORDER BY c.created_at, c.id
""",
        example=("story_id", "7"),
        draw=draw_story,
    ),
    DemoView(
        name="karma",
        purpose="a user's karma: all votes on all stories",
        sql="""
SELECT u.name, u.display_name, COALESCE(SUM(v.value), 0) AS karma
FROM users u
LEFT JOIN stories s ON s.author = u.name
LEFT JOIN votes v ON v.story_id = s.id
WHERE u.name = :name
GROUP BY u.name, u.display_name
""",
        example=("name", "elena"),
        draw=draw_user,
    ),
    DemoView(
        name="stories_of_tag",
        purpose="the page of a tag, newest first",
        sql="""
SELECT s.id, s.title, s.author, s.score, s.created_at
FROM tags t
JOIN taggings g ON g.tag_id = t.id
JOIN stories s ON s.id = g.story_id
WHERE t.name = :tag AND NOT s.removed
ORDER BY s.created_at DESC, s.id DESC
LIMIT 25
""",
        example=("tag", "databases"),
        draw=draw_tag,
    ),
    DemoView(
        name="front_page",
        purpose="the best stories and how much they are talked about",
        sql="""
SELECT s.id, s.title, s.author, s.score, COUNT(c.id) AS comments
FROM stories s
LEFT JOIN comments c ON c.story_id = s.id
WHERE NOT s.removed
GROUP BY s.id, s.title, s.author, s.score
ORDER BY s.score DESC, s.id DESC
LIMIT 25
""",
        example=None,
        draw=None,
    ),
)
