-- Queries of MariaDB whose plans, and lookups, are compared with the server: no expected rows are stored.
-- Without an ORDER BY rows are a bag; with one it is total.

-- one table
SELECT * FROM users;
SELECT id, Name FROM users WHERE ID = :id;
SELECT title, score + 1 AS more, -score AS less, id FROM stories WHERE author_id = :author ORDER BY score DESC, id;
SELECT `id`, 'text', 1.50, 7, count( * ) FROM stories GROUP BY id;
SELECT id FROM stories WHERE score BETWEEN 1 AND 2 OR score IS NULL ORDER BY score, id DESC;
SELECT s.id, s.id, s.title AS id FROM stories s WHERE title = 'a' AND NOT removed;
SELECT id, CASE WHEN score > 1 THEN 'high' WHEN score IS NULL THEN 'none' ELSE title END AS kind FROM stories;
SELECT id, CONCAT(COALESCE(title, 'untitled'), '!') AS t FROM stories WHERE removed IS NOT TRUE ORDER BY 1 LIMIT 1, 3;
SELECT id, weight * 2 AS w2, weight - 1.50 AS less FROM comments WHERE id = :id AND user_id = :u;
SELECT id FROM stories WHERE author_id = :a AND author_id = :b;
SELECT id FROM stories WHERE author_id = :a AND score = :a;
SELECT id FROM stories WHERE :p = price;
SELECT id FROM stories WHERE score + 1 = :n;
SELECT id FROM stories WHERE price IN (1, 2.50, NULL) OR title NOT IN ('a', 'b');
SELECT name FROM users WHERE mood = 'ok' OR mood <> 'sad' ORDER BY mood DESC, id;
SELECT id FROM users WHERE mood = :mood;
SELECT id, score <=> 1 AS one, NOT score <=> NULL AS has, NULLIF(score, 0) AS nz FROM stories WHERE 1 = 1;
SELECT id, score > 1, score = 1 OR title = 'a', NOT score, !removed FROM stories;
SELECT id, score > 1 AND title <> 'b' AS x, (score > 1) + 1 AS y, (score IS NULL) = removed AS z FROM stories;
SELECT id FROM stories WHERE score AND removed = 0;
SELECT id FROM stories WHERE score OR NULL;
SELECT id, IF(score, title, 'no'), IF(score > 1, 1, 2.50), IFNULL(score, -1), IFNULL(price, 0), ISNULL(score) FROM stories;
SELECT id, COALESCE(score, price, 1), COALESCE(NULL, score), CASE score WHEN 1 THEN 'one' WHEN 2 THEN 'two' END FROM stories;
SELECT id FROM stories WHERE score = '1' OR author_id IN ('2', 3);
SELECT id FROM stories WHERE (author_id, score) = (1, 2) OR (author_id, score) IN ((2, 1), (3, 0));
SELECT id FROM stories WHERE TRUE AND NOT FALSE || score = 1;
SELECT id FROM stories WHERE score = 1 && author_id > 1;
SELECT id FROM stories WHERE author_id = ? AND score >= ?;
SELECT id FROM stories WHERE score > :low AND score <= :high;
SELECT id FROM stories WHERE author_id IN (:list) ORDER BY id DESC LIMIT 3;
SELECT id FROM stories WHERE author_id IN (:a, :b) AND score = :k;
SELECT id, score FROM stories WHERE author_id IN (1, :a, NULL, -3) ORDER BY id LIMIT 3;
SELECT author_id, COUNT(*) FROM stories WHERE author_id IN (:a, :b, 2) GROUP BY author_id;
SELECT id FROM stories WHERE title IN (:a, 'ab', :b);
SELECT id FROM stories ORDER BY score DESC, id LIMIT :n OFFSET :o;
SELECT id FROM stories ORDER BY removed, price DESC, id LIMIT :o, :n;
SELECT "x" AS t, 'it''s' AS u, 'a\'b' AS v, id FROM users;

