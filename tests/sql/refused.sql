-- Each statement, and the error of planning it over the news site. Read by test_refused.py.

SELECT id FROM stories WHERE id IN (:a, score)
--> unsupported at [id IN (:a, score)]: IN takes a list, or parameters and constants.

SELECT id FROM stories WHERE id IN (:a, - score)
--> unsupported at [id IN (:a, - score)]: IN takes a list, or parameters and constants.

SELECT id FROM stories WHERE id IN (:a, 1.5)
--> unsupported at [1.5]: Beside parameters in IN, constants must be of type int8.

SELECT id FROM stories WHERE author IN (:a, 1)
--> unsupported at [1]: Beside parameters in IN, constants must be of type text.

SELECT id FROM stories WHERE created_at IN (:a, 'today')
--> unsupported at ['today']: Beside parameters in IN, constants must be of type timestamptz.

SELECT id FROM stories WHERE author IN (:a, :claims.sub)
--> unsupported at [author IN (:a, :claims.sub)]: A claim of the token cannot be one of several members of IN.

SELECT id FROM stories WHERE id IN (:a, :b) AND score = :b
--> unsupported at [:b]: A parameter among others in IN is compared in two ways.

SELECT id FROM stories WHERE id IN (:a, :b) AND score IN (:a, 1)
--> unsupported at [:a]: The parameter :a is compared in two ways.

SELECT id FROM stories WHERE id IN (:a, :b) AND score IN (:a, :b)
--> unsupported at [:a]: The parameter :a is compared with two columns as a list.

SELECT id, :x AS x FROM stories
--> unsupported at [:x]: The parameter :x is no key, list or range of a column, and what stands beside it does not tell its type. Write it in a condition like `column = :x`, or as a cast to its type.

SELECT now(), id FROM stories
--> unsupported at [now]: The current time is not a function of the database's contents.

SELECT random() FROM stories
--> unsupported at [random]: A random number is not a function of the database's contents.

SELECT lower(title) FROM stories
--> unsupported at [lower(title)]: LOWER depends on the upper and lower case of the collation's locale, which is not known exactly.

SELECT title ILIKE 'a' FROM stories
--> unsupported at [title ILIKE 'a']: ILIKE depends on the upper and lower case of the collation's locale, which is not known exactly.

SELECT id FROM storys
--> invalid at [storys]: There is no table "storys". (Did you mean "stories"?)

SELECT titel FROM stories
--> invalid at [titel]: There is no column "titel". (Did you mean "title"?)

SELECT x.id FROM stories s
--> invalid at [x]: There is no table "x" in FROM.

