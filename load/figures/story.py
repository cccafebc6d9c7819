"""One view of the demo's site, for the sides that it is compared with."""

from load.figures.demo_site import DemoSite
from load.sides.side import Side, UpstreamDatabase
from load.site import SiteDefinition, SiteView

VIEW = "story_with_votes"
STORY_SQL = """
SELECT s.id, s.title, s.author, COUNT(v.user_id) AS votes
FROM stories s LEFT JOIN votes v ON v.story_id = s.id
WHERE s.id = :id GROUP BY s.id, s.title, s.author
"""
SITE = SiteDefinition("demo", "", (SiteView(VIEW, STORY_SQL, {"id": "bigint"}),), ())


def upstream_of(site: DemoSite) -> UpstreamDatabase:
    return UpstreamDatabase(site.database, site.database_processes)


def story_url(side: Side, story: int) -> str:
    """URL of a story at a side."""
    return f"{side.reads_url}/v1/views/{VIEW}?id={story}"