-- arithmetic
SELECT id, score + 1, score - 2, score * 3, score % 2, score DIV 2, -score, score MOD 3, score + author_id FROM stories;
SELECT id, price + 1, price - weight, price * weight, price * 1.5, price + 0.125, -price FROM stories JOIN comments USING (id);
SELECT id, score / 2, score / 0, 1 / 3, price / 3, weight / price, price / score FROM stories JOIN comments USING (id);
SELECT id, price / 3 * 3, (score / 3) + 1, 1 / 3 * 3, 2 / 3 * 3 FROM stories;
SELECT id FROM stories WHERE score / 3 = 1 / 3 OR price / 3 > 0.3333;
SELECT id, IF(score > 1, score / 3, 0), COALESCE(price / 3, 1) FROM stories;
SELECT id, ABS(score), ABS(price), ABS(-2), MOD(score, 2) FROM stories;
SELECT SUM(price * price * price * (1 - weight)) / SUM(price * weight) AS q FROM stories JOIN comments USING (id);
SELECT author_id, 100.00 * SUM(IF(score > 1, price * price * weight, 0)) / SUM(price * weight) AS q FROM stories JOIN comments USING (id) GROUP BY author_id HAVING q > 1 OR q < 0;
SELECT id, FIELD(score, 2, 0, 2), FIELD(title, 'b', 'A', 'ab', ''), FIELD(title, NULL, 'a') FROM stories;
SELECT id, title FROM stories ORDER BY FIELD(title, 'b', 'a') DESC, id;

-- texts
SELECT id, LOWER(title), UPPER(title), LCASE(body), UCASE(CONCAT(title, 'é')) FROM stories JOIN comments USING (id);
SELECT id FROM stories WHERE LOWER(title) = :t;
SELECT id FROM stories WHERE LOWER(title) = LOWER('A') OR UPPER(title) = 'AB';
SELECT id FROM stories WHERE title LIKE 'a%' OR title LIKE '_';
SELECT id, title LIKE '%b%' AS b, title NOT LIKE 'A_ ' AS n, title LIKE 'á' AS e, title LIKE '' AS m, title LIKE '\%' AS p FROM stories;
SELECT id, uca LIKE 'e', uca LIKE '%s%', bin LIKE 'a%', note LIKE 'A' FROM kinds;
SELECT id FROM kinds WHERE uca LIKE 's%' AND bin NOT LIKE '_ ' OR note LIKE '%b';
SELECT id, LEFT(title, 1), LEFT(title, -1), RIGHT(title, 2), RIGHT(title, score), LEFT(title, NULL) FROM stories;
SELECT id, SUBSTRING(title, 2), SUBSTRING(title, -1), SUBSTR(title, 0), MID(title, -2, 1), SUBSTRING(title FROM 1 FOR 2), SUBSTRING(title, score, score) FROM stories;
SELECT id, TRIM(title), LTRIM(title), RTRIM(title), REPLACE(title, 'a', 'xy'), REPLACE(title, 'A', ''), REPLACE(title, '', 'x') FROM stories;
SELECT id, CHAR_LENGTH(title), LENGTH(title), OCTET_LENGTH(bytes), CHARACTER_LENGTH(uca), LENGTH(uca) FROM stories JOIN kinds USING (id);
SELECT id, SUBSTRING_INDEX(title, 'b', 1), SUBSTRING_INDEX(title, 'b', -1), SUBSTRING_INDEX(title, 'B', 1), SUBSTRING_INDEX(title, '', 1), SUBSTRING_INDEX(title, 'a', 0) FROM stories;
SELECT id, CONCAT('#', id), CONCAT(title, score), CONCAT(price, '/', score / 3), CONCAT_WS(', ', title, score, price), CONCAT_WS(title, 'a', 'b'), CONCAT(score > 1, '') FROM stories;
SELECT id, HEX(title), HEX(bytes), HEX(score), HEX(-score) FROM stories JOIN kinds USING (id);
SELECT LOWER(title), COUNT(*) FROM stories GROUP BY LOWER(title);
SELECT CONCAT('#', score) AS s, COUNT(*) FROM stories GROUP BY CONCAT('#', score) ORDER BY s;
SELECT MIN(LEFT(title, 1)), COUNT(DISTINCT UPPER(title)) FROM stories WHERE author_id = :a;

