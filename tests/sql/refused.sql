-- Each statement, and the error of planning it over the news site. Read by test_refused.py.

SELECT DISTINCT author FROM stories
--> unsupported: SELECT DISTINCT is not kept up to date yet.

SELECT id FROM stories UNION SELECT id FROM comments
--> unsupported: UNION, INTERSECT and EXCEPT are not kept up to date yet.

SELECT id, row_number() OVER (ORDER BY id) FROM stories
--> unsupported at [row_number() OVER (ORDER BY id)]: Window functions are not kept up to date yet.

SELECT id FROM stories WHERE score > :s
--> unsupported at [score > :s]: Range parameters are not kept up to date yet: :s is not compared with `=`.

SELECT id FROM stories WHERE id IN (:a, :b)
--> unsupported at [id IN (:a, :b)]: Lists of parameters are not kept up to date yet (:a).

SELECT id FROM stories WHERE id = :a OR author = :b
--> unsupported at [id = :a OR author = :b]: The parameter :a may only stand in a condition `column = :a` that is ANDed with the others, yet.

SELECT id, :x AS x FROM stories
--> unsupported at [:x]: The parameter :x may only stand in a condition `column = :x` that is ANDed with the others, yet.

SELECT id FROM stories WHERE id IN (SELECT story_id FROM votes)
--> unsupported at [id IN (SELECT story_id FROM votes)]: Subqueries inside expressions are not kept up to date yet.

SELECT id, (SELECT count(*) FROM votes v WHERE v.story_id = s.id) FROM stories s
--> unsupported at [count(*) FROM votes v WHERE v.story_id = s.id]: Subqueries inside expressions are not kept up to date yet.

SELECT id FROM stories WHERE EXISTS (SELECT 1 FROM votes)
--> unsupported at [1 FROM votes]: Subqueries inside expressions are not kept up to date yet.

SELECT 1 FROM stories s RIGHT JOIN votes v ON v.story_id = s.id
--> unsupported at [votes v ON v.story_id = s.id]: RIGHT JOIN is not kept up to date yet.

SELECT 1 FROM stories s FULL JOIN votes v ON v.story_id = s.id
--> unsupported at [votes v ON v.story_id = s.id]: FULL JOIN is not kept up to date yet.

SELECT 1 FROM stories CROSS JOIN votes
--> unsupported at [stories CROSS JOIN votes]: Joined tables that no equality of their columns connects (a cross join, or a join by another comparison) are not kept up to date yet.

SELECT 1 FROM stories, votes
--> unsupported at [stories, votes]: Joined tables that no equality of their columns connects (a cross join, or a join by another comparison) are not kept up to date yet.

SELECT 1 FROM stories s JOIN votes v ON v.story_id > s.id
--> unsupported at [stories s JOIN votes v ON v.story_id > s.id]: Joined tables that no equality of their columns connects (a cross join, or a join by another comparison) are not kept up to date yet.

SELECT 1 FROM stories NATURAL JOIN votes
--> unsupported at [votes]: NATURAL JOIN is not kept up to date yet.

SELECT s.id FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND s.score > 1
--> unsupported at [v.story_id = s.id AND s.score > 1]: The ON of a LEFT JOIN may only have equalities of columns of both sides, and conditions on the right side's own columns, yet.

SELECT s.id FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.user_id = :me
--> unsupported at [:me]: A parameter in the ON of a LEFT JOIN is not kept up to date yet.

SELECT s.id FROM stories s LEFT JOIN votes v ON true
--> unsupported at [votes v]: A LEFT JOIN needs an equality of columns of both sides.

SELECT now(), id FROM stories
--> unsupported at [now]: The current time is not a function of the database's contents.

SELECT random() FROM stories
--> unsupported at [random]: A random number is not a function of the database's contents.

SELECT lower(title) FROM stories
--> unsupported at [lower(title)]: LOWER is not on the list of exact functions.

SELECT title ILIKE 'a' FROM stories
--> unsupported at [title ILIKE 'a']: title ILIKE 'a' is not on the list of exact expressions.

SELECT title LIKE 'a\%' FROM stories
--> unsupported at [title LIKE 'a\%']: LIKE patterns with backslashes are not known.

