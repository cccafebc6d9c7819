-- One view per thing that a rule of `plan.rules.optimize` must do or leave alone.

-- view: left_join_with_a_condition_on_padding_stays
SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE v.value IS NULL;
/*
view left_join_with_a_condition_on_padding_stays
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: id, value
  route: stories whole, then votes whole
  join
    left votes.story_id = stories.id
    where votes.value IS NULL
    columns stories.id, votes.value
    table public.stories (id)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
    table public.votes (story_id, value)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT t."id" FROM public.stories t
  lookup: SELECT t."story_id", t."value" FROM public.votes t
*/

-- view: where_makes_a_left_join_inner
SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE v.value > 0 AND s.id = :id;
/*
view where_makes_a_left_join_inner
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, value
  route: stories by id, then votes by story_id
  join
    inner votes.story_id = stories.id
    columns stories.id, votes.value
    table public.stories (id)
      materialized by id
    table public.votes (story_id, value)
      where value > 0
      materialized by story_id
  lookup: SELECT t."id" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", t."value" FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) AND (t."value" > '0'::int2)
*/

-- view: an_inner_join_on_a_left_input_makes_it_inner
SELECT c.id, p.id AS parent, u.display_name FROM comments c LEFT JOIN comments p ON p.id = c.parent_id JOIN users u ON u.name = p.author WHERE c.id = :id;
/*
view an_inner_join_on_a_left_input_makes_it_inner
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = comments.id
  columns: id, comments2.id AS parent, display_name
  route: comments by id, then comments2 by id, then users by name
  join
    inner comments2.id = comments.parent_id
    inner users.name = comments2.author
    columns comments.id, comments2.id, users.display_name
    table public.comments (id, parent_id)
      materialized by id
    table public.comments (id, author)
      materialized by id
    table public.users (name, display_name)
      materialized by name
  lookup: SELECT t."id", t."parent_id" FROM public.comments t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id", t."author" FROM public.comments t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."name", t."display_name" FROM public.users t WHERE t."name" = ANY($1::text[])
*/

-- view: a_parameter_on_a_left_input_makes_it_inner
SELECT s.id FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE v.user_id = :user;
/*
view a_parameter_on_a_left_input_makes_it_inner
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :user = votes.user_id
  columns: id
  route: votes by user_id, then stories by id
  join
    inner votes.story_id = stories.id
    columns stories.id, votes.user_id
    table public.stories (id)
      materialized by id
    table public.votes (story_id, user_id)
      materialized by user_id
  lookup: SELECT t."story_id", t."user_id" FROM public.votes t WHERE t."user_id" = ANY($1::text[])
    warning: no index of public.votes begins with user_id: each lookup reads the whole table
  lookup: SELECT t."id" FROM public.stories t WHERE t."id" = ANY($1::int8[])
*/

-- view: left_off_left
SELECT c.id, p.id AS parent, g.id AS grandparent FROM comments c LEFT JOIN comments p ON p.id = c.parent_id LEFT JOIN comments g ON g.id = p.parent_id WHERE c.story_id = :story;
/*
view left_off_left
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :story = comments.story_id
  columns: id, comments2.id AS parent, comments3.id AS grandparent
  route: comments by story_id, then comments2 by id, then comments3 by id
  join
    left comments2.id = comments.parent_id
    left comments3.id = comments2.parent_id
    columns comments.id, comments.story_id, comments2.id, comments3.id
    table public.comments (id, story_id, parent_id)
      materialized by story_id
    table public.comments (id, parent_id)
      materialized by id
    table public.comments (id)
      materialized by id
  lookup: SELECT t."id", t."story_id", t."parent_id" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
  lookup: SELECT t."id", t."parent_id" FROM public.comments t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id" FROM public.comments t WHERE t."id" = ANY($1::int8[])
*/

