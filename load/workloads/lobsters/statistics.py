"""Published statistics of the real site: frequencies of pages, and skew of stories, comments and people.

The site's administrator published the counts in March 2018 (https://lobste.rs/s/cqnzl5/, "lobste.rs access pattern
statistics for research purposes"). They are given here as the load generator of the thesis has them (jonhoo/trawler,
``data/*.dat``), and its assumptions are taken over: who votes much also visits, comments and submits much, and a story
with many votes is viewed more.

A histogram is pairs of a bin and the number of items in it. The bins are *rounded* numbers, not floors: so read, people
cast 910,000 votes, and stories and comments received 919,000. With floors the two are far apart.
"""

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from random import Random

Bins = tuple[tuple[int, int], ...]

#: Requests of 100,000, by page (the thesis's Table 6.1 has them rounded).
PAGES: dict[str, int] = {
    "story": 55_842,
    "frontpage": 30_105,
    "user": 6_702,
    "comments": 4_674,
    "recent": 967,
    "comment_vote_up": 630,
    "story_vote_up": 475,
    "comment": 316,
    "login": 87,
    "reply": 71,
    "comment_vote_down": 54,
    "submit": 53,
    "story_vote_down": 21,
    "logout": 3,
}

VOTES_PER_STORY: Bins = (
    (0, 16_724),
    (10, 16_393),
    (20, 4_601),
    (30, 1_707),
    (40, 680),
    (50, 281),
    (60, 128),
    (70, 60),
    (80, 35),
    (90, 16),
    (100, 4),
    (110, 4),
    (120, 10),
    (130, 1),
    (140, 2),
    (160, 1),
    (210, 1),
    (250, 1),
    (290, 1),
)
COMMENTS_PER_STORY: Bins = (
    (0, 33_974),
    (10, 4_831),
    (20, 1_029),
    (30, 401),
    (40, 193),
    (50, 103),
    (60, 50),
    (70, 24),
    (80, 18),
    (90, 10),
    (100, 5),
    (110, 1),
    (120, 5),
    (130, 2),
    (140, 1),
    (150, 2),
    (170, 1),
)
VOTES_PER_COMMENT: Bins = (
    (0, 89_907),
    (10, 27_614),
    (20, 2_825),
    (30, 637),
    (40, 177),
    (50, 61),
    (60, 29),
    (70, 6),
    (80, 5),
    (90, 5),
    (100, 3),
    (150, 1),
)
VOTES_PER_USER: Bins = (
    (0, 4_439),
    (100, 562),
    (200, 206),
    (300, 131),
    (400, 92),
    (500, 45),
    (600, 28),
    (700, 31),
    (800, 29),
    (900, 32),
    (1000, 14),
    (1100, 23),
    (1200, 18),
    (1300, 18),
    (1400, 13),
    (1500, 10),
    (1600, 3),
    (1700, 7),
    (1800, 8),
    (1900, 6),
    (2000, 3),
    (2100, 3),
    (2200, 4),
    (2300, 6),
    (2400, 4),
    (2500, 2),
    (2600, 3),
    (2700, 2),
    (2800, 2),
    (2900, 3),
    (3000, 2),
    (3100, 3),
    (3200, 2),
    (3300, 2),
    (3400, 1),
    (3600, 1),
    (3800, 1),
    (3900, 1),
    (4000, 1),
    (4100, 3),
    (4200, 1),
    (4300, 6),
    (4400, 1),
    (4500, 2),
    (4600, 1),
    (4800, 1),
    (5000, 1),
    (5100, 1),
    (5400, 1),
    (5500, 1),
    (5800, 2),
    (5900, 1),
    (6000, 1),
    (6400, 2),
    (6800, 1),
    (7100, 1),
    (7700, 1),
    (8400, 1),
    (8700, 1),
    (8900, 1),
    (10_100, 1),
    (10_900, 1),
    (13_500, 1),
    (14_500, 1),
    (15_100, 1),
)

#: Of the accounts, some 5,800 have voted; the others exist, and visit no page.
USERS = 9_200


def values(bins: Bins, width: int, scale: float) -> list[int]:
    """One value an item, rising: those of a bin are spread over it evenly; in the lowest, 0 is as likely as any."""
    spread: list[int] = []
    for middle, count in bins:
        items = round(count * scale)
        low, high = max(0, middle - width // 2), middle + width // 2
        spread += [low + (high - low) * i // items for i in range(items)]
    return spread


class Popularity:
    """Draws ids from 1 on, each as often as its weight says."""

    def __init__(self, weights: Sequence[float]) -> None:
        self._cumulative = list(accumulate(weights))

    def draw(self, random: Random) -> int:
        return bisect(self._cumulative, random.random() * self._cumulative[-1]) + 1
