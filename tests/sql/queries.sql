-- Each is planned, computed from the plan by the oracle, and compared with the same SQL on the server.
-- Where there is an ORDER BY it is total.

-- one table
SELECT * FROM users;
SELECT id, name FROM users WHERE id = :id;
SELECT title, score + 1 AS more, -score AS less, id FROM stories WHERE author_id = :author ORDER BY score DESC, id;
SELECT id FROM stories WHERE score BETWEEN 1 AND 2 OR score IS NULL ORDER BY score NULLS FIRST, id DESC;
SELECT s.id, s.id, s.title AS id FROM stories s WHERE title LIKE 'a%' AND NOT removed;
SELECT id, CASE WHEN score > 1 THEN 'high' WHEN score IS NULL THEN 'none' ELSE title END AS kind FROM stories;
SELECT id, COALESCE(title, 'untitled') || '!' AS t FROM stories WHERE removed IS NOT TRUE ORDER BY 2, 1 LIMIT 3 OFFSET 1;
SELECT id, weight * 2 AS w2, weight - 1.50 AS less, weight::int8 AS whole FROM comments WHERE id = :id AND user_id = :u;
SELECT id FROM stories WHERE author_id = :a AND author_id = :b;
SELECT id FROM stories WHERE author_id = :a AND score = :a;
SELECT id FROM stories WHERE :p = price;
SELECT id FROM stories WHERE score + 1 = :n;
SELECT id FROM stories WHERE price IN (1, 2.50, NULL) OR title NOT IN ('a', 'b');
SELECT name FROM users WHERE mood = 'ok' OR mood <> 'sad' ORDER BY mood DESC, id;
SELECT id FROM users WHERE mood = :mood;
SELECT id FROM comments WHERE at >= '2024-01-01' AND at < timestamptz '2025-01-01' ORDER BY at DESC NULLS LAST, id;
SELECT id, score IS DISTINCT FROM 1 AS odd, NULLIF(score, 0) AS nz, length(title) FROM stories WHERE 1 = 1;

-- GROUP BY over one table
SELECT story_id, COUNT(*) FROM votes GROUP BY story_id;
SELECT story_id, COUNT(*), COUNT(value), SUM(value), AVG(value), MIN(value), MAX(value) FROM votes WHERE story_id = :s GROUP BY story_id;
SELECT author_id, SUM(price), AVG(price), MIN(title), COUNT(price) AS n FROM stories GROUP BY author_id HAVING COUNT(*) > 1;
SELECT author_id AS a, SUM(score) + COUNT(*) AS s FROM stories WHERE title = :t GROUP BY a ORDER BY 2 DESC, a;
SELECT author_id, COUNT(*) FILTER (WHERE score > 0) AS pos, SUM(score) FILTER (WHERE removed) FROM stories GROUP BY 1;
SELECT COUNT(*) FROM votes;
SELECT COUNT(*), SUM(value), MIN(value) FROM votes WHERE story_id = :s;
SELECT SUM(value) FROM votes WHERE story_id = :s AND user_id = :u HAVING COUNT(*) > 0;
SELECT MAX(title), COUNT(*) + 1 AS n FROM stories WHERE author_id = :a AND removed = :r;
SELECT score > 1 AS high, COUNT(*) FROM stories GROUP BY score > 1 HAVING COUNT(*) = :n;
SELECT id, title, COUNT(*) FROM stories GROUP BY id;
SELECT author_id FROM stories GROUP BY author_id HAVING MAX(score) >= 2 ORDER BY author_id NULLS FIRST;
SELECT COUNT(*) FROM stories WHERE price = :p;
SELECT author_id, COUNT(*) FROM stories WHERE price = :p GROUP BY author_id;