-- view: predicates_go_down_and_columns_are_pruned
SELECT s.title FROM stories s JOIN users u ON u.name = s.author WHERE s.score > 10 AND NOT s.removed AND u.joined < '2020-01-01' AND u.name = :name;
/*
view predicates_go_down_and_columns_are_pruned
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :name = users.name
  columns: title
  route: users by name, then stories by author
  join
    inner users.name = stories.author
    columns stories.title, users.name
    table public.stories (title, author)
      where (score > 10) AND (NOT removed)
      materialized by author
    table public.users (name)
      where joined < '2020-01-01'
      materialized by name
  lookup: SELECT t."name" FROM public.users t WHERE t."name" = ANY($1::text[]) AND (t."joined" < '2020-01-01'::date)
  lookup: SELECT t."title", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[]) AND ((t."score" > 10) AND (NOT t."removed"))
*/

-- view: own_conditions_of_a_left_join_go_down
SELECT s.id, v.user_id FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.value > 0 WHERE s.id = :id;
/*
view own_conditions_of_a_left_join_go_down
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, user_id
  route: stories by id, then votes by story_id
  join
    left votes.story_id = stories.id
    columns stories.id, votes.user_id
    table public.stories (id)
      materialized by id
    table public.votes (story_id, user_id)
      where value > 0
      materialized by story_id
  lookup: SELECT t."id" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", t."user_id" FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) AND (t."value" > '0'::int2)
*/

-- view: constants_spread_over_joins
SELECT s.title, u.display_name, v.value FROM stories s JOIN users u ON u.name = s.author LEFT JOIN votes v ON v.story_id = s.id WHERE s.author = 'ann' AND s.id IN (1, 2);
/*
view constants_spread_over_joins
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: title, display_name, value
  route: stories whole, then users whole, then votes whole
  join
    inner users.name = stories.author
    left votes.story_id = stories.id
    columns stories.title, users.display_name, votes.value
    table public.stories (id, title, author)
      where (author = 'ann') AND (id IN (1, 2))
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
    table public.users (name, display_name)
      where name = 'ann'
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
    table public.votes (story_id, value)
      where story_id IN (1, 2)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT t."id", t."title", t."author" FROM public.stories t WHERE (t."author" = 'ann'::text) AND (t."id" IN ('1'::int8, '2'::int8))
  lookup: SELECT t."name", t."display_name" FROM public.users t WHERE t."name" = 'ann'::text
  lookup: SELECT t."story_id", t."value" FROM public.votes t WHERE t."story_id" IN ('1'::int8, '2'::int8)
*/

-- view: comma_joins
SELECT s.title FROM tags t, stories s, taggings g WHERE g.tag_id = t.id AND s.id = g.story_id AND t.name = :tag;
/*
view comma_joins
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :tag = tags.name
  columns: title
  route: tags by name, then taggings by tag_id, then stories by id
  join
    inner taggings.story_id = stories.id
    inner tags.id = taggings.tag_id
    columns stories.title, tags.name
    table public.stories (id, title)
      materialized by id
    table public.taggings (story_id, tag_id)
      materialized by tag_id
    table public.tags (id, name)
      materialized by name
  lookup: SELECT t."id", t."name" FROM public.tags t WHERE t."name" = ANY($1::text[])
  lookup: SELECT t."story_id", t."tag_id" FROM public.taggings t WHERE t."tag_id" = ANY($1::int8[])
  lookup: SELECT t."id", t."title" FROM public.stories t WHERE t."id" = ANY($1::int8[])
*/

-- view: self_join
SELECT a.id, b.id AS other FROM stories a JOIN stories b ON a.author = b.author WHERE a.id = :id AND a.id <> b.id;
/*
view self_join
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, stories2.id AS other
  route: stories by id, then stories2 by author
  join
    inner stories2.author = stories.author
    where stories.id <> stories2.id
    columns stories.id, stories2.id
    table public.stories (id, author)
      materialized by id
      materialized by author
    table public.stories (id, author)
      materialized by id
      materialized by author
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
*/