SELECT score / 2 FROM stories
--> unsupported at [score / 2]: score / 2 is not on the list of exact expressions.

SELECT count(DISTINCT author) FROM stories
--> unsupported at [count(DISTINCT author)]: COUNT with DISTINCT, ORDER BY or several arguments is not kept up to date yet.

SELECT string_agg(title, ',') FROM stories
--> unsupported at [title, ',']: GROUPCONCAT is not kept up to date yet.

SELECT array_agg(id) FROM stories
--> unsupported at [array_agg(id)]: ARRAY_AGG is not kept up to date yet.

SELECT id FROM stories LIMIT :n
--> unsupported at [:n]: LIMIT and OFFSET take constants, yet.

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
--> invalid: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

WITH x AS (DELETE FROM stories RETURNING *) SELECT * FROM x
--> invalid: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

SELECT * FROM stories FOR UPDATE
--> invalid: A view takes no locks. (Remove FOR UPDATE or FOR SHARE.)

SELECT * INTO y FROM stories
--> invalid: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

SELECT nextval('x') FROM stories
--> invalid: A view changes nothing, so it cannot call nextval.

SELEC id FROM stories
--> invalid at [FROM]: The SQL has a syntax error near "FROM".

SELECT id FROM stories WHERE
--> invalid at [WHERE]: The SQL has a syntax error near "WHERE".

SELECT id FROM stories WHERE title = 'abc
--> invalid: The SQL has a string, identifier or comment that does not end.

SELECT 1
--> unsupported: The SELECT reads no table.

VALUES (1)
--> unsupported: Only a plain SELECT is kept up to date yet.

SELECT * FROM stories s TABLESAMPLE SYSTEM (10)
--> unsupported at [stories s TABLESAMPLE SYSTEM (10)]: stories AS s TABLESAMPLE SYSTEM (10) in FROM is not kept up to date yet.

SELECT * FROM ONLY stories
--> unsupported at [stories]: ONLY stories in FROM is not kept up to date yet.

SELECT * FROM generate_series(1, 2)
--> unsupported at [generate_series(1, 2)]: GENERATE_SERIES(1, 2) in FROM is not kept up to date yet.

SELECT * FROM stories s, LATERAL (SELECT 1) x
--> unsupported at [1) x]: LATERAL (SELECT 1) AS x in FROM is not kept up to date yet.

WITH RECURSIVE x AS (SELECT 1 AS a) SELECT a FROM x
--> unsupported at [x AS (SELECT 1 AS a)]: WITH RECURSIVE is not kept up to date yet.

SELECT s FROM stories s
--> unsupported at [s]: A whole row as one value is not kept up to date yet.

SELECT ctid FROM stories
--> unsupported at [ctid]: The change stream does not carry ctid.

SELECT id FROM stories WHERE id = 'abc'
--> unsupported at [id = 'abc']: The constant 'abc' is not read as int8: an integer from -9223372036854775808 to 9223372036854775807 is expected.

SELECT id FROM stories WHERE created_at > 'yesterday'
--> unsupported at [created_at > 'yesterday']: The constant 'yesterday' is not read as timestamptz: a timestamp like 2024-02-29 17:05:00+00 is expected.

SELECT n FROM (SELECT count(*) AS n FROM stories) d
--> unsupported at [count(*) AS n FROM stories]: An aggregate without GROUP BY in a derived table is not kept up to date yet.

SELECT * FROM (SELECT id FROM stories ORDER BY id LIMIT 3) d
--> unsupported at [id FROM stories ORDER BY id LIMIT 3]: LIMIT in a derived table is not kept up to date yet.

SELECT id FROM stories FETCH FIRST 3 ROWS WITH TIES
--> unsupported: FETCH … WITH TIES is not kept up to date yet.

SELECT author, count(*) FROM stories GROUP BY ROLLUP (author)
--> unsupported at [author]: ROLLUP (author) is not on the list of exact expressions.

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

SELECT "ID" FROM stories
--> invalid at ["ID"]: There is no column "ID".