-- dates and times
SELECT id, YEAR(at), MONTH(at), DAY(at), DAYOFMONTH(day), HOUR(at), MINUTE(at), SECOND(at), HOUR(day), QUARTER(day), DATE(at) FROM comments JOIN tags USING (story_id);
SELECT id, DAYOFWEEK(at), WEEKDAY(at), DAYOFYEAR(at), TO_DAYS(at), LAST_DAY(at), EXTRACT(DAY FROM at), EXTRACT(YEAR FROM stamp), CAST(stamp AS DATE) FROM comments JOIN kinds USING (id);
SELECT id, YEARWEEK(at), YEARWEEK(at, 3), YEARWEEK(stamp, 1), WEEK(at, 0), WEEK(at, 1), WEEK(at, 2), WEEK(at, 3), WEEK(at, 6), WEEK(stamp, 7) FROM comments JOIN kinds USING (id);
SELECT YEARWEEK(at, 3) AS w, COUNT(*) FROM comments GROUP BY YEARWEEK(at, 3) ORDER BY w;
SELECT id, DATE_FORMAT(at, '%Y-%m-%d %H:%i:%s|%y %c %e %k %h %I %l %S %p %T %r %%'), DATE_FORMAT(stamp, '%Y/%m'), DATE_FORMAT(at, 'x') FROM comments JOIN kinds USING (id);
SELECT day, day + INTERVAL 1 DAY, day - INTERVAL 1 MONTH, day + INTERVAL '2' YEAR, DATE_ADD(day, INTERVAL 3 WEEK), DATE_SUB(day, INTERVAL 1 QUARTER), day + INTERVAL -1 DAY, day + INTERVAL 90 MINUTE, day + INTERVAL 99999 YEAR FROM tags;
SELECT id, at + INTERVAL 1 HOUR, at - INTERVAL 61 SECOND, at + INTERVAL user_id MONTH, ADDDATE(at, INTERVAL 1 DAY), SUBDATE(at, INTERVAL 31 DAY), stamp + INTERVAL 1 YEAR, stamp - INTERVAL 5 MINUTE FROM comments JOIN kinds USING (id);
SELECT id, DATEDIFF(at, day), TIMESTAMPDIFF(SECOND, day, at), TIMESTAMPDIFF(HOUR, at, stamp), TIMESTAMPDIFF(DAY, stamp, at), TIMESTAMPDIFF(MINUTE, at, day), TIMESTAMPDIFF(WEEK, day, stamp), TIMESTAMPDIFF(MONTH, at, day), TIMESTAMPDIFF(YEAR, day, stamp), TIMESTAMPDIFF(QUARTER, stamp, at) FROM comments JOIN tags USING (story_id) JOIN kinds USING (id);
SELECT id, DATEDIFF(at, '2024-03-01'), TIMESTAMPDIFF(MONTH, '2023-12-31', at), TIMESTAMPDIFF(YEAR, at, '2024-05-31'), TIMESTAMPDIFF(HOUR, '2024-01-01', at) FROM comments;
SELECT id FROM comments WHERE at >= DATE '2024-01-01' AND at < DATE '2024-01-01' + INTERVAL 6 MONTH;
SELECT story_id FROM tags WHERE day = DATE '2024-02-29' - INTERVAL 0 DAY OR day > DATE '2024-03-01';
SELECT id FROM comments WHERE DATE(at) = :day;
SELECT YEAR(at) AS y, MONTH(at) AS m, COUNT(*) FROM comments GROUP BY YEAR(at), MONTH(at) ORDER BY y, m;
SELECT DATE_FORMAT(at, '%Y-%m') AS m, COUNT(*), SUM(weight) FROM comments WHERE story_id = :s GROUP BY m ORDER BY m;
SELECT DATE(at) AS d, COUNT(*) FROM comments GROUP BY DATE(at) HAVING COUNT(*) > 0 ORDER BY d;
SELECT id FROM comments WHERE YEAR(at) = :y AND MONTH(at) = :m;