-- view: two_counts_multiply
SELECT s.author, COUNT(*), COUNT(v.user_id) AS votes, SUM(v.value), COUNT(c.id) AS comments FROM stories s LEFT JOIN votes v ON v.story_id = s.id LEFT JOIN comments c ON c.story_id = s.id WHERE s.author = :author GROUP BY s.author;
/*
view two_counts_multiply
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: author, count(*) times coalesce(comments.count(*), 1) * coalesce(votes.count(*), 1) AS count, count(*) times coalesce(comments.count(*), 1) * coalesce(votes.count(*), 0) AS votes, sum(votes.sum(value)) of coalesce(votes.count(*), 0) values times coalesce(comments.count(*), 1) AS sum, count(*) times coalesce(comments.count(*), 0) * coalesce(votes.count(*), 1) AS comments
  select
    columns stories.author, count(*) times coalesce(comments.count(*), 0) * coalesce(votes.count(*), 1), count(*) times coalesce(comments.count(*), 1) * coalesce(votes.count(*), 0), count(*) times coalesce(comments.count(*), 1) * coalesce(votes.count(*), 1), sum(votes.sum(value)) of coalesce(votes.count(*), 0) values times coalesce(comments.count(*), 1)
    aggregate by stories.author: count(*) times coalesce(comments.count(*), 0) * coalesce(votes.count(*), 1), count(*) times coalesce(comments.count(*), 1) * coalesce(votes.count(*), 0), count(*) times coalesce(comments.count(*), 1) * coalesce(votes.count(*), 1), sum(votes.sum(value)) of coalesce(votes.count(*), 0) values times coalesce(comments.count(*), 1)
      materialized by stories.author
      route: stories by author, then comments by story_id, then votes by story_id
      join
        left comments.story_id = stories.id
        left votes.story_id = stories.id
        columns stories.author, comments.count(*), votes.count(*), votes.sum(value)
        table public.stories (id, author)
          materialized by author
        aggregate by story_id: count(*)
          materialized by story_id
          table public.comments (story_id)
        aggregate by story_id: count(*), sum(value)
          materialized by story_id
          table public.votes (story_id, value)
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."story_id", count(*), count(*) FROM public.comments t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
  lookup: SELECT t."story_id", count(*), count(t."value"), sum(t."value"), count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: two_counts_of_one_story
SELECT s.id, COUNT(*), COUNT(v.user_id) AS votes, AVG(v.value), COUNT(c.id) AS comments FROM stories s LEFT JOIN votes v ON v.story_id = s.id LEFT JOIN comments c ON c.story_id = s.id WHERE s.id = :id GROUP BY s.id;
/*
view two_counts_of_one_story
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, coalesce(comments.count(*), 1) * coalesce(votes.count(*), 1) AS count, coalesce(comments.count(*), 1) * coalesce(votes.count(*), 0) AS votes, average(votes.sum(value) * coalesce(comments.count(*), 1), coalesce(comments.count(*), 1) * coalesce(votes.count(*), 0)) AS avg, coalesce(comments.count(*), 0) * coalesce(votes.count(*), 1) AS comments
  route: stories by id, then comments by story_id, then votes by story_id
  join
    left comments.story_id = stories.id
    left votes.story_id = stories.id
    columns stories.id, coalesce(comments.count(*), 0) * coalesce(votes.count(*), 1), coalesce(comments.count(*), 1) * coalesce(votes.count(*), 0), coalesce(comments.count(*), 1) * coalesce(votes.count(*), 1), average(votes.sum(value) * coalesce(comments.count(*), 1), coalesce(comments.count(*), 1) * coalesce(votes.count(*), 0))
    table public.stories (id)
      materialized by id
    aggregate by story_id: count(*)
      materialized by story_id
      table public.comments (story_id)
    aggregate by story_id: count(*), sum(value)
      materialized by story_id
      table public.votes (story_id, value)
  lookup: SELECT t."id" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", count(*), count(*) FROM public.comments t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
  lookup: SELECT t."story_id", count(*), count(t."value"), sum(t."value"), count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: padding_that_counts_is_not_aggregated_early
SELECT s.id, SUM(COALESCE(v.value, 1)) FROM stories s LEFT JOIN votes v ON v.story_id = s.id GROUP BY s.id;
/*
view padding_that_counts_is_not_aggregated_early
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: id, sum(coalesce(votes.value::int4, 1)) AS sum
  select
    columns stories.id, sum(coalesce(votes.value::int4, 1))
    aggregate by stories.id: sum(coalesce(votes.value::int4, 1))
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      route: stories whole, then votes whole
      join
        left votes.story_id = stories.id
        columns stories.id, votes.value
        table public.stories (id)
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
        table public.votes (story_id, value)
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT t."id" FROM public.stories t
  lookup: SELECT t."story_id", t."value" FROM public.votes t
*/