SELECT id FROM stories WHERE (id, score) = (1, 2)
--> unsupported at [id, score]: (id, score) is not on the list of exact expressions.

SELECT id FROM stories WHERE title COLLATE "C" = 'x'
--> unsupported at [title COLLATE "C"]: COLLATE is not kept up to date yet.

SELECT a.id FROM stories a, stories a
--> invalid at [stories a]: The name "a" is given to two tables. (Give one of them an alias.)

SELECT id FROM stories WHERE id = ANY(ARRAY[1,2])
--> unsupported at [1,2]: ANY(ARRAY[1, 2]) is not on the list of exact expressions.

SELECT EXTRACT(year FROM created_at) FROM stories
--> unsupported at [created_at]: EXTRACT is not on the list of exact functions.

SELECT created_at::date FROM stories
--> unsupported at [created_at]: A cast from timestamptz to date is not on the list of exact functions.

SELECT created_at + interval '1 day' FROM stories
--> unsupported at [created_at]: INTERVAL '1 DAY' is not on the list of exact expressions.

SELECT coalesce(title, 1) FROM stories
--> unsupported at [coalesce(title, 1)]: COALESCE of text, int4 is not on the list of exact functions.

SELECT E'a' FROM stories
--> unsupported at [E'a']: e'a' is not on the list of exact expressions.

SELECT max(removed) FROM stories
--> unsupported at [max(removed)]: MAX of bool is not kept up to date yet.

EXPLAIN SELECT 1
--> invalid: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

SET x = 1
--> invalid: A view is a SELECT.

BEGIN
--> invalid: A view is a SELECT.

CREATE TABLE x (a int)
--> invalid: A view only reads: it must be a SELECT that changes nothing. (Remove the write.)

SELECT id FROM stories WINDOW w AS (PARTITION BY id)
--> unsupported: Window functions are not kept up to date yet.

SELECT id FROM otherschema.stories
--> invalid at [otherschema.stories]: There is no table "stories".

SELECT * FROM stories s JOIN votes v USING (nothing)
--> invalid at [nothing]: There is no column "nothing". (Did you mean "rating"?)

SELECT count(*) FROM stories GROUP BY ()
--> unsupported: () is not on the list of exact expressions.

SELECT ifnull(title, 'x') FROM stories
--> unsupported at [ifnull(title, 'x')]: IFNULL is not on the list of exact functions.

SELECT id AS x FROM stories WHERE x = 1
--> invalid at [x]: There is no column "x".

SELECT DISTINCT ON (author) id FROM stories
--> unsupported at [author]: SELECT DISTINCT is not kept up to date yet.

SELECT rating, COUNT(*) FROM stories GROUP BY rating
--> unsupported at [rating]: GROUP BY a column whose equal values may print differently (1.0 and 1.00): which of them the upstream prints depends on the order of rows.

SELECT MAX(rating) FROM stories
--> unsupported at [MAX(rating)]: MAX of numeric: equal values may print differently, and which of them the upstream prints depends on the order of rows.

SELECT SUM(*) FROM stories
--> invalid at [SUM(*)]: SUM takes an expression, not *.

SELECT id, FROM stories
--> invalid at [,]: The SQL has a syntax error near ",".

SELECT COUNT() FROM stories
--> invalid at [COUNT]: An argument is missing.

SELECT id FROM stories WHERE id = :id AND rating = :id
--> unsupported at [:id]: The parameter :id is compared with columns of two types.

SELECT title FROM stories GROUP BY COUNT(*)
--> invalid at [COUNT(*)]: Aggregate functions cannot stand in WHERE, ON or GROUP BY.

SELECT data ? 'k' FROM stories
--> unsupported at [data ? 'k']: JSONBCONTAINSTOPKEY is not on the list of exact functions.

SELECT 1; DROP TABLE stories
--> invalid at [DROP TABLE stories]: A view is one statement; this SQL has several. (Register them one by one.)

SELECT id FROM stories :a
--> unsupported at [:a]: Nothing reads the parameter :a.

WITH x AS (SELECT id FROM stories WHERE id = :x) SELECT id FROM stories
--> unsupported at [:x]: Nothing reads the parameter :x.