-- rounding, casts, the greatest
SELECT id, ROUND(price), ROUND(price, 1), ROUND(price, 5), TRUNCATE(price, 1), FLOOR(price), CEIL(price), CEILING(-price), SIGN(price), ROUND(score, 2), FLOOR(score) FROM stories;
SELECT id, ROUND(score / 3, 2), ROUND(price / 3, 8), ROUND(score / 3), TRUNCATE(price / 3, 12), FLOOR(score / 3), CEIL(price / 3), SIGN(score), ROUND(2 / 3, 12) FROM stories;
SELECT author_id, ROUND(AVG(score), 1), ROUND(AVG(price), 2), FLOOR(AVG(price)), ROUND(SUM(price) / COUNT(*), 3) FROM stories GROUP BY author_id;
SELECT id, CAST(price AS SIGNED), CAST(score AS SIGNED), CAST(score / 3 AS SIGNED), CAST(price AS DECIMAL(12,1)), CAST(score AS DECIMAL(20,2)), CAST(score / 3 AS DECIMAL(20,6)), CAST(price AS CHAR), CAST(id AS CHAR) FROM stories;
SELECT id, GREATEST(score, author_id), LEAST(score, price, 1), GREATEST(price, 0.5), LEAST(title, 'b'), GREATEST(title, 'A'), GREATEST(score > 1, 0) FROM stories;
SELECT GREATEST(at, at + INTERVAL 1 DAY), LEAST(at, at - INTERVAL 1 HOUR) FROM comments;
SELECT id FROM stories WHERE ROUND(price) = 1 OR GREATEST(score, 1) = 2 OR FLOOR(price) < 0;

-- GROUP_CONCAT
SELECT author_id, GROUP_CONCAT(id ORDER BY id), GROUP_CONCAT(score ORDER BY id DESC SEPARATOR ' / '), GROUP_CONCAT(DISTINCT score ORDER BY score) FROM stories GROUP BY author_id;
SELECT author_id, GROUP_CONCAT(title ORDER BY id SEPARATOR ''), GROUP_CONCAT(price ORDER BY price DESC, id) AS p FROM stories WHERE author_id = :a GROUP BY author_id;
SELECT GROUP_CONCAT(body ORDER BY user_id, id) FROM comments WHERE story_id = :s;
SELECT s.id, GROUP_CONCAT(CONCAT(v.user_id, '=', v.value) ORDER BY v.user_id SEPARATOR '|') AS v FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id;
SELECT author_id, LEFT(GROUP_CONCAT(id ORDER BY id), 2) AS l FROM stories GROUP BY author_id HAVING CHAR_LENGTH(GROUP_CONCAT(id ORDER BY id)) > 1;

-- windows
SELECT id, ROW_NUMBER() OVER (PARTITION BY author_id ORDER BY score DESC, id) AS n FROM stories WHERE author_id = :a;
SELECT id, RANK() OVER (ORDER BY score), DENSE_RANK() OVER (ORDER BY score DESC), NTILE(2) OVER (ORDER BY id) FROM stories;
SELECT id, LAG(price) OVER (ORDER BY id), LEAD(title, 2) OVER w, FIRST_VALUE(score) OVER w, LAST_VALUE(price) OVER w, NTH_VALUE(id, 2) OVER w FROM stories WINDOW w AS (PARTITION BY author_id ORDER BY id);
SELECT id, SUM(score) OVER (PARTITION BY author_id), COUNT(*) OVER (PARTITION BY author_id ORDER BY score), AVG(score) OVER (ORDER BY id), AVG(price) OVER (PARTITION BY author_id) * 2 FROM stories;
SELECT id, SUM(price) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), MIN(score) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING), MAX(price) OVER (PARTITION BY removed) FROM stories;
SELECT * FROM (SELECT id, author_id, ROW_NUMBER() OVER (PARTITION BY author_id ORDER BY id DESC) AS n FROM stories) t WHERE n = 1 AND author_id = :a;
SELECT author_id, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM stories GROUP BY author_id;
SELECT id, MEDIAN(score) OVER (PARTITION BY author_id), MEDIAN(price) OVER (), PERCENTILE_CONT(0.50) WITHIN GROUP (ORDER BY price DESC) OVER (PARTITION BY removed) FROM stories;
SELECT id, PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY score) OVER (PARTITION BY author_id), PERCENTILE_DISC(0.7) WITHIN GROUP (ORDER BY price DESC) OVER () FROM stories;
SELECT DISTINCT author_id, MEDIAN(score * 1.5) OVER (PARTITION BY author_id) AS m FROM stories;
SELECT id, score > 1 AS high, COUNT(*) OVER (PARTITION BY score > 1), SUM(score > 1) OVER (ORDER BY id) FROM stories;

