"""A site of a few rows with every kind of read and write that sides must agree on."""

import psycopg

from load.site import SiteDefinition, SiteView, SiteWrite

STORIES = 20

SITE = SiteDefinition(
    name="small",
    schema_sql="""
        CREATE TABLE stories (
            id bigint PRIMARY KEY, title text NOT NULL, author varchar(20) NOT NULL,
            created_at timestamp NOT NULL, seen_at timestamptz NOT NULL, hotness numeric(20, 10) NOT NULL,
            is_hidden boolean NOT NULL DEFAULT false
        );
        CREATE TABLE votes (user_id bigint NOT NULL, story_id bigint NOT NULL, PRIMARY KEY (user_id, story_id));
        CREATE INDEX ON votes (story_id);
        CREATE INDEX ON stories (author);
    """,
    views=(
        SiteView(
            "story_with_votes",
            "SELECT s.id, s.title, COUNT(v.user_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id"
            " WHERE s.id = :id GROUP BY s.id, s.title",
            {"id": "bigint"},
        ),
        SiteView(
            "votes_of",
            "SELECT votes.story_id, votes.user_id FROM votes WHERE votes.story_id IN (:stories)",
            {"stories": "bigint[]"},
        ),
        SiteView("stories_by_id", "SELECT stories.* FROM stories WHERE stories.id IN (:ids)", {"ids": "bigint[]"}),
        SiteView(
            "stories_of",
            "SELECT id, title, created_at FROM stories WHERE author = :author"
            " ORDER BY created_at DESC, id DESC LIMIT 5",
            {"author": "text"},
        ),
        SiteView("newest", "SELECT id, title FROM stories WHERE NOT is_hidden ORDER BY id DESC LIMIT 3", {}),
        SiteView(
            "has_voted",
            "SELECT 1 AS one FROM votes WHERE user_id = :user AND story_id = :story",
            {"user": "bigint", "story": "bigint"},
        ),
    ),
    writes=(
        SiteWrite(
            "vote",
            ("INSERT INTO votes (user_id, story_id) VALUES (:user, :story) ON CONFLICT DO NOTHING",),
            {"user": "bigint", "story": "bigint"},
            (
                ("story_with_votes", {"id": ":story"}),
                ("has_voted", {"user": ":user", "story": ":story"}),
                ("votes_of", {"stories": ":story"}),
            ),
        ),
        SiteWrite(
            "submit",
            (
                "INSERT INTO stories (id, title, author, created_at, seen_at, hotness)"
                " VALUES (:id, :title, :author, '2024-02-01 12:00:00.25', '2024-02-01 12:00:00+00', -1.50)",
                "INSERT INTO votes (user_id, story_id) VALUES (:user, :id)",
            ),
            {"id": "bigint", "title": "text", "author": "text", "user": "bigint"},
            (
                ("story_with_votes", {"id": ":id"}),
                ("stories_of", {"author": ":author"}),
                ("newest", {}),
                ("has_voted", {"user": ":user", "story": ":id"}),
                ("votes_of", {"stories": ":id"}),
            ),
        ),
    ),
)


def load_rows(url: str) -> None:
    """Its first rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO stories (id, title, author, created_at, seen_at, hotness)"
            " SELECT n, 'story ' || n, CASE WHEN n %% 2 = 0 THEN 'ann' ELSE 'o''brien' END,"
            " timestamp '2024-01-01' + n * interval '1 hour 0.5 s', timestamptz '2024-01-01 00:00+00' + n * interval"
            " '1 s', n / 7.0 FROM generate_series(1, %s) n",
            [STORIES],
        )
        connection.execute("INSERT INTO votes SELECT u, s FROM generate_series(1, 4) u, generate_series(1, 10) s")