SELECT id FROM stories s, comments c WHERE c.story_id = s.id
--> invalid at [id]: The column name "id" is ambiguous. (Write the table's name before it.)

SELECT title, count(*) FROM stories GROUP BY author
--> invalid at [title]: A column that is shown, ordered by or in HAVING must stand in GROUP BY or in an aggregate.

SELECT count(*) FROM stories WHERE count(*) > 1
--> invalid at [count(*)]: Aggregate functions cannot stand in WHERE, ON or GROUP BY.

SELECT sum(count(*)) FROM stories
--> invalid at [count(*)]: Aggregate functions cannot be nested.

SELECT id FROM stories ORDER BY 3
--> invalid at [3]: ORDER BY 3 is not the number of a column that is shown.

SELECT id FROM stories; SELECT 2
--> invalid at [SELECT 2]: A view is one statement; this SQL has several. (Register them one by one.)

DELETE FROM stories
--> invalid at [stories]: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

WITH x AS (DELETE FROM stories RETURNING *) SELECT * FROM x
--> invalid at [stories RETURNING *]: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

SELECT * FROM stories FOR UPDATE
--> invalid: A view takes no locks. (Remove FOR UPDATE or FOR SHARE.)

SELECT * INTO y FROM stories
--> invalid at [y]: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

SELECT nextval('x') FROM stories
--> invalid at [nextval('x')]: A view changes nothing, so it cannot call nextval.

SELEC id FROM stories
--> invalid at [FROM]: The SQL has a syntax error near "FROM".

SELECT id FROM stories WHERE
--> invalid at [WHERE]: The SQL has a syntax error near "WHERE".

SELECT id FROM stories WHERE title = 'abc
--> invalid: The SQL has a string, identifier or comment that does not end.

SELECT 1
--> unsupported at [1]: The SELECT reads no table.

VALUES (1)
--> unsupported at [1]: VALUES reads no table.

SELECT * FROM stories s TABLESAMPLE SYSTEM (10)
--> unsupported at [stories s TABLESAMPLE SYSTEM (10)]: stories AS s TABLESAMPLE SYSTEM (10) in FROM is not kept up to date.

SELECT * FROM ONLY stories
--> unsupported at [stories]: ONLY stories in FROM is not kept up to date.

SELECT * FROM generate_series(1, 2)
--> unsupported at [generate_series(1, 2)]: The SELECT reads no table.

SELECT s.id FROM stories s, generate_series(:a, :b) g
--> unsupported at [generate_series(:a, :b) g]: GENERATE_SERIES of unknown, unknown is not kept up to date.

SELECT s.id FROM stories s, generate_series(1, :n + 1.5) g
--> unsupported at [:n]: The parameter :n, of type numeric, may only be compared.

SELECT s.id FROM stories s, generate_series(1, :n, 0.5) g
--> unsupported at [generate_series(1, :n, 0.5) g]: GENERATE_SERIES of int4, unknown, numeric is not kept up to date.

SELECT s.id FROM stories s, generate_series(:a::timestamp, :b::timestamp, :step::interval) g
--> unsupported at [:step]: The parameter :step is no key, list or range of a column, and what stands beside it does not tell its type. Write it in a condition like `column = :step`, or as a cast to its type.

SELECT g FROM generate_series(1, :n::int) g
--> unsupported at [generate_series(1, :n::int) g]: The SELECT reads no table.

SELECT s.id FROM stories s, generate_series(1, s.score) g
--> unsupported at [generate_series(1, s.score) g]: GENERATE_SERIES of other than constants and parameters is not kept up to date: it may have any number of rows.

SELECT s.id FROM stories s, generate_series(CURRENT_DATE - 6, CURRENT_DATE, '1 day') g
--> unsupported at [6]: The current time is not a function of the database's contents.

SELECT s.id FROM stories s, generate_series(1, 367) g
--> unsupported at [generate_series(1, 367) g]: GENERATE_SERIES of these constants is not kept up to date: not computed: a series of more than 366 rows.

SELECT s.id FROM stories s, generate_series(1, 2, 0) g
--> unsupported at [generate_series(1, 2, 0) g]: GENERATE_SERIES of these constants is not kept up to date: step size cannot equal zero.

SELECT s.id FROM stories s, generate_series(1.5, 2) g
--> unsupported at [generate_series(1.5, 2) g]: GENERATE_SERIES of numeric, int4 is not kept up to date.

SELECT s.id FROM stories s, generate_series('2024-01-01'::timestamp, 'infinity', '1 year') g
--> unsupported at [generate_series('2024-01-01'::timestamp, 'infinity', '1 year') g]: GENERATE_SERIES of these constants is not kept up to date: not computed: a series of more than 366 rows.

SELECT s.id FROM stories s, generate_series('-infinity'::timestamp, '2024-01-01', '1 year') g
--> unsupported at [generate_series('-infinity'::timestamp, '2024-01-01', '1 year') g]: GENERATE_SERIES of these constants is not kept up to date: not computed: a series of more than 366 rows.

SELECT s.id FROM stories s, generate_series('294276-12-31 20:00:00'::timestamp, 'infinity', '1 day') g
--> unsupported at [generate_series('294276-12-31 20:00:00'::timestamp, 'infinity', '1 day') g]: GENERATE_SERIES of these constants is not kept up to date: timestamp out of range.

SELECT s.id FROM stories s, generate_series(1, 2) WITH ORDINALITY g (n, place)
--> unsupported at [generate_series(1, 2) WITH ORDINALITY g (n, place)]: GENERATE_SERIES(1, 2) WITH ORDINALITY AS g(n, place) in FROM is not kept up to date.

SELECT s.id, generate_series(1, 2) AS n FROM stories s
--> unsupported at [generate_series(1, 2)]: GENERATE_SERIES is not on the list of exact functions.

WITH RECURSIVE x AS (SELECT 1 AS a) SELECT a FROM x
--> unsupported at [x AS (SELECT 1 AS a)]: WITH RECURSIVE is not kept up to date.

SELECT s FROM stories s
--> unsupported at [s]: A whole row as one value is not kept up to date yet.

SELECT ctid FROM stories
--> unsupported at [ctid]: The change stream does not carry ctid.

SELECT id FROM stories WHERE id = 'abc'
--> unsupported at [id = 'abc']: The constant 'abc' is not read as int8: an integer from -9223372036854775808 to 9223372036854775807 is expected.

SELECT id FROM stories WHERE created_at > 'yesterday'
--> unsupported at [created_at > 'yesterday']: The constant 'yesterday' is not read as timestamptz: a timestamp like 2024-02-29 17:05:00+00 is expected.

SELECT id FROM stories FETCH FIRST 3 ROWS WITH TIES
--> invalid at [stories]: WITH TIES needs an ORDER BY.

SELECT author, count(*) FROM stories GROUP BY author WITH ROLLUP
--> unsupported at [author]: WITH ROLLUP is kept up to date of MariaDB only, outside of expressions.

SELECT author FROM stories GROUP BY ROLLUP (author)
--> unsupported at [author]: An empty grouping set without an aggregate is not kept up to date.

SELECT count(*) FROM stories GROUP BY CUBE (id, author, title, score, removed, created_at)
--> unsupported at [id, author, title, score, removed, created_at]: More than 32 grouping sets are not kept up to date.

SELECT id, title, count(*) FROM stories GROUP BY GROUPING SETS ((id), ())
--> unsupported at [title]: Beside GROUPING SETS, columns that keys determine are not kept.

SELECT author, grouping(score), count(*) FROM stories GROUP BY ROLLUP (author)
--> invalid: Arguments of GROUPING must stand in GROUP BY.

SELECT author, count(*), EXISTS (SELECT 1 FROM comments c WHERE c.author = stories.author) FROM stories GROUP BY ROLLUP (author)
--> unsupported at [author]: Subqueries beside GROUPING SETS are not kept up to date.

SELECT 1_000 FROM stories
--> unsupported at [1_000]: A number runs into a word.

SELECT id FROM stories WHERE score
--> unsupported at [score]: A condition must be a boolean, this is int4.

SELECT id FROM stories WHERE title = 1
--> unsupported at [title = 1]: Comparing text with int4 is not on the list of exact functions.

SELECT count(*) FROM stories WHERE score + 1 = :x
--> unsupported at [:x]: Without GROUP BY, an aggregate takes each parameter for a column of its own, and no expression.

SELECT id FROM stories WHERE id = :id AND title = :id
--> unsupported at [:id]: The parameter :id is compared with columns of two types.

SELECT id FROM stories WHERE id = :id::text
--> unsupported at [:id]: The parameter :id is cast to another type than int8.

SELECT id FROM stories WHERE title = :title::varchar(3)
--> unsupported at [:title]: The cast may make another value of the parameter :title.

SELECT "ID" FROM stories
--> invalid at ["ID"]: There is no column "ID".

SELECT a.id FROM stories a, stories a
--> invalid at [stories a]: The name "a" is given to two tables. (Give one of them an alias.)

SELECT coalesce(title, 1) FROM stories
--> unsupported at [coalesce(title, 1)]: COALESCE of text, int4 is not on the list of exact functions.

SELECT max(removed) FROM stories
--> unsupported at [max(removed)]: MAX of bool is not kept up to date.

EXPLAIN SELECT 1
--> invalid at [1]: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

SET x = 1
--> invalid: A view is a SELECT.

BEGIN
--> invalid: A view is a SELECT.

CREATE TABLE x (a int)
--> invalid at [x (a int)]: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

SELECT id FROM otherschema.stories
--> invalid at [otherschema.stories]: There is no table "stories".

SELECT * FROM stories s JOIN votes v USING (nothing)
--> invalid at [nothing]: There is no column "nothing" on the left side of the join.

SELECT count(*) FROM stories GROUP BY ()
--> unsupported: () is not on the list of exact expressions.

SELECT ifnull(title, 'x') FROM stories
--> unsupported at [ifnull(title, 'x')]: IFNULL is not on the list of exact functions.

SELECT id AS x FROM stories WHERE x = 1
--> invalid at [x]: There is no column "x".

SELECT SUM(*) FROM stories
--> invalid at [SUM(*)]: SUM takes an expression, not *.

SELECT id, FROM stories
--> invalid at [,]: The SQL has a syntax error near ",".

SELECT COUNT() FROM stories
--> unsupported at [COUNT]: COUNT of 0 arguments is not kept up to date.

SELECT title FROM stories GROUP BY COUNT(*)
--> invalid at [COUNT(*)]: Aggregate functions cannot stand in WHERE, ON or GROUP BY.

SELECT data ? 'k' FROM stories
--> invalid at [data]: There is no column "data".

SELECT 1; DROP TABLE stories
--> invalid at [DROP TABLE stories]: A view is one statement; this SQL has several. (Register them one by one.)

SELECT id FROM stories :a
--> unsupported at [:a]: Nothing reads the parameter :a.

WITH x AS (SELECT id FROM stories WHERE id = :x) SELECT id FROM stories
--> unsupported at [:x]: Nothing reads the parameter :x.

SELECT DISTINCT author FROM stories ORDER BY title
--> invalid at [title]: With SELECT DISTINCT, what ORDER BY names must be shown.

SELECT DISTINCT ON (author) author FROM stories ORDER BY score
--> invalid at [author]: What DISTINCT ON names must come first in ORDER BY.

SELECT id FROM stories WHERE score > :s AND author = :s
--> unsupported at [:s]: The parameter :s is compared in two ways.

SELECT id FROM stories WHERE id = :n LIMIT :n
--> invalid at [:n]: The parameter :n is used for two things. (Give LIMIT a name of its own.)

SELECT id FROM stories LIMIT :n OFFSET :n
--> invalid at [:n]: The parameter :n is used for two things. (Give LIMIT a name of its own.)

SELECT count(DISTINCT id, author) FROM stories
--> unsupported at [count(DISTINCT id, author)]: COUNT of 2 arguments is not kept up to date.

SELECT stddev(CAST(score AS float8)) FROM stories
--> unsupported at [stddev(CAST(score AS float8))]: STDDEV_SAMP of float8 is not kept up to date.

SELECT stddev(length(concat(title, ')')) * CAST(score AS float8)) FROM stories
--> unsupported at [stddev(length(concat(title, ')')) * CAST(score AS float8))]: STDDEV_SAMP of float8 is not kept up to date.

SELECT corr(score, id) FROM stories
--> unsupported at [corr(score, id)]: CORR is not kept up to date.

SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY score) FROM stories
--> unsupported at [0.9]: PERCENTILE_CONT of other fractions than 0, 0.5 and 1 depends on the server's processor in its last digit.

SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY score::float8) FROM stories
--> unsupported at [score]: PERCENTILE_CONT of float8 is not kept up to date.

SELECT percentile_disc(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY score) FROM stories
--> unsupported at [0.25, 0.75]: PERCENTILE_DISC is kept up to date for one constant fraction.

SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY score::numeric) FROM stories
--> unsupported at [score]: PERCENTILE_DISC of numeric is not kept up to date: equal values may print differently.

SELECT percentile_disc(1.5) WITHIN GROUP (ORDER BY score) FROM stories
--> unsupported at [1.5]: PERCENTILE_DISC is kept up to date for one constant fraction.

SELECT mode(1) WITHIN GROUP (ORDER BY score) FROM stories
--> unsupported at [mode(1) WITHIN GROUP (ORDER BY score)]: MODE of 1 arguments is not kept up to date.

SELECT rank(10) WITHIN GROUP (ORDER BY score) FROM stories
--> unsupported at [rank(10) WITHIN GROUP (ORDER BY score)]: RANK is not kept up to date.

SELECT sum(score) WITHIN GROUP (ORDER BY score) FROM stories
--> unsupported at [sum(score) WITHIN GROUP (ORDER BY score)]: SUM WITHIN GROUP is not kept up to date.

SELECT percentile_disc(0.5) FROM stories
--> unsupported at [percentile_disc(0.5)]: PERCENTILE_DISC takes WITHIN GROUP (ORDER BY …) of one expression.

