-- The tables that all files of the corpus share. `data.test` fills them, `changes.test` changes them.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE users (
    id int PRIMARY KEY, name text, email varchar(40), rating numeric, karma int NOT NULL DEFAULT 0, mood mood,
    invited_by int, joined date, active boolean
);
CREATE TABLE sections (code char(6) PRIMARY KEY, label varchar(20), parent char(6));
CREATE TABLE stories (
    id bigint PRIMARY KEY, author_id int, section char(6), title text, score int, price numeric, weight float8,
    flagged boolean, created_at timestamptz, published date, extra jsonb
);
CREATE TABLE votes (
    story_id bigint NOT NULL, user_id int NOT NULL, value smallint, at timestamp, PRIMARY KEY (story_id, user_id)
);
CREATE TABLE comments (
    id int PRIMARY KEY, story_id bigint, user_id int, parent_id int, body text, points int, share numeric(8, 3),
    at timestamp
);
-- No primary key, and rows that are there twice.
CREATE TABLE tags (story_id bigint, tag text, note text);
CREATE TABLE follows (user_id int, other_id int, since date);
-- Without rows at first.
CREATE TABLE events (id bigint, user_id int, story_id bigint, kind text, amount numeric, took float8, at timestamptz);
-- One column of each type.
CREATE TABLE vals (
    id int PRIMARY KEY, grp int, i2 smallint, i4 int, i8 bigint, n numeric, n2 numeric(10, 2), f4 real, f8 double precision,
    t text, v varchar(12), c char(5), b boolean, d date, tm time, ts timestamp, tz timestamptz, iv interval, u uuid,
    by bytea, j json, jb jsonb, a int[], ta text[], m mood
);
CREATE INDEX ON stories (author_id);
CREATE INDEX ON stories (section, score, id);
CREATE INDEX ON comments (story_id);
CREATE INDEX ON comments (user_id);
CREATE INDEX ON votes (user_id);
CREATE INDEX ON tags (story_id);
CREATE INDEX ON tags (tag);
CREATE INDEX ON follows (user_id);
CREATE INDEX ON events (story_id);
CREATE INDEX ON vals (grp);
ALTER TABLE users REPLICA IDENTITY FULL;
ALTER TABLE sections REPLICA IDENTITY FULL;
ALTER TABLE stories REPLICA IDENTITY FULL;
ALTER TABLE votes REPLICA IDENTITY FULL;
ALTER TABLE comments REPLICA IDENTITY FULL;
ALTER TABLE tags REPLICA IDENTITY FULL;
ALTER TABLE follows REPLICA IDENTITY FULL;
ALTER TABLE events REPLICA IDENTITY FULL;
ALTER TABLE vals REPLICA IDENTITY FULL;
-- Views of the upstream.
CREATE VIEW active_users AS SELECT id, name, karma FROM users WHERE active;
CREATE VIEW story_votes AS SELECT story_id, count(*) AS votes, sum(value) AS total FROM votes GROUP BY story_id;
CREATE VIEW story_cards AS
    SELECT s.id, s.title, s.author_id, u.name AS author, v.votes, v.total
    FROM stories s LEFT JOIN users u ON u.id = s.author_id LEFT JOIN story_votes v ON v.story_id = s.id;
CREATE VIEW activity AS
    SELECT user_id, 'vote' AS kind, story_id FROM votes
    UNION ALL SELECT user_id, 'comment', story_id FROM comments;
CREATE VIEW story_tags AS SELECT DISTINCT story_id, tag FROM tags;
CREATE VIEW tag_counts (tag, stories) AS SELECT tag, count(DISTINCT story_id) FROM tags GROUP BY tag;
CREATE VIEW best_stories AS SELECT id, author_id, score FROM stories WHERE score IS NOT NULL ORDER BY score DESC, id LIMIT 5;