-- GROUP BY over one table
SELECT story_id, COUNT(*) FROM votes GROUP BY story_id;
SELECT story_id, COUNT(*), COUNT(value), SUM(value), AVG(value), MIN(value), MAX(value) FROM votes WHERE story_id = :s GROUP BY story_id;
SELECT author_id, SUM(price), AVG(price), MIN(title), COUNT(price) AS n FROM stories GROUP BY author_id HAVING COUNT(*) > 1;
SELECT author_id AS a, SUM(score) + COUNT(*) AS s FROM stories WHERE title = :t GROUP BY a ORDER BY 2 DESC, a;
SELECT author_id, SUM(score > 0) AS pos, SUM(removed), COUNT(IF(removed, 1, NULL)) FROM stories GROUP BY 1;
SELECT author_id, COUNT(*) AS n FROM stories GROUP BY author_id HAVING n > 1;
SELECT author_id, COUNT(*) AS n FROM stories GROUP BY author_id HAVING n > :n ORDER BY n DESC, author_id;
SELECT author_id, AVG(score) a FROM stories GROUP BY author_id HAVING a > 1.5 OR AVG(price) * 3 > 1;
SELECT author_id, AVG(score) * 3, AVG(price) / 3, SUM(price) / COUNT(*), AVG(score) + 1 FROM stories GROUP BY author_id;
SELECT COUNT(*) FROM votes;
SELECT COUNT(*), SUM(value), MIN(value) FROM votes WHERE story_id = :s;
SELECT SUM(value) FROM votes WHERE story_id = :s AND user_id = :u HAVING COUNT(*) > 0;
SELECT MAX(title), COUNT(*) + 1 AS n FROM stories WHERE author_id = :a AND removed = :r;
SELECT score > 1 AS high, COUNT(*) FROM stories GROUP BY score > 1 HAVING COUNT(*) = :n;
SELECT id, title, COUNT(*) FROM stories GROUP BY id;
SELECT author_id FROM stories GROUP BY author_id HAVING MAX(score) >= 2 ORDER BY author_id;
SELECT COUNT(*) FROM stories WHERE price = :p;
SELECT author_id, COUNT(*) FROM stories WHERE price = :p GROUP BY author_id;
SELECT mood, COUNT(*) FROM users GROUP BY mood ORDER BY mood;
SELECT COUNT(DISTINCT mood), COUNT(DISTINCT name), SUM(DISTINCT karma), AVG(DISTINCT karma) FROM users;
SELECT AVG(karma), SUM(karma), MIN(karma), MAX(karma), AVG(id) FROM users WHERE name = :n;

-- joins
SELECT s.title, u.name FROM stories s JOIN users u ON u.id = s.author_id WHERE u.id = :u;
SELECT s.title, u.name FROM stories s, users u WHERE u.id = s.author_id AND s.id = :id;
SELECT c.id, s.title, u.name, a.name AS author FROM comments c JOIN stories s ON s.id = c.story_id JOIN users u ON u.id = c.user_id JOIN users a ON a.id = s.author_id WHERE u.name = :n AND s.score = :k;
SELECT c.id, p.id AS parent, g.id AS grand FROM comments c LEFT JOIN comments p ON p.id = c.parent_id LEFT JOIN comments g ON g.id = p.parent_id WHERE c.story_id = :s;
SELECT * FROM tags JOIN stories ON stories.id = tags.story_id WHERE tag = :t ORDER BY stories.id, tag;
SELECT t.*, s.title FROM tags t LEFT JOIN stories s ON s.id = t.story_id AND NOT s.removed AND s.score > 0;
SELECT s.id, t.id AS other FROM stories s LEFT JOIN stories t ON t.score + 1 = s.score WHERE s.id = :id;
SELECT s.score, COUNT(v.value), SUM(v.user_id), COUNT(*) FROM stories s LEFT JOIN votes v ON v.value + 1 = s.score % 3 GROUP BY s.score;
SELECT s.id, u.id AS other FROM stories s, users u WHERE u.id + 1 = s.score AND s.author_id = :a;
SELECT s.id, t.id AS other FROM stories s JOIN stories t ON CONCAT(t.title, '') = CONCAT(s.title, '');
SELECT c.id, d.id AS other FROM comments c LEFT JOIN comments d ON DATE(d.at) = DATE(c.at) AND d.weight * 2 = c.weight WHERE c.id = :id;
SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE v.story_id IS NULL;
SELECT s.id, v.value FROM stories s LEFT OUTER JOIN votes v ON v.story_id = s.id WHERE v.value > 0;
SELECT s.id, u.name FROM stories s LEFT JOIN votes v ON v.story_id = s.id INNER JOIN users u ON u.id = s.author_id WHERE v.value IS NULL OR u.name = 'b';
SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE v.user_id = :u;
SELECT id, user_id, body, value FROM comments JOIN votes USING (story_id, user_id);
SELECT * FROM tags LEFT JOIN tags t2 USING (story_id) WHERE story_id = :s;
SELECT a.id, b.id AS other FROM users a JOIN users b ON a.karma = b.karma WHERE a.id <> b.id AND a.id = :id;
SELECT s.id, u.name, v.value FROM stories s JOIN users u ON u.id = s.author_id LEFT JOIN votes v ON v.story_id = s.id AND v.user_id = u.id;
SELECT s.id FROM stories s JOIN (users u JOIN votes v ON v.user_id = u.id) ON v.story_id = s.id WHERE u.id = :u;
SELECT c.id, COALESCE(p.body, 'top') AS `of` FROM comments c LEFT JOIN comments p ON c.parent_id = p.id WHERE COALESCE(p.body, 'x') <> 'y';
SELECT s.id, v.user_id FROM stories s RIGHT JOIN votes v ON v.story_id = s.id;
SELECT u.id, t.tag FROM users u CROSS JOIN tags t WHERE u.id = :u;
SELECT * FROM votes NATURAL JOIN comments;
SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.user_id = :me WHERE s.author_id = :me;
SELECT s.id, v.value FROM stories s LEFT JOIN (SELECT * FROM votes WHERE user_id = :me) v ON v.story_id = s.id WHERE s.author_id = :me;
SELECT s.id, u.id AS user FROM stories s, users u WHERE s.score < u.karma AND s.id = :id;

