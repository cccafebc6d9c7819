-- The tables that all files of MariaDB's corpus share: those of PostgreSQL's, in its types. The collation of the
-- database is case-insensitive; some columns have others.
CREATE TABLE users (
    id int PRIMARY KEY, name varchar(40), email varchar(40), rating decimal(6,2), karma int NOT NULL DEFAULT 0,
    mood enum('sad','ok','happy'), invited_by int, joined date, active boolean
);
CREATE TABLE sections (code char(6) PRIMARY KEY, label varchar(20), parent char(6));
CREATE TABLE stories (
    id bigint PRIMARY KEY, author_id int, section char(6), title varchar(80), score int, price decimal(12,3),
    weight double, flagged boolean, created_at datetime(1), published date, extra json,
    KEY (author_id), KEY (section, score, id)
);
CREATE TABLE votes (
    story_id bigint NOT NULL, user_id int NOT NULL, value smallint, at datetime, PRIMARY KEY (story_id, user_id),
    KEY (user_id)
);
CREATE TABLE comments (
    id int PRIMARY KEY, story_id bigint, user_id int, parent_id int, body text, points int, share decimal(8,3),
    at timestamp NULL, KEY (story_id), KEY (user_id)
);
-- No primary key, and rows that are there twice.
CREATE TABLE tags (
    story_id bigint, tag varchar(20), note varchar(20) COLLATE utf8mb4_nopad_bin, KEY (story_id), KEY (tag)
);
CREATE TABLE follows (user_id int, other_id int, since date, KEY (user_id));
-- Without rows at first.
CREATE TABLE events (
    id bigint, user_id int, story_id bigint, kind varchar(10) COLLATE utf8mb4_bin, amount decimal(10,2), took double,
    at datetime(3), KEY (story_id)
);
-- One column of each type.
CREATE TABLE vals (
    id int PRIMARY KEY, grp int, i1 tinyint, i2 smallint unsigned, i3 mediumint, i4 int unsigned, i8 bigint,
    u8 bigint unsigned, n2 decimal(10,2), n0 decimal(20,0), f4 float, f8 double, t text COLLATE utf8mb4_unicode_ci,
    v varchar(12), c char(5), lt varchar(12) CHARACTER SET latin1, b boolean, bits bit(10), d date, tm time(2),
    dt datetime(6), ts timestamp(3) NULL, y year, e enum('small','medium','large'), s set('x','y','z'),
    bin varbinary(8), fixed binary(4), u uuid, ip inet6, j json, KEY (grp)
);
CREATE VIEW active_users AS SELECT id, name, karma FROM users WHERE active;
CREATE VIEW story_votes AS SELECT story_id, COUNT(*) AS votes, SUM(value) AS total FROM votes GROUP BY story_id;
CREATE VIEW story_cards AS
    SELECT s.id, s.title, s.author_id, u.name AS author, v.votes, v.total
    FROM stories s LEFT JOIN users u ON u.id = s.author_id LEFT JOIN story_votes v ON v.story_id = s.id;
CREATE VIEW story_tags AS SELECT DISTINCT story_id, tag FROM tags;
CREATE VIEW tag_counts (tag, stories) AS SELECT tag, COUNT(DISTINCT story_id) FROM tags GROUP BY tag;