SELECT array_agg(DISTINCT title ORDER BY score) FROM stories
--> unsupported at [score]: With DISTINCT, an aggregate's ORDER BY is about its arguments.

SELECT sum(DISTINCT score) OVER () FROM stories
--> invalid at [sum(DISTINCT score)]: DISTINCT and ORDER BY cannot stand inside a window function.

SELECT id FROM stories WHERE row_number() OVER () = 1
--> invalid at [row_number]: Window functions cannot stand in WHERE, ON or GROUP BY.

SELECT sum(row_number() OVER ()) FROM stories
--> invalid at [row_number]: Window functions cannot stand inside aggregate functions.

SELECT row_number() OVER (ORDER BY rank() OVER ()) FROM stories
--> invalid at [rank]: Window functions cannot be nested.

SELECT sum(score) OVER (w ORDER BY id) FROM stories WINDOW w AS (ORDER BY author)
--> invalid at [sum(score) OVER (w ORDER BY id)]: A window cannot change what it takes from another one.

SELECT sum(score) OVER missing FROM stories
--> invalid at [sum(score) OVER missing]: There is no window "missing".

SELECT row_number() FROM stories
--> unsupported at [row_number]: ROW_NUMBER is not on the list of exact functions.

SELECT sum(score) OVER (ORDER BY score RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM stories
--> unsupported at [sum(score) OVER (ORDER BY score RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)]: RANGE with a distance of values is not kept up to date.

SELECT sum(score) OVER (ORDER BY score ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) FROM stories
--> invalid at [sum(score) OVER (ORDER BY score ROWS BETWEEN CURRENT ROW AND 1 PRECEDING)]: The frame ends before it starts.

SELECT sum(score) OVER (ORDER BY score ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM stories
--> unsupported at [sum(score) OVER (ORDER BY score ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES)]: EXCLUDE in a window's frame is not kept up to date.

SELECT lag(title) IGNORE NULLS OVER (ORDER BY id) FROM stories
--> unsupported at [lag(title)]: IGNORE NULLS and RESPECT NULLS are not kept up to date.

SELECT ntile(:n) OVER (ORDER BY id) FROM stories
--> unsupported at [:n]: The parameter :n is no key, list or range of a column, and what stands beside it does not tell its type. Write it in a condition like `column = :n`, or as a cast to its type.

SELECT id FROM stories UNION SELECT story_id, user_id FROM votes
--> invalid at [story_id, user_id FROM votes]: Both sides of UNION must show the same number of columns, not 1 and 2.

SELECT id FROM stories UNION SELECT user_id FROM votes
--> unsupported at [user_id FROM votes]: UNION of int8, text is not on the list of exact functions.

SELECT id FROM stories UNION SELECT story_id FROM votes ORDER BY id + 1
--> invalid at [id + 1]: Behind UNION, INTERSECT or EXCEPT, ORDER BY names columns that are shown.

SELECT * FROM (SELECT id FROM stories WHERE id = :x LIMIT :n) d
--> unsupported at [:n]: The parameter :n limits rows that are no view's own, or WITH TIES.

SELECT id FROM stories LIMIT -1
--> invalid at [1]: LIMIT must not be negative.

SELECT id FROM stories LIMIT 1 + 1
--> unsupported at [1 + 1]: LIMIT takes a number or a parameter.

(SELECT id FROM stories ORDER BY id LIMIT 3) ORDER BY id
--> invalid at [id FROM stories ORDER BY id LIMIT 3) ORDER BY id]: A query in parentheses has its ORDER BY, LIMIT, OFFSET or WITH once.

SELECT pg_advisory_lock(id) FROM stories
--> invalid at [pg_advisory_lock(id)]: A view changes nothing, so it cannot call pg_advisory_lock.

SELECT set_config('search_path', 'x', false) FROM stories
--> invalid at [set_config('search_path', 'x', false)]: A view changes nothing, so it cannot call set_config.

SELECT setseed(0.5) FROM stories
--> invalid at [setseed(0.5)]: A view changes nothing, so it cannot call setseed.

SELECT lo_unlink(1) FROM stories
--> invalid at [lo_unlink(1)]: A view changes nothing, so it cannot call lo_unlink.

SELECT pg_terminate_backend(1) FROM stories
--> invalid at [pg_terminate_backend(1)]: A view changes nothing, so it cannot call pg_terminate_backend.

SELECT * FROM dblink('x') AS t(a int)
--> invalid at [dblink('x')]: A view changes nothing, so it cannot call dblink.

SELECT query_to_xml('DELETE FROM stories', true, true, '') FROM stories
--> invalid at [query_to_xml('DELETE FROM stories', true, true, '')]: A view changes nothing, so it cannot call query_to_xml.

SELECT word FROM ts_stat('SELECT pg_sleep(1)')
--> invalid at [ts_stat('SELECT pg_sleep(1)')]: A view changes nothing, so it cannot call ts_stat.

SELECT ts_rewrite('a'::tsquery, 'SELECT 1') FROM stories
--> invalid at [ts_rewrite('a'::tsquery, 'SELECT 1')]: A view changes nothing, so it cannot call ts_rewrite.

SELECT * FROM crosstab3('SELECT 1')
--> invalid at [crosstab3('SELECT 1')]: A view changes nothing, so it cannot call crosstab3.

SELECT pg_logical_emit_message(false, 'a', 'b') FROM stories
--> invalid at [pg_logical_emit_message(false, 'a', 'b')]: A view changes nothing, so it cannot call pg_logical_emit_message.

WITH w AS (INSERT INTO votes VALUES (1, 'a', 1) RETURNING *) SELECT id FROM stories
--> invalid at [votes VALUES (1, 'a', 1) RETURNING *]: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

SELECT id FROM stories UNION (SELECT id FROM comments FOR SHARE)
--> invalid: A view takes no locks. (Remove FOR UPDATE or FOR SHARE.)

SELECT s.id, (SELECT body FROM comments c WHERE c.story_id = s.id) FROM stories s
--> unsupported at [body FROM comments c WHERE c.story_id = s.id]: A subquery as a value that may have several rows, which would be an error, is not kept up to date: give it an aggregate, LIMIT 1, or equalities with a unique key.

SELECT s.id FROM stories s WHERE s.id IN (SELECT story_id, user_id FROM votes)
--> invalid at [s.id IN (SELECT story_id, user_id FROM votes)]: The subquery shows 2 columns, and is compared with 1.

SELECT s.id FROM stories s WHERE (s.id, s.rating) NOT IN (SELECT story_id, value FROM votes)
--> unsupported at [s.id, s.rating) NOT IN (SELECT story_id, value FROM votes]: Whether a row of several columns is in a subquery that has NULLs is kept up to date only where its truth alone matters.

SELECT s.id FROM stories s WHERE EXISTS (SELECT 1 FROM votes v WHERE v.story = s.id)
--> invalid at [v.story]: There is no column "story". (Did you mean "story_id"?)

SELECT s.id FROM stories s WHERE EXISTS (SELECT 1 FROM votes v WHERE v.story_id = x.id)
--> invalid at [x]: There is no table "x" in FROM.

SELECT (SELECT max(s.score) FROM tags) FROM stories s
--> unsupported at [max(s.score) FROM tags]: An aggregate in a subquery whose columns are all of the query around it belongs to that one.

SELECT s.author, (SELECT title FROM stories o WHERE o.id = s.id) FROM stories s GROUP BY s.author
--> invalid at [s.author, (SELECT title FROM stories o WHERE o.id = s.id) FROM stories s GROUP BY s.author]: A column that is shown, ordered by or in HAVING must stand in GROUP BY or in an aggregate.

SELECT s.id FROM votes v RIGHT JOIN stories s ON v.story_id IN (SELECT story_id FROM comments)
--> unsupported at [v.story_id IN (SELECT story_id FROM comments)]: A subquery here is not kept up to date.

SELECT s.id FROM stories s LEFT JOIN LATERAL (SELECT count(*) AS n FROM votes v WHERE v.story_id = s.id) l ON l.n > 1
--> unsupported at [l.n > 1]: A condition in the ON of a LEFT JOIN LATERAL of an aggregate without GROUP BY is not kept up to date.

SELECT s.id FROM stories s FULL JOIN votes v ON v.story_id = s.id AND v.user_id = :me
--> unsupported at [:me]: A parameter inside a FULL JOIN is not kept up to date.

SELECT s.id FROM stories s FULL JOIN votes v ON v.story_id > s.id
--> unsupported at [votes v ON v.story_id > s.id]: A FULL JOIN without an equality of columns of both sides is not kept up to date.

SELECT count(*), (SELECT count(*) FROM votes) FROM stories WHERE author = :a
--> unsupported at [:a]: Subqueries beside an aggregate without GROUP BY that has parameters are not kept up to date.

SELECT s.id FROM stories s, votes v JOIN comments c ON c.story_id = s.id
--> invalid at [s]: There is no table "s" in FROM.

SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v(a, b)
--> unsupported at [1, 'a']: The SELECT reads no table.

SELECT s.id FROM stories s JOIN comments c USING (id, title)
--> invalid at [title]: There is no column "title" on the right side of the join.

SELECT other.stories.id FROM stories
--> invalid at [stories]: There is no table "stories" in FROM.

SELECT :n::int AS n
--> unsupported at [:n]: The parameter :n has no table beside it that it could pick rows of.

SELECT id FROM stories WHERE score = :n UNION ALL SELECT story_id FROM votes WHERE value = :n AND user_id = :me
--> unsupported: No route leads to the one row that an aggregate without GROUP BY has for any key.

SELECT s.id, ARRAY(SELECT array_agg(c.id) FROM comments c WHERE c.story_id = s.id) FROM stories s
--> unsupported at [array_agg(c.id) FROM comments c WHERE c.story_id = s.id]: Arrays of arrays are not kept up to date.

SELECT s.id, ARRAY(SELECT c.id, c.body FROM comments c WHERE c.story_id = s.id) FROM stories s
--> invalid at [c.id, c.body FROM comments c WHERE c.story_id = s.id]: ARRAY takes a query of one column.

SELECT id FROM stories WHERE score IN (VALUES (1), (2.5))
--> unsupported at [score IN (VALUES (1), (2.5))]: IN of VALUES of different types is not on the list of exact expressions.

SELECT id FROM stories WHERE (id, score) IN (VALUES (1, 2), (3))
--> unsupported at [id, score) IN (VALUES (1, 2), (3)]: Rows of different lengths are not compared.

SELECT id FROM stories WHERE id IN (VALUES (:a), (2))
--> unsupported at [:a]: The parameter :a is no key, list or range of a column, and what stands beside it does not tell its type. Write it in a condition like `column = :a`, or as a cast to its type.

SELECT id, rating * :factor FROM stories
--> unsupported at [:factor]: The parameter :factor, of type numeric, may only be compared.
