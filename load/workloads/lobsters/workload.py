"""Visitors of the site: frequencies of pages, their visitors and their subjects (`statistics` has the numbers and their
source)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random, SystemRandom

from load.driver.visit import Visit, VisitSource
from load.workloads.lobsters import pages
from load.workloads.lobsters.dataset import LobstersSite, LobstersSize, site
from load.workloads.lobsters.pages import Page, Visitor
from load.workloads.lobsters.statistics import PAGES, Popularity

#: Letters of new stories and comments: beyond those of the data set, below six digits to the base 36.
_FIRST_NEW, _LAST_NEW = 10_000_000, 36**6 - 10_000_000

_VISITS: Mapping[str, Page] = {
    "story": pages.story,
    "frontpage": pages.frontpage,
    "user": pages.user,
    "comments": pages.comments,
    "recent": pages.recent,
    "comment_vote_up": pages.vote_on_comment(1),
    "story_vote_up": pages.vote_on_story(1),
    "comment": pages.comment,
    "login": pages.login,
    "reply": pages.reply,
    "comment_vote_down": pages.vote_on_comment(0),
    "submit": pages.submit,
    "story_vote_down": pages.vote_on_story(0),
}
#: Asks for nothing, so that there is nothing to measure.
_NOTHING = "logout"


@dataclass(frozen=True, slots=True)
class LobstersSpec:
    """The workload of a site of some size. `only`: one page, for profiles of it."""

    size: LobstersSize = field(default_factory=LobstersSize)
    only: str | None = None

    def start(self, process: int, processes: int) -> VisitSource:
        return Lobsters(site(self.size), process, processes, self.only)


class Lobsters:
    def __init__(self, of: LobstersSite, process: int, processes: int, only: str | None = None) -> None:
        names = [name for name in PAGES if name != _NOTHING and only in (None, name)]
        self._site = of
        self._names = names
        self._pages = Popularity([PAGES[name] for name in names])
        # Not of the run's seed: several runs write into one database.
        start = SystemRandom().randrange(_FIRST_NEW, _LAST_NEW)
        self._new = start - start % processes + process
        self._step = processes

    def visit(self, random: Random) -> tuple[str, Visit]:
        """People who vote much visit much, and stories with many votes are viewed more."""
        name = self._names[self._pages.draw(random) - 1]
        visitor = Visitor(self._site.users.draw(random), self._about(name, random), self._next_new())
        return name, _VISITS[name](visitor)

    def _about(self, name: str, random: Random) -> int:
        if name in ("story", "story_vote_up", "story_vote_down"):
            return self._site.stories.draw(random)
        if name in ("comment", "reply"):
            return self._site.stories_to_comment.draw(random)
        if name in ("comment_vote_up", "comment_vote_down"):
            return self._site.comments.draw(random)
        return self._site.users.draw(random) if name == "user" else 0

    def _next_new(self) -> int:
        self._new += self._step
        return self._new