-- joins
SELECT s.title, u.name FROM stories s JOIN users u ON u.id = s.author_id WHERE u.id = :u;
SELECT s.title, u.name FROM stories s, users u WHERE u.id = s.author_id AND s.id = :id;
SELECT c.id, s.title, u.name, a.name AS author FROM comments c JOIN stories s ON s.id = c.story_id JOIN users u ON u.id = c.user_id JOIN users a ON a.id = s.author_id WHERE u.name = :n AND s.score = :k;
SELECT c.id, p.id AS parent, g.id AS grand FROM comments c LEFT JOIN comments p ON p.id = c.parent_id LEFT JOIN comments g ON g.id = p.parent_id WHERE c.story_id = :s;
SELECT * FROM tags JOIN stories ON stories.id = tags.story_id WHERE tag = :t ORDER BY stories.id, tag;
SELECT t.*, s.title FROM tags t LEFT JOIN stories s ON s.id = t.story_id AND NOT s.removed AND s.score > 0;
SELECT s.id, t.id AS other FROM stories s LEFT JOIN stories t ON t.score + 1 = s.score WHERE s.id = :id;
SELECT s.id, t.id AS other FROM stories s LEFT JOIN stories t ON t.score + 1 = s.score - 1 AND t.id > s.id AND t.removed;
SELECT s.score, COUNT(v.value), SUM(v.user_id), COUNT(*) FROM stories s LEFT JOIN votes v ON v.value + 1 = s.score % 3 GROUP BY s.score;
SELECT s.id, c.id AS comment, u.id AS reader FROM stories s LEFT JOIN comments c ON c.id % 5 = s.score + 0 LEFT JOIN users u ON u.id = c.user_id + 1 WHERE s.author_id = :a;
SELECT s.id, u.id AS other FROM stories s, users u WHERE u.id + 1 = s.score AND s.author_id = :a;
SELECT s.id, t.id AS other, u.id AS reader FROM stories s JOIN stories t ON t.score + 1 = s.score * 2 JOIN users u ON abs(u.id) = t.author_id - 1;
SELECT s.score, COUNT(*) FROM stories s JOIN votes v ON v.value + 1 = s.score WHERE s.id <> v.user_id GROUP BY s.score;
SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE v.story_id IS NULL;
SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE v.value > 0;
SELECT s.id, v.value, u.name FROM stories s LEFT JOIN votes v ON v.story_id = s.id JOIN users u ON u.id = v.user_id WHERE s.author_id = :a;
SELECT s.id, u.name FROM stories s LEFT JOIN votes v ON v.story_id = s.id JOIN users u ON u.id = s.author_id WHERE v.value IS NULL OR u.name = 'b';
SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE v.user_id = :u;
SELECT id, user_id, body, value FROM comments JOIN votes USING (story_id, user_id);
SELECT * FROM tags LEFT JOIN tags t2 USING (story_id) WHERE story_id = :s;
SELECT a.id, b.id AS other FROM users a JOIN users b ON a.karma = b.karma WHERE a.id <> b.id AND a.id = :id;
SELECT a.id, b.id AS other, c.id AS third FROM stories a JOIN stories b ON a.author_id = b.author_id JOIN stories c ON c.score = a.score AND c.author_id = b.score WHERE a.id > b.id;
SELECT s.id, u.name, v.value FROM stories s JOIN users u ON u.id = s.author_id LEFT JOIN votes v ON v.story_id = s.id AND v.user_id = u.id;
SELECT s.id FROM stories s JOIN (users u JOIN votes v ON v.user_id = u.id) ON v.story_id = s.id WHERE u.id = :u;
SELECT c.id, COALESCE(p.body, 'top') AS of FROM comments c LEFT JOIN comments p ON c.parent_id = p.id WHERE COALESCE(p.body, 'x') <> 'y';
SELECT s.id, t.tag FROM stories s JOIN tags t ON t.story_id = s.id WHERE s.id = 3 AND t.tag > 'a';