-- aggregates over joins
SELECT s.id, s.title, COUNT(v.user_id) FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id, s.title;
SELECT s.id, COUNT(*), COUNT(v.value), SUM(v.value), AVG(v.value), MAX(v.value) FROM stories s LEFT JOIN votes v ON v.story_id = s.id GROUP BY s.id;
SELECT s.author_id, AVG(c.weight), SUM(c.weight), AVG(v.value) FROM stories s LEFT JOIN votes v ON v.story_id = s.id LEFT JOIN comments c ON c.story_id = s.id GROUP BY s.author_id;
SELECT s.author_id, COUNT(DISTINCT v.user_id), COUNT(*) FROM stories s LEFT JOIN votes v ON v.story_id = s.id GROUP BY s.author_id;
SELECT u.karma, COUNT(*) FROM users u JOIN comments c ON c.weight = u.karma GROUP BY u.karma;
SELECT s.id, AVG(s.score), AVG(s.price) FROM stories s GROUP BY s.id;

-- DISTINCT, UNION
SELECT DISTINCT author_id FROM stories;
SELECT DISTINCT author_id, score FROM stories WHERE removed = :r ORDER BY score DESC, author_id;
SELECT DISTINCT price FROM stories ORDER BY price;
SELECT DISTINCT price / 3 FROM stories;
SELECT DISTINCT author_id FROM stories WHERE author_id IN (:list) ORDER BY 1;
SELECT id FROM stories UNION ALL SELECT story_id FROM votes;
SELECT id FROM stories UNION SELECT story_id FROM votes ORDER BY id DESC LIMIT 3;
SELECT id, NULL AS parent FROM stories UNION ALL SELECT id, parent_id FROM comments ORDER BY parent, id;
SELECT id, title, 1 AS n FROM stories WHERE author_id = :u UNION ALL SELECT id, body, 2 FROM comments WHERE user_id = :u ORDER BY id, n;
SELECT score, price FROM stories UNION SELECT id, weight FROM comments;
SELECT score FROM stories UNION ALL SELECT weight FROM comments;
SELECT price FROM stories INTERSECT SELECT weight FROM comments;
SELECT author_id FROM stories EXCEPT SELECT user_id FROM votes;
SELECT author_id FROM stories EXCEPT ALL SELECT user_id FROM votes;
SELECT user_id FROM comments INTERSECT ALL SELECT user_id FROM votes;
SELECT body FROM comments WHERE user_id = :a EXCEPT ALL SELECT title FROM stories WHERE author_id = :a;
SELECT x.user_id, COUNT(*) FROM (SELECT user_id FROM votes EXCEPT ALL SELECT user_id FROM comments) x GROUP BY user_id;
SELECT COUNT(*) FROM (SELECT id FROM stories UNION ALL SELECT id FROM comments) d;
SELECT d.id, u.name FROM (SELECT author_id AS id FROM stories UNION SELECT user_id FROM comments) d JOIN users u ON u.id = d.id WHERE d.id = :u;
WITH acts AS (SELECT id AS story, author_id AS who FROM stories UNION ALL SELECT story_id, user_id FROM comments) SELECT who, COUNT(*) FROM acts GROUP BY who;
SELECT d.n, d.author_id FROM (SELECT author_id, COUNT(*) AS n FROM stories GROUP BY author_id) d WHERE d.n > 1;
SELECT d.id FROM (SELECT id FROM stories ORDER BY score DESC, id LIMIT 2) d;