-- view: an_aggregate_over_one_table_stays
SELECT author, COUNT(*), MAX(score) FROM stories WHERE author = :author GROUP BY author HAVING COUNT(*) > 1;
/*
view an_aggregate_over_one_table_stays
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = author
  columns: author, count(*) AS count, max(score) AS max
  select
    where count(*) > 1
    columns author, count(*), max(score)
    aggregate by author: count(*), max(score)
      materialized by author
      table public.stories (author, score)
  lookup: SELECT t."author", count(*), t."score", count(t."score"), count(*) FROM public.stories t WHERE t."author" = ANY($1::text[]) GROUP BY t."author", t."score"
*/

-- view: without_group_by_a_key_always_has_a_row
SELECT COUNT(*), SUM(score) FROM stories WHERE author = :author;
/*
view without_group_by_a_key_always_has_a_row
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = author
  columns: count(*) AS count, sum(score) AS sum
  for NULL: NULL, 0, NULL
  select
    columns author, count(*), sum(score)
    aggregate by author: count(*), sum(score)
      a row even for no rows
      materialized by author
      table public.stories (author, score)
  lookup: SELECT t."author", count(*), count(t."score"), sum(t."score"), count(*) FROM public.stories t WHERE t."author" = ANY($1::text[]) GROUP BY t."author"
*/

-- view: having_on_group_columns_goes_down
SELECT author, COUNT(*) FROM stories GROUP BY author HAVING author > 'm' AND COUNT(*) > 1;
/*
view having_on_group_columns_goes_down
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: author, count(*) AS count
  select
    where count(*) > 1
    columns author, count(*)
    aggregate by author: count(*)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      table public.stories (author)
        where author > 'm'
  lookup: SELECT t."author", count(*), count(*) FROM public.stories t WHERE t."author" > 'm'::text GROUP BY t."author"
*/

-- view: a_derived_table_is_merged
SELECT d.title, u.display_name FROM (SELECT title, author FROM stories WHERE score > 0) d JOIN users u ON u.name = d.author WHERE u.name = :name;
/*
view a_derived_table_is_merged
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :name = users.name
  columns: title, display_name
  route: users by name, then stories by author
  join
    inner users.name = stories.author
    columns stories.title, users.name, users.display_name
    table public.stories (title, author)
      where score > 0
      materialized by author
    table public.users (name, display_name)
      materialized by name
  lookup: SELECT t."name", t."display_name" FROM public.users t WHERE t."name" = ANY($1::text[])
  lookup: SELECT t."title", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[]) AND (t."score" > 0)
*/

-- view: a_join_over_an_aggregate
SELECT s.id, s.title, c.n FROM stories s JOIN (SELECT story_id, COUNT(*) AS n FROM comments GROUP BY story_id) c ON c.story_id = s.id WHERE s.id = :id AND c.n > 2;
/*
view a_join_over_an_aggregate
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, title, comments.count(*) AS n
  route: stories by id, then comments by story_id
  join
    inner stories.id = comments.story_id
    where comments.count(*) > 2
    columns comments.count(*), stories.id, stories.title
    aggregate by story_id: count(*)
      materialized by story_id
      table public.comments (story_id)
    table public.stories (id, title)
      materialized by id
  lookup: SELECT t."id", t."title" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", count(*), count(*) FROM public.comments t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: an_aggregate_over_an_aggregate
WITH counts AS (SELECT author, COUNT(*) AS n FROM stories GROUP BY author) SELECT n, COUNT(*) AS authors FROM counts GROUP BY n ORDER BY n;
/*
view an_aggregate_over_an_aggregate
  incremental, full: No parameter is a key (column = :name), and its order is not one of a table's columns: the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: count(*) AS n, count(*) AS authors
  order: count(*)
  select
    columns count(*), count(*)
    aggregate by count(*): count(*)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      select
        columns count(*)
        aggregate by author: count(*)
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
          table public.stories (author)
  lookup: SELECT t."author", count(*), count(*) FROM public.stories t GROUP BY t."author"
*/