-- eager aggregation
SELECT s.id, s.title, COUNT(v.story_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id, s.title;
SELECT s.id, s.title, s.price, COUNT(*), COUNT(v.value), SUM(v.value), AVG(v.value), MIN(v.value), MAX(v.value) FROM stories s LEFT JOIN votes v ON v.story_id = s.id GROUP BY s.id;
SELECT s.id, COUNT(*) AS rows, COUNT(v.value) AS v, COUNT(c.id) AS c, SUM(v.value), AVG(v.value), SUM(c.weight), AVG(c.weight) FROM stories s LEFT JOIN votes v ON v.story_id = s.id LEFT JOIN comments c ON c.story_id = s.id WHERE s.author_id = :a GROUP BY s.id ORDER BY s.id;
SELECT u.name, COALESCE(SUM(v.value), 0) AS karma FROM users u LEFT JOIN stories s ON s.author_id = u.id LEFT JOIN votes v ON v.story_id = s.id WHERE u.id = :u GROUP BY u.id, u.name;
SELECT u.id, COUNT(*), COUNT(s.id), COUNT(v.value), COUNT(c.id), SUM(v.value), AVG(v.value), SUM(s.price), AVG(s.price), SUM(c.weight), AVG(c.weight), MIN(v.value), MAX(c.body), MAX(s.score) FROM users u LEFT JOIN stories s ON s.author_id = u.id LEFT JOIN votes v ON v.story_id = s.id LEFT JOIN comments c ON c.story_id = s.id GROUP BY u.id;
SELECT s.author_id, COUNT(*), SUM(v.value), COUNT(v.value) FROM stories s JOIN votes v ON v.story_id = s.id GROUP BY s.author_id;
SELECT s.author_id, SUM(v.value * s.score) AS w, COUNT(t.tag) FROM stories s JOIN votes v ON v.story_id = s.id LEFT JOIN tags t ON t.story_id = s.id GROUP BY s.author_id;
SELECT v.story_id, COUNT(*), MAX(s.title) FROM votes v JOIN stories s ON s.id = v.story_id GROUP BY v.story_id;
SELECT t.tag, COUNT(*), SUM(s.score), AVG(s.price) FROM tags t JOIN stories s ON s.id = t.story_id WHERE t.tag = :t GROUP BY t.tag;
SELECT t.tag, COUNT(v.value) AS n, SUM(v.value) AS s FROM tags t JOIN stories s ON s.id = t.story_id LEFT JOIN votes v ON v.story_id = s.id GROUP BY t.tag HAVING COUNT(v.value) > 1 ORDER BY n DESC, t.tag;
SELECT COUNT(*), COUNT(v.value), SUM(v.value), AVG(c.weight) FROM stories s LEFT JOIN votes v ON v.story_id = s.id LEFT JOIN comments c ON c.story_id = s.id WHERE s.author_id = :a;
SELECT COUNT(*) FROM stories s JOIN votes v ON v.story_id = s.id;
SELECT s.id, SUM(COALESCE(v.value, 5)) AS padded, COUNT(CASE WHEN v.value > 0 THEN 1 END) AS ups, COUNT(1) FROM stories s LEFT JOIN votes v ON v.story_id = s.id GROUP BY s.id;
SELECT s.id, COUNT(*) FILTER (WHERE v.value > 0) AS ups, SUM(v.value) FILTER (WHERE v.user_id = 1) FROM stories s LEFT JOIN votes v ON v.story_id = s.id GROUP BY s.id;
SELECT s.id, COUNT(*) FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.value > 0 WHERE s.score IS NOT NULL GROUP BY s.id;
SELECT u.id, COUNT(*), SUM(k.weight) FROM users u JOIN comments k ON k.user_id = u.id JOIN stories s ON s.id = k.story_id GROUP BY u.id;
SELECT s.id, u.id AS who, COUNT(*) FROM stories s JOIN users u ON u.id = s.author_id GROUP BY s.id, u.id;
SELECT v.story_id, v.user_id, COUNT(c.id) FROM votes v LEFT JOIN comments c ON c.story_id = v.story_id AND c.user_id = v.user_id GROUP BY v.story_id, v.user_id;
SELECT p.id, COUNT(c.id), MAX(c.body) FROM comments p LEFT JOIN comments c ON c.parent_id = p.id WHERE p.story_id = :s GROUP BY p.id;
SELECT u.name, COUNT(*) FROM users u JOIN users w ON w.karma = u.karma WHERE u.karma = :k GROUP BY u.id, u.name;

-- derived tables and common table expressions
SELECT d.title, u.name FROM (SELECT title, author_id FROM stories WHERE score > 0) d JOIN users u ON u.id = d.author_id;
SELECT s.id, c.n FROM stories s LEFT JOIN (SELECT story_id, COUNT(*) AS n FROM votes GROUP BY story_id) c ON c.story_id = s.id WHERE s.id = :id;
SELECT s.id, c.n FROM stories s LEFT JOIN (SELECT story_id, COUNT(*) + 1 AS n FROM votes GROUP BY story_id HAVING COUNT(*) > 1) c ON c.story_id = s.id;
WITH counts AS (SELECT story_id, COUNT(*) AS n, SUM(value) AS v FROM votes GROUP BY story_id), tagged AS (SELECT t.tag, s.id, s.title FROM tags t JOIN stories s ON s.id = t.story_id) SELECT g.tag, g.title, c.n FROM tagged g JOIN counts c ON c.story_id = g.id WHERE g.tag = :t AND c.v > 0;
SELECT s.id, s.title FROM stories s LEFT JOIN (SELECT story_id, COUNT(*) AS n FROM votes GROUP BY story_id) c ON c.story_id = s.id LEFT JOIN users u ON u.id = s.author_id WHERE s.id = :id;
SELECT s.title, v.value FROM stories s LEFT JOIN users u ON u.id = s.author_id AND u.karma > s.score JOIN votes v ON v.story_id = s.id WHERE v.user_id = :u;
SELECT c.id, w.name FROM comments c LEFT JOIN stories s ON s.id = c.story_id LEFT JOIN users u ON u.id = c.user_id LEFT JOIN users w ON w.id = s.author_id;
SELECT n, COUNT(*) FROM (SELECT author_id, COUNT(*) AS n FROM stories GROUP BY author_id) d GROUP BY n;
SELECT u.id, d.total FROM users u LEFT JOIN (SELECT s.author_id, SUM(v.value) AS total FROM stories s JOIN votes v ON v.story_id = s.id GROUP BY s.author_id) d ON d.author_id = u.id;
SELECT u.id, d.id AS story, d.name FROM users u LEFT JOIN (SELECT s.id, s.author_id, w.name FROM stories s JOIN users w ON w.id = s.score) d ON d.author_id = u.id;
WITH s AS (SELECT id, author_id FROM stories WHERE id = :id) SELECT u.name, s.id FROM s JOIN users u ON u.id = s.author_id;
WITH s AS (SELECT author_id, COUNT(*) AS n FROM stories WHERE score = :k GROUP BY author_id) SELECT u.name, s.n FROM s JOIN users u ON u.id = s.author_id WHERE u.id = :u;
SELECT a.n AS x, b.n AS y FROM (SELECT story_id, COUNT(*) n FROM votes GROUP BY 1) a JOIN (SELECT story_id, COUNT(*) n FROM comments GROUP BY 1) b ON a.story_id = b.story_id;
SELECT * FROM (SELECT id AS x, title AS y FROM stories) AS d(a) WHERE a > 1;
SELECT s.id, d.b FROM stories s LEFT JOIN (SELECT c.story_id, COALESCE(p.body, 'none') AS b FROM comments c LEFT JOIN comments p ON p.id = c.parent_id) d ON d.story_id = s.id WHERE d.b IS NULL OR d.b = 'none';
SELECT d.id FROM (SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id) d WHERE d.value IS NULL;
SELECT d.id, u.id AS who FROM (SELECT s.id, v.user_id FROM stories s LEFT JOIN votes v ON v.story_id = s.id) d LEFT JOIN users u ON u.id = d.user_id;
SELECT author_id, best FROM (SELECT author_id, MAX(score) AS best FROM stories GROUP BY author_id) d WHERE author_id = :a AND best > 0;

-- USING and constants
SELECT * FROM comments JOIN votes USING (user_id, story_id) JOIN stories ON stories.id = story_id;
SELECT * FROM comments c LEFT JOIN comments d USING (body) LEFT JOIN comments e USING (body) WHERE c.story_id = :s;
SELECT s.id, COUNT(v.value), SUM(v.value) FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = 2 GROUP BY s.id;
SELECT s.id, v.user_id, c.body FROM stories s LEFT JOIN votes v ON v.story_id = s.id LEFT JOIN comments c ON c.story_id = v.story_id AND c.user_id = v.user_id WHERE s.id IN (1, 2) AND 2 > 1;
SELECT s.id, u.name FROM stories s JOIN users u ON u.id = s.author_id WHERE u.id >= 2 AND s.author_id < 3 AND true;
SELECT id FROM stories WHERE false;
SELECT 'x' AS t, NULL AS n, 1 AS one, COUNT(*) FROM votes GROUP BY 1;
SELECT story_id, user_id FROM votes GROUP BY story_id, user_id;
SELECT s.id, c.n FROM stories s LEFT JOIN (SELECT story_id, COUNT(*) AS n FROM votes GROUP BY story_id HAVING COUNT(*) > 1) c ON c.story_id = s.id;
SELECT c.id, u.name FROM comments c JOIN users u ON u.id = c.user_id AND u.id = c.parent_id;

-- DISTINCT
SELECT DISTINCT author_id FROM stories;
SELECT DISTINCT author_id, score FROM stories WHERE removed = :r ORDER BY score DESC, author_id NULLS FIRST;
SELECT DISTINCT price FROM stories ORDER BY price;
SELECT DISTINCT s.author_id, u.name FROM stories s JOIN users u ON u.id = s.author_id WHERE s.score = :k;
SELECT DISTINCT 1 AS one, removed FROM stories WHERE author_id = :a;
SELECT DISTINCT author_id FROM stories WHERE author_id IN (:list) ORDER BY 1;
SELECT DISTINCT COUNT(*) AS n FROM stories GROUP BY author_id;
SELECT DISTINCT COUNT(*) AS n FROM stories WHERE author_id = :a;
SELECT d.t, COUNT(*) FROM (SELECT DISTINCT title AS t, score FROM stories) d GROUP BY d.t;
SELECT DISTINCT author_id FROM stories WHERE score = :k ORDER BY author_id LIMIT 2;
SELECT DISTINCT title FROM stories WHERE title IS NOT NULL AND author_id = :a AND score = :k;
SELECT DISTINCT 'x' AS x FROM stories;

-- DISTINCT ON
SELECT DISTINCT ON (author_id) author_id, id, title FROM stories ORDER BY author_id, score DESC NULLS LAST, id;
SELECT DISTINCT ON (author_id) id FROM stories WHERE removed = :r ORDER BY author_id, id DESC;
SELECT DISTINCT ON (a, 2) author_id AS a, score AS s, id FROM stories ORDER BY s, a DESC, id;
SELECT d.id, u.name FROM (SELECT DISTINCT ON (author_id) author_id, id FROM stories ORDER BY author_id, id) d JOIN users u ON u.id = d.author_id;
SELECT DISTINCT ON (price) price, id FROM stories WHERE author_id = :a ORDER BY price DESC, id LIMIT 2;
SELECT DISTINCT ON (author_id) author_id, COUNT(*), score FROM stories GROUP BY author_id, score ORDER BY author_id, COUNT(*) DESC, score;
SELECT DISTINCT ON (author_id) author_id, id FROM stories WHERE author_id IN (:list) ORDER BY author_id, id;

-- groups of values with several texts
SELECT price, COUNT(*) FROM stories GROUP BY price ORDER BY price;
SELECT price, COUNT(*) FROM stories WHERE price = :p GROUP BY price;
SELECT MIN(price), MAX(price) FROM stories;
SELECT author_id, MIN(price), MAX(price) FROM stories WHERE author_id = :a GROUP BY author_id;
SELECT k, n FROM (SELECT karma AS k, COUNT(*) AS n FROM users GROUP BY karma) d WHERE k > 0;
SELECT u.karma, COUNT(*) FROM users u JOIN comments c ON c.weight = u.karma GROUP BY u.karma;
SELECT d.n FROM (SELECT price, COUNT(*) AS n FROM stories GROUP BY price) d WHERE d.price = :p;

-- aggregates
SELECT author_id, COUNT(DISTINCT score), COUNT(score), SUM(DISTINCT score), AVG(DISTINCT score) FROM stories GROUP BY author_id;
SELECT COUNT(DISTINCT title) FROM stories WHERE author_id = :a;
SELECT COUNT(DISTINCT price) FROM stories;
SELECT s.author_id, COUNT(DISTINCT v.user_id), COUNT(*) FROM stories s LEFT JOIN votes v ON v.story_id = s.id GROUP BY s.author_id;
SELECT author_id, string_agg(title, ', ' ORDER BY id) AS titles FROM stories GROUP BY author_id;
SELECT author_id, string_agg(title, '-' ORDER BY score DESC NULLS LAST, id) FILTER (WHERE score > 0) FROM stories WHERE author_id = :a GROUP BY author_id;
SELECT string_agg(tag, ',' ORDER BY tag) FROM tags WHERE story_id = :s;
SELECT string_agg(DISTINCT tag, ',' ORDER BY tag DESC) FROM tags;
SELECT array_agg(id ORDER BY score NULLS FIRST, id DESC), array_agg(title ORDER BY id) FILTER (WHERE removed) FROM stories;
SELECT author_id, array_agg(DISTINCT score ORDER BY score) FROM stories GROUP BY author_id;
SELECT stddev(score), stddev_pop(score), variance(score), var_pop(score) FROM stories WHERE author_id = :a;
SELECT bool_and(removed), bool_or(removed), every(score > 0) FROM stories WHERE author_id = :a;
SELECT author_id, bool_or(score > 1) AS some FROM stories GROUP BY author_id HAVING bool_and(NOT removed);
SELECT MIN(DISTINCT score), MAX(at), MIN(at), MAX(mood) FROM stories, comments, users WHERE stories.id = comments.story_id AND users.id = comments.user_id;
SELECT 1 AS one FROM stories HAVING COUNT(*) > 2;
SELECT author_id, COUNT(*) FROM stories GROUP BY author_id HAVING COUNT(*) > :n ORDER BY author_id;
SELECT author_id, score, COUNT(*) FROM stories WHERE removed = :r GROUP BY 1, 2 HAVING COUNT(*) >= :n AND score = :k;

-- UNION, INTERSECT, EXCEPT
SELECT id FROM stories UNION ALL SELECT story_id FROM votes;
SELECT id FROM stories UNION SELECT story_id FROM votes ORDER BY id DESC LIMIT 3;
SELECT id, NULL AS parent FROM stories UNION ALL SELECT id, parent_id FROM comments ORDER BY parent NULLS FIRST, id;
SELECT id, title, 'story' AS kind, 1 AS n FROM stories WHERE author_id = :u UNION ALL SELECT id, body, 'comment', 2 FROM comments WHERE user_id = :u ORDER BY id, n;
SELECT story_id FROM votes WHERE user_id = :u UNION SELECT story_id FROM comments WHERE user_id = :u;
SELECT id FROM stories INTERSECT SELECT story_id FROM votes;
SELECT author_id FROM stories EXCEPT SELECT user_id FROM votes ORDER BY 1;
SELECT author_id, score FROM stories EXCEPT SELECT user_id, parent_id FROM comments;
SELECT price FROM stories INTERSECT SELECT weight FROM comments;
SELECT id FROM users UNION ALL SELECT id FROM stories INTERSECT SELECT story_id FROM votes;
(SELECT id FROM users UNION ALL SELECT id FROM stories) INTERSECT SELECT story_id FROM votes;
SELECT id FROM users EXCEPT SELECT user_id FROM votes UNION ALL SELECT user_id FROM comments;
SELECT id FROM users EXCEPT (SELECT user_id FROM votes UNION SELECT user_id FROM comments);
SELECT author_id FROM stories EXCEPT ALL SELECT user_id FROM votes;
SELECT id, score IN (VALUES (1), (3)) AS x FROM stories WHERE title NOT IN (VALUES ('a'), ('')) OR (id, score) IN (VALUES (1, 2), (2, 1));
SELECT user_id FROM comments INTERSECT ALL SELECT user_id FROM votes;
SELECT score, author_id FROM stories WHERE author_id = :u EXCEPT ALL SELECT parent_id, user_id FROM comments WHERE user_id = :u;
SELECT price FROM stories INTERSECT ALL SELECT weight FROM comments;
SELECT user_id FROM comments EXCEPT ALL (SELECT user_id FROM votes INTERSECT ALL SELECT author_id FROM stories);
SELECT x.user_id, count(*) FROM (SELECT user_id FROM votes EXCEPT ALL SELECT user_id FROM comments) x GROUP BY 1;
(SELECT id FROM stories ORDER BY score DESC NULLS LAST, id LIMIT 2) UNION ALL (SELECT id FROM comments ORDER BY id OFFSET 1) ORDER BY 1;
SELECT d.id, u.name FROM (SELECT author_id AS id FROM stories UNION SELECT user_id FROM comments) d JOIN users u ON u.id = d.id WHERE d.id = :u;
WITH acts AS (SELECT id AS story, author_id AS who FROM stories UNION ALL SELECT story_id, user_id FROM comments) SELECT who, COUNT(*) FROM acts GROUP BY who;
WITH x AS (SELECT id FROM stories WHERE score > 0) SELECT id FROM x UNION SELECT story_id FROM votes WHERE value > 0;
SELECT d.who, d.n FROM (SELECT author_id AS who, COUNT(*) AS n FROM stories GROUP BY author_id UNION ALL SELECT user_id, COUNT(*) FROM comments GROUP BY user_id) d WHERE d.who = :u;
SELECT COUNT(*) FROM (SELECT id FROM stories UNION ALL SELECT id FROM comments) d;
SELECT COUNT(*) FROM stories UNION ALL SELECT COUNT(*) FROM comments;
SELECT id FROM stories WHERE id IN (:list) UNION SELECT story_id FROM votes WHERE story_id IN (:list);
SELECT score FROM stories WHERE score > :lo UNION ALL SELECT parent_id FROM comments WHERE parent_id > :lo;
SELECT score, price FROM stories UNION SELECT id, weight FROM comments;
SELECT score FROM stories UNION ALL SELECT weight FROM comments WHERE weight = 1;
SELECT title FROM stories UNION SELECT body FROM comments;
SELECT s.id, d.k FROM stories s LEFT JOIN (SELECT story_id, 'v' AS k FROM votes UNION SELECT story_id, 'c' FROM comments) d ON d.story_id = s.id;

-- window functions
SELECT id, row_number() OVER (ORDER BY score DESC NULLS LAST, id) AS n FROM stories ORDER BY n;
SELECT id, author_id, rank() OVER (PARTITION BY author_id ORDER BY score DESC), dense_rank() OVER (PARTITION BY author_id ORDER BY score DESC) FROM stories;
SELECT id, row_number() OVER (PARTITION BY score ORDER BY id) FROM stories WHERE author_id = :a;
SELECT id, SUM(score) OVER (PARTITION BY author_id ORDER BY id) AS running, COUNT(*) OVER (PARTITION BY author_id) AS whole FROM stories;
SELECT id, lag(title) OVER w, lead(title, 2, 'none') OVER w, first_value(score) OVER w, last_value(score) OVER w FROM stories WINDOW w AS (PARTITION BY author_id ORDER BY id);
SELECT id, AVG(score) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), MAX(score) OVER (ORDER BY id ROWS 2 PRECEDING) FROM stories;
SELECT id, nth_value(id, 2) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), ntile(2) OVER (ORDER BY id) FROM stories;
SELECT id, COUNT(*) OVER (ORDER BY score GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW), SUM(score) OVER (ORDER BY score) FROM stories;
SELECT id, COUNT(*) FILTER (WHERE removed) OVER (PARTITION BY author_id), row_number() OVER (PARTITION BY score ORDER BY id) FROM stories WHERE removed = :r;
SELECT author_id, COUNT(*), rank() OVER (ORDER BY COUNT(*) DESC), SUM(COUNT(*)) OVER () FROM stories GROUP BY author_id;
SELECT author_id, score, SUM(COUNT(*)) OVER (PARTITION BY author_id ORDER BY score) FROM stories GROUP BY author_id, score HAVING COUNT(*) > 0;
SELECT * FROM (SELECT id, author_id, row_number() OVER (PARTITION BY author_id ORDER BY score DESC NULLS LAST, id) AS n FROM stories) d WHERE n <= 2;
SELECT * FROM (SELECT id, author_id, row_number() OVER (PARTITION BY author_id ORDER BY score DESC NULLS LAST, id) AS n FROM stories) d WHERE n <= 2 AND author_id = :a;
SELECT d.id, u.name FROM (SELECT id, author_id, rank() OVER (PARTITION BY author_id ORDER BY score) AS r FROM stories) d JOIN users u ON u.id = d.author_id WHERE d.r = 1 AND u.id = :u;
SELECT id, cume_dist() OVER (PARTITION BY author_id ORDER BY score), percent_rank() OVER (PARTITION BY author_id ORDER BY score) FROM stories;
SELECT id, score - lag(score, 1, 0) OVER (ORDER BY id) AS diff FROM stories WHERE author_id IN (1, 2);
SELECT id, row_number() OVER (PARTITION BY author_id ORDER BY id) AS n FROM stories WHERE author_id IN (:list);
SELECT id, string_agg(title, ',') OVER (PARTITION BY author_id ORDER BY id), bool_or(removed) OVER (ORDER BY id) FROM stories;
SELECT DISTINCT author_id, COUNT(*) OVER (PARTITION BY author_id) AS n FROM stories;
SELECT DISTINCT ON (author_id) id, author_id, row_number() OVER (ORDER BY id) FROM stories ORDER BY author_id, id;
SELECT s.id, v.user_id, row_number() OVER (PARTITION BY s.id ORDER BY v.user_id) FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE s.author_id = :a;
SELECT id, row_number() OVER (w ROWS UNBOUNDED PRECEDING), SUM(price) OVER (w ROWS UNBOUNDED PRECEDING) FROM stories WINDOW v AS (PARTITION BY removed), w AS (v ORDER BY id);