-- subqueries
SELECT s.id FROM stories s WHERE EXISTS (SELECT 1 FROM votes v WHERE v.story_id = s.id AND v.value > 0) AND s.author_id = :a;
SELECT s.id FROM stories s WHERE NOT EXISTS (SELECT 1 FROM votes v WHERE v.story_id = s.id) AND s.author_id = :a;
SELECT s.id, EXISTS (SELECT 1 FROM votes v WHERE v.story_id = s.id) AS voted FROM stories s;
SELECT s.id FROM stories s WHERE s.id IN (SELECT story_id FROM votes WHERE user_id = :u);
SELECT s.id FROM stories s WHERE s.id NOT IN (SELECT story_id FROM comments);
SELECT s.id, s.author_id IN (SELECT user_id FROM comments c WHERE c.story_id = s.id) AS x FROM stories s;
SELECT s.id FROM stories s WHERE s.price IN (SELECT karma FROM users);
SELECT s.id, (SELECT COUNT(*) FROM votes v WHERE v.story_id = s.id) AS n FROM stories s WHERE s.id = :i;
SELECT s.id, (SELECT MAX(value) FROM votes), (SELECT COUNT(*) FROM tags WHERE tag = 'zz') AS z FROM stories s;
SELECT s.id FROM stories s WHERE s.score = (SELECT MAX(o.score) FROM stories o WHERE o.author_id = s.author_id);
SELECT s.id FROM stories s WHERE s.score > (SELECT AVG(value) FROM votes v WHERE v.story_id = s.id);
SELECT s.id FROM stories s WHERE s.score > ALL (SELECT value FROM votes v WHERE v.story_id = s.id);
SELECT u.id FROM users u WHERE (u.id, 1) IN (SELECT user_id, value FROM votes);

-- texts that are equal and print differently
SELECT name, COUNT(*) FROM users GROUP BY name ORDER BY name;
SELECT id FROM users WHERE name = 'A';
SELECT id FROM users WHERE name > 'a' ORDER BY name, id;
SELECT id, name FROM users ORDER BY name DESC, id DESC LIMIT 4;
SELECT a.id, b.id AS other FROM users a JOIN users b ON a.name = b.name WHERE a.name = :n;
SELECT MIN(name), MAX(name), COUNT(DISTINCT name), COUNT(name) FROM users;
SELECT DISTINCT title FROM stories WHERE author_id = :a;
SELECT title FROM stories UNION SELECT body FROM comments;
SELECT id FROM stories WHERE title IN ('A', 'AB ', 'á') OR title NOT IN ('b', 'a');
SELECT u.id, s.id AS story FROM users u LEFT JOIN stories s ON s.title = u.name AND s.score > 1;
SELECT t.tag, COUNT(*), MIN(t.day) FROM tags t GROUP BY t.tag HAVING COUNT(*) > 1 ORDER BY t.tag;
SELECT id FROM users WHERE name IN (:names);
SELECT id FROM users WHERE name >= :low AND name < :high;
SELECT title, SUM(score) FROM stories WHERE title = :t GROUP BY title;
SELECT id, bin, uca FROM kinds WHERE bin = 'a' OR uca = 'SS' OR uca = 'é';
SELECT bin, COUNT(*) FROM kinds GROUP BY bin;
SELECT uca, COUNT(*) FROM kinds GROUP BY uca ORDER BY uca DESC;
SELECT CONCAT(title, '-', title) AS t, COUNT(*) FROM stories GROUP BY CONCAT(title, '-', title);
SELECT IF(score > 1, title, 'A') AS t, COUNT(*) FROM stories GROUP BY t;