-- view: computed_columns_of_a_left_derived_table_stay_below_the_padding
SELECT s.id, d.n FROM stories s LEFT JOIN (SELECT story_id, COUNT(*) + 1 AS n FROM comments GROUP BY story_id) d ON d.story_id = s.id WHERE s.id = :id;
/*
view computed_columns_of_a_left_derived_table_stay_below_the_padding
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, comments.count(*) + 1 AS n
  route: stories by id, then comments by story_id
  join
    left comments.story_id = stories.id
    columns stories.id, comments.count(*) + 1
    table public.stories (id)
      materialized by id
    select
      columns story_id, count(*) + 1
      materialized by story_id
      aggregate by story_id: count(*)
        materialized by story_id
        table public.comments (story_id)
  lookup: SELECT t."id" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", count(*), count(*) FROM public.comments t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: a_parameter_inside_a_derived_table
WITH mine AS (SELECT id, title FROM stories WHERE author = :author) SELECT m.title, c.body FROM mine m JOIN comments c ON c.story_id = m.id;
/*
view a_parameter_inside_a_derived_table
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: title, body
  route: stories by author, then comments by story_id
  join
    inner stories.id = comments.story_id
    columns comments.body, stories.title, stories.author
    table public.comments (story_id, body)
      materialized by story_id
    table public.stories (id, title, author)
      materialized by author
  lookup: SELECT t."id", t."title", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."story_id", t."body" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
*/

-- view: a_computed_parameter_has_no_route
SELECT id FROM stories WHERE score + 1 = :more;
/*
view a_computed_parameter_has_no_route
  incremental, full: No route leads from :more to a column of a table: the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  parameters: :more = score + 1
  columns: id
  table public.stories (id, score + 1)
  lookup: SELECT t."id", t."score" + 1 FROM public.stories t
*/

-- view: no_index
SELECT id FROM stories WHERE url = :url ORDER BY created_at DESC NULLS LAST, id LIMIT 5 OFFSET 10;
/*
view no_index
  incremental, partial: Only what is read of a key is filled, in parts of the order created_at DESC NULLS LAST, id.
  parameters: :url = url
  columns: id
  order: created_at DESC NULLS LAST, id
  limit 5 offset 10
  table public.stories (id, url, created_at)
  lookup: SELECT t."id", t."url", t."created_at" FROM public.stories t WHERE t."url" = ANY($1::text[])
    warning: no index of public.stories begins with url: each lookup reads the whole table
  lookup of a part: SELECT t."id", t."url", t."created_at" FROM public.stories t WHERE t."url" = $1::text ORDER BY t."created_at" DESC, t."id" FETCH FIRST 15 ROWS WITH TIES
    warning: no index of public.stories begins with url, then created_at: each part is sorted anew
*/

-- view: counts_are_by_a_unique_key_already
SELECT v.story_id, v.user_id, COUNT(c.id) FROM votes v LEFT JOIN comments c ON c.story_id = v.story_id AND c.author = v.user_id WHERE v.story_id = :story GROUP BY v.story_id, v.user_id;
/*
view counts_are_by_a_unique_key_already
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :story = votes.story_id
  columns: story_id, user_id, coalesce(comments.count(*), 0) AS count
  route: votes by story_id, then comments by story_id, author
  join
    left comments.story_id = votes.story_id and comments.author = votes.user_id
    columns votes.story_id, votes.user_id, coalesce(comments.count(*), 0)
    table public.votes (story_id, user_id)
      materialized by story_id
    aggregate by story_id, author: count(*)
      materialized by story_id, author
      table public.comments (story_id, author)
  lookup: SELECT t."story_id", t."user_id" FROM public.votes t WHERE t."story_id" = ANY($1::int8[])
  lookup: SELECT t."story_id", t."author", count(*), count(*) FROM public.comments t JOIN unnest($1::int8[], $2::text[]) AS k(k1, k2) ON t."story_id" = k.k1 AND t."author" = k.k2 GROUP BY t."story_id", t."author"
*/