-- LIMIT below
SELECT * FROM (SELECT id, score FROM stories ORDER BY score DESC NULLS LAST, id LIMIT 2) d ORDER BY id;
SELECT d.id, u.name FROM (SELECT id, author_id FROM stories WHERE removed = :r ORDER BY id LIMIT 3) d LEFT JOIN users u ON u.id = d.author_id;
SELECT COUNT(*) FROM (SELECT id FROM comments ORDER BY id LIMIT 3 OFFSET 1) d;
SELECT id FROM stories ORDER BY score NULLS FIRST FETCH FIRST 2 ROWS WITH TIES;
SELECT id FROM stories WHERE author_id = :a ORDER BY score FETCH FIRST ROW WITH TIES;
WITH top AS (SELECT author_id, COUNT(*) AS n FROM stories GROUP BY author_id ORDER BY n DESC, author_id LIMIT 2) SELECT t.n, u.name FROM top t JOIN users u ON u.id = t.author_id;
SELECT * FROM (SELECT id FROM stories LIMIT 0) d;
SELECT id FROM (SELECT id, score FROM stories ORDER BY score) d WHERE id > 1;

-- parameters that are lists, ranges, limits
SELECT id, score FROM stories WHERE author_id IN (:list) ORDER BY score DESC NULLS LAST, id LIMIT 3;
SELECT id FROM stories WHERE author_id IN (:list) AND score = :k;
SELECT id FROM stories WHERE author_id IN (:a, :b) AND score = :k;
SELECT id FROM users WHERE mood IN (:a, 'ok');
SELECT id FROM stories WHERE price IN (:a::numeric, 1.0, '2.5');
SELECT id FROM stories WHERE id IN (:a, :b) UNION ALL SELECT story_id FROM votes WHERE story_id IN (:b, :a);
SELECT id, score FROM stories WHERE author_id IN (1, :a, NULL, -3) ORDER BY id LIMIT 3;
SELECT author_id, COUNT(*) FROM stories WHERE author_id IN (:a, :b, 2) GROUP BY author_id;
SELECT id FROM stories WHERE title IN (:a, 'ab', :b);
SELECT author_id, COUNT(*) FROM stories WHERE author_id IN (:list) GROUP BY author_id;
SELECT id, title, COUNT(*) FROM stories WHERE title IN (:list) GROUP BY id;
SELECT id FROM stories WHERE score > :lo ORDER BY score, id;
SELECT id FROM stories WHERE score BETWEEN :lo AND :hi AND author_id = :a;
SELECT id FROM stories WHERE :lo <= score AND score < 3 ORDER BY id;
SELECT c.id FROM comments c JOIN stories s ON s.id = c.story_id WHERE s.author_id = :a AND c.at >= :since ORDER BY c.at DESC, c.id LIMIT 3;
SELECT score, COUNT(*) FROM stories WHERE score >= :lo AND removed = :r GROUP BY score;
SELECT id, price FROM stories WHERE price < :p ORDER BY price DESC, id;
SELECT id FROM stories WHERE author_id = :a ORDER BY id LIMIT :n OFFSET :m;
SELECT id FROM stories ORDER BY score DESC NULLS LAST, id LIMIT :n;
SELECT story_id, COUNT(*) AS n FROM votes GROUP BY story_id HAVING COUNT(*) BETWEEN :a AND :b ORDER BY n, story_id LIMIT :k;
SELECT id FROM stories ORDER BY id OFFSET :m;
(SELECT id FROM stories WHERE score = :k) ORDER BY author_id NULLS FIRST, id LIMIT 2;

-- the row of an aggregate without GROUP BY
SELECT COUNT(*) FROM votes WHERE story_id = :s FETCH FIRST 1 ROW ONLY