-- dates and times
SELECT id, at FROM comments WHERE at > '2024-01-01' ORDER BY at DESC, id;
SELECT id FROM comments WHERE at = :at;
SELECT id FROM comments WHERE at >= '2024-01-01 00:00:00' AND at < '2024-06-01 12:00:00.500';
SELECT id FROM comments WHERE at BETWEEN '2024-01-01 00:00:00' AND '2024-12-31 00:00:00';
SELECT story_id, MIN(at), MAX(at), COUNT(DISTINCT at) FROM comments GROUP BY story_id;
SELECT at, COUNT(*) FROM comments GROUP BY at ORDER BY at;
SELECT day, COUNT(*) FROM tags WHERE day = '2024-02-29' OR day IS NULL GROUP BY day;
SELECT tag, day FROM tags WHERE day >= :low ORDER BY day, tag, story_id LIMIT 3;
SELECT c.id, IFNULL(p.at, c.at) FROM comments c LEFT JOIN comments p ON p.id = c.parent_id;
SELECT id, clock, stamp FROM kinds WHERE stamp = :s;
SELECT clock, COUNT(*) FROM kinds GROUP BY clock ORDER BY clock;
SELECT id FROM kinds ORDER BY stamp DESC, clock, id;

-- other types
SELECT * FROM kinds WHERE id = :id;
SELECT big, COUNT(*), SUM(big), AVG(big), MIN(big) FROM kinds GROUP BY big;
SELECT id FROM kinds WHERE big > 7 OR big = 0;
SELECT id FROM kinds WHERE big = :b;
SELECT real8, COUNT(*) FROM kinds GROUP BY real8;
SELECT id FROM kinds WHERE real8 > 0 OR real8 = -0.1;
SELECT id FROM kinds WHERE real4 = :r;
SELECT id, real4 FROM kinds ORDER BY real4 DESC, real8, id;
SELECT MIN(real4), MAX(real8), COUNT(real4) FROM kinds;
SELECT bytes, COUNT(*) FROM kinds WHERE bytes <> 'A' GROUP BY bytes;
SELECT id FROM kinds WHERE bytes = :b;
SELECT flags, year, COUNT(*) FROM kinds GROUP BY flags, year ORDER BY year, flags;
SELECT id FROM kinds WHERE flags = 5 OR year > 2000;
SELECT choice, COUNT(*) FROM kinds GROUP BY choice ORDER BY choice DESC;
SELECT id, doc, note FROM kinds WHERE doc IS NOT NULL;
SELECT note, COUNT(*) FROM kinds GROUP BY note;
SELECT k.id, u.id AS user FROM kinds k JOIN users u ON u.id = k.id WHERE u.id = :u;
SELECT mood, COUNT(*) FROM users WHERE mood IN ('sad', 'ok') GROUP BY mood ORDER BY mood DESC;
SELECT a.id, b.id AS other FROM users a JOIN users b ON b.mood = a.mood AND b.id > a.id;
SELECT doc, COUNT(*) FROM kinds GROUP BY doc;
SELECT id FROM kinds WHERE doc = :doc;
SELECT id, JSON_VALUE(doc, '$.a') AS a, JSON_EXTRACT(doc, '$.a[0]') AS b, JSON_TYPE(doc) AS t, JSON_LENGTH(doc) AS n FROM kinds;
SELECT JSON_VALUE(doc, '$.a') AS a, COUNT(*), MAX(id) FROM kinds GROUP BY a ORDER BY a DESC;
SELECT id FROM kinds WHERE JSON_UNQUOTE(JSON_EXTRACT(doc, '$.a')) = :a AND JSON_VALID(doc);
SELECT id FROM kinds WHERE JSON_CONTAINS(doc, '1', '$.a') OR JSON_EXISTS(doc, '$[0]');
SELECT JSON_OBJECT('id', id, 'doc', doc, 'note', note, 'stamp', stamp, 'yes', TRUE) FROM kinds WHERE id = :id;
SELECT note, JSON_ARRAYAGG(JSON_ARRAY(doc, clock) ORDER BY id) FROM kinds GROUP BY note;