-- view: a_left_join_of_one_row_that_nothing_reads_goes
SELECT s.id, s.title FROM stories s LEFT JOIN (SELECT story_id, count(*) AS n FROM votes GROUP BY story_id) v ON v.story_id = s.id LEFT JOIN users u ON u.name = s.author WHERE s.id = :id;
/*
view a_left_join_of_one_row_that_nothing_reads_goes
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = id
  columns: id, title
  table public.stories (id, title)
  lookup: SELECT t."id", t."title" FROM public.stories t WHERE t."id" = ANY($1::int8[])
*/

-- view: a_left_join_of_several_rows_stays
SELECT s.id, s.title FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id;
/*
view a_left_join_of_several_rows_stays
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, title
  route: stories by id, then votes by story_id
  join
    left votes.story_id = stories.id
    columns stories.id, stories.title
    table public.stories (id, title)
      materialized by id
    table public.votes (story_id)
      materialized by story_id
  lookup: SELECT t."id", t."title" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id" FROM public.votes t WHERE t."story_id" = ANY($1::int8[])
*/

-- view: a_left_join_that_another_needs_stays
SELECT c.id, u.name FROM comments c LEFT JOIN comments p ON p.id = c.parent_id LEFT JOIN users u ON u.name = p.author WHERE c.id = :id;
/*
view a_left_join_that_another_needs_stays
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = comments.id
  columns: id, name
  route: comments by id, then comments2 by id, then users by name
  join
    left comments2.id = comments.parent_id
    left users.name = comments2.author
    columns comments.id, users.name
    table public.comments (id, parent_id)
      materialized by id
    table public.comments (id, author)
      materialized by id
    table public.users (name)
      materialized by name
  lookup: SELECT t."id", t."parent_id" FROM public.comments t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id", t."author" FROM public.comments t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."name" FROM public.users t WHERE t."name" = ANY($1::text[])
*/

-- view: computed_values_join_what_nothing_else_does
SELECT s.id, count(c.id) AS comments FROM stories s LEFT JOIN comments c ON c.created_at::date = s.created_at::date AND c.id > s.id WHERE s.id = :id GROUP BY s.id;
/*
view computed_values_join_what_nothing_else_does
  incremental, partial: Each key is filled by its first read; inputs that no route reaches from the key are fully materialized then.
  parameters: :id = stories.id
  columns: id, count(comments.id) AS comments
  select
    columns stories.id, count(comments.id)
    aggregate by stories.id: count(comments.id)
      materialized by stories.id
      route: stories by id, then comments whole
      join
        left comments.created_at::date = stories.created_at::date and stories.id < comments.id
        columns stories.id, comments.id
        table public.stories (id, created_at::date)
          materialized by id
        table public.comments (id, created_at::date)
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT t."id", t."created_at"::date FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id", t."created_at"::date FROM public.comments t
*/

-- view: computed_values_join_inner_inputs
SELECT s.id, t.id AS other FROM stories s, stories t WHERE t.score + 1 = s.score AND s.id = :id;
/*
view computed_values_join_inner_inputs
  incremental, partial: Each key is filled by its first read; inputs that no route reaches from the key are fully materialized then.
  parameters: :id = stories.id
  columns: id, stories2.id AS other
  route: stories by id, then stories2 whole
  join
    inner stories2.score + 1 = stories.score
    columns stories.id, stories2.id
    table public.stories (id, score)
      materialized by id
    table public.stories (id, score + 1)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT t."id", t."score" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id", t."score" + 1 FROM public.stories t
*/

-- view: computed_values_beside_a_join_condition_are_compared
SELECT s.id, t.id AS other FROM stories s LEFT JOIN stories t ON t.author = s.author AND t.score + 1 = s.score WHERE s.id = :id;
/*
view computed_values_beside_a_join_condition_are_compared
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, stories2.id AS other
  route: stories by id, then stories2 by author
  join
    left stories2.author = stories.author and stories.score = (stories2.score + 1)
    columns stories.id, stories2.id
    table public.stories (id, author, score)
      materialized by id
      materialized by author
    table public.stories (id, author, score)
      materialized by id
      materialized by author
  lookup: SELECT t."id", t."author", t."score" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id", t."author", t."score" FROM public.stories t WHERE t."author" = ANY($1::text[])
*/
