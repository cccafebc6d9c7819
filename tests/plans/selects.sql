-- The forms of SELECT: what is grouped, united, numbered and cut is so for each key, whose columns go along.

-- view: distinct_is_a_grouping_by_what_is_shown_and_the_key
SELECT DISTINCT author FROM stories WHERE score = :score ORDER BY author;
/*
view distinct_is_a_grouping_by_what_is_shown_and_the_key
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :score = score
  columns: author
  order: author
  select
    columns author, score
    aggregate by author, score
      materialized by score
      table public.stories (author, score)
  lookup: SELECT t."author", t."score", count(*) FROM public.stories t WHERE t."score" = ANY($1::int8[]) GROUP BY t."author", t."score"
    warning: no index of public.stories begins with score: each lookup reads the whole table
*/

-- view: distinct_rows_of_a_key_are_no_grouping
SELECT DISTINCT id, title FROM stories WHERE author = :author;
/*
view distinct_rows_of_a_key_are_no_grouping
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = author
  columns: id, title
  table public.stories (id, title, author)
  lookup: SELECT t."id", t."title", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
*/

-- view: distinct_on_is_the_first_of_each_group
SELECT DISTINCT ON (author) author, title FROM stories WHERE removed = :removed ORDER BY author, score DESC;
/*
view distinct_on_is_the_first_of_each_group
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :removed = removed
  columns: author, title
  order: author, score DESC
  select
    columns title, author, score, removed
    first by author, removed: order score DESC limit 1
      materialized by removed
      table public.stories (title, author, score, removed)
  lookup: SELECT t."title", t."author", t."score", t."removed" FROM public.stories t WHERE t."removed" = ANY($1::bool[])
    warning: no index of public.stories begins with removed: each lookup reads the whole table
*/

-- view: values_among_others_are_one_list
SELECT id, title FROM stories WHERE author IN (:a, :b, 'c') ORDER BY id LIMIT 3;
/*
view values_among_others_are_one_list
  incremental, partial: Only what is read of a key is filled, in parts of the order id.
  parameters: :a or :b or 'c' = author
  columns: id, title
  order: id
  limit 3
  table public.stories (id, title, author)
  lookup: SELECT t."id", t."title", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup of a part: SELECT t."id", t."title", t."author" FROM public.stories t WHERE t."author" = $1::text ORDER BY t."id" FETCH FIRST 3 ROWS WITH TIES
    warning: no index of public.stories begins with author, then id: each part is sorted anew
*/

-- view: union_all_takes_its_filters_down
SELECT d.id, d.kind FROM (SELECT id, author, 'story' AS kind FROM stories UNION ALL SELECT id, author, 'comment' FROM comments) d WHERE d.author = :author AND d.id > 3;
/*
view union_all_takes_its_filters_down
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = author
  columns: id, 'comment' AS kind
  union
    table public.comments (id, author, 'comment')
      where id > 3
      materialized by author
    table public.stories (id, author, 'story')
      where id > 3
      materialized by author
  lookup: SELECT t."id", t."author", 'comment'::text FROM public.comments t WHERE t."author" = ANY($1::text[]) AND (t."id" > '3'::int8)
  lookup: SELECT t."id", t."author", 'story'::text FROM public.stories t WHERE t."author" = ANY($1::text[]) AND (t."id" > '3'::int8)
*/

-- view: union_groups_its_branches
SELECT story_id FROM votes WHERE user_id = :user UNION SELECT story_id FROM comments WHERE author = :user ORDER BY 1 LIMIT 5;
/*
view union_groups_its_branches
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :user = author
  columns: story_id
  order: story_id
  limit 5
  select
    columns story_id, author
    aggregate by story_id, author
      materialized by author
      union
        table public.comments (story_id, author)
          materialized by author
        table public.votes (story_id, user_id)
          materialized by user_id
  lookup: SELECT t."story_id", t."author" FROM public.comments t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."story_id", t."user_id" FROM public.votes t WHERE t."user_id" = ANY($1::text[])
    warning: no index of public.votes begins with user_id: each lookup reads the whole table
*/

-- view: except_counts_each_side
SELECT id FROM stories EXCEPT SELECT story_id FROM votes;
/*
view except_counts_each_side
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: id
  select
    where (count(CASE WHEN 0 = 1 THEN 1 ELSE NULL END) = 0) AND (count(CASE WHEN 0 = 0 THEN 1 ELSE NULL END) > 0)
    columns id
    aggregate by id: count(CASE WHEN 0 = 0 THEN 1 ELSE NULL END), count(CASE WHEN 0 = 1 THEN 1 ELSE NULL END)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      union
        table public.stories (id, 0)
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
        table public.votes (story_id, 1)
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT t."id", 0 FROM public.stories t
  lookup: SELECT t."story_id", 1 FROM public.votes t
*/

-- view: branches_of_several_unions_are_one
SELECT id FROM stories UNION ALL (SELECT story_id FROM votes UNION ALL SELECT story_id FROM comments);
/*
view branches_of_several_unions_are_one
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: story_id AS id
  union
    table public.comments (story_id)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
    table public.stories (id)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
    table public.votes (story_id)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT t."story_id" FROM public.comments t
  lookup: SELECT t."id" FROM public.stories t
  lookup: SELECT t."story_id" FROM public.votes t
*/

-- view: a_parameter_outside_the_partition_joins_it
SELECT id, row_number() OVER (PARTITION BY removed ORDER BY score DESC, id) AS n FROM stories WHERE author = :author;
/*
view a_parameter_outside_the_partition_joins_it
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = author
  columns: id, row_number() order score DESC, id AS n
  select
    columns id, author, row_number() order score DESC, id
    window by author, removed: row_number() order score DESC, id
      materialized by author
      table public.stories (id, author, score, removed)
  lookup: SELECT t."id", t."author", t."score", t."removed" FROM public.stories t WHERE t."author" = ANY($1::text[])
*/

-- view: several_partitions_are_windows_above_each_other
SELECT id, rank() OVER (PARTITION BY author ORDER BY score), count(*) OVER () FROM stories;
/*
view several_partitions_are_windows_above_each_other
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: id, rank() order score AS rank, count(*) AS count
  select
    columns id, rank() order score, count(*)
    window by nothing: count(*)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      select
        columns id, rank() order score
        window by author: rank() order score
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
          table public.stories (id, author, score)
  lookup: SELECT t."id", t."author", t."score" FROM public.stories t
*/

-- view: a_filter_on_the_partition_goes_below_a_window
SELECT d.id, d.n FROM (SELECT id, author, row_number() OVER (PARTITION BY author ORDER BY id) AS n FROM stories) d WHERE d.author = 'ann' AND d.n <= 2;
/*
view a_filter_on_the_partition_goes_below_a_window
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: id, row_number() order id AS n
  select
    where row_number() order id <= 2
    columns id, row_number() order id
    window by author: row_number() order id
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      table public.stories (id, author)
        where author = 'ann'
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = 'ann'::text
*/

-- view: windows_over_groups
SELECT author, count(*), sum(count(*)) OVER (ORDER BY count(*) DESC ROWS UNBOUNDED PRECEDING) AS running FROM stories GROUP BY author;
/*
view windows_over_groups
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: author, count(*) AS count, sum(count(*)) order count(*) DESC rows unbounded to 0 AS running
  select
    columns author, count(*), sum(count(*)) order count(*) DESC rows unbounded to 0
    window by nothing: sum(count(*)) order count(*) DESC rows unbounded to 0
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      select
        columns author, count(*)
        aggregate by author: count(*)
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
          table public.stories (author)
  lookup: SELECT t."author", count(*), count(*) FROM public.stories t GROUP BY t."author"
*/

-- view: unused_window_functions_are_dropped
SELECT d.id FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM stories) d;
/*
view unused_window_functions_are_dropped
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: id
  table public.stories (id)
  lookup: SELECT t."id" FROM public.stories t
*/

-- view: a_limit_below_is_for_each_key
SELECT d.id, u.display_name FROM (SELECT id, author FROM stories WHERE author = :author ORDER BY score DESC LIMIT 3) d JOIN users u ON u.name = d.author;
/*
view a_limit_below_is_for_each_key
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: id, display_name
  route: users by name, then stories by author
  join
    inner stories.author = users.name
    columns users.display_name, stories.id, stories.author
    table public.users (name, display_name)
      materialized by name
    first by author: order score DESC limit 3
      materialized by author
      table public.stories (id, author, score)
  lookup: SELECT t."name", t."display_name" FROM public.users t WHERE t."name" = ANY($1::text[])
  lookup: SELECT t."id", t."author", t."score" FROM public.stories t WHERE t."author" = ANY($1::text[])
*/

-- view: with_ties_is_kept_in_the_plan
SELECT id FROM stories WHERE author = :author ORDER BY score DESC FETCH FIRST 3 ROWS WITH TIES;
/*
view with_ties_is_kept_in_the_plan
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = author
  columns: id
  order: score DESC
  select
    columns id, author, score
    first by author: order score DESC limit 3 with ties
      materialized by author
      table public.stories (id, author, score)
  lookup: SELECT t."id", t."author", t."score" FROM public.stories t WHERE t."author" = ANY($1::text[])
*/

-- view: lists_and_what_is_in_them
SELECT author, string_agg(title, ', ' ORDER BY id) FILTER (WHERE score > 1) AS titles, array_agg(DISTINCT score) AS scores, json_agg(id ORDER BY id) FILTER (WHERE removed) AS gone FROM stories WHERE author = :author GROUP BY author;
/*
view lists_and_what_is_in_them
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = author
  columns: author, string_agg(CASE WHEN score > 1 THEN title ELSE NULL END, ', ' order id) AS titles, array_agg(distinct score) AS scores, json_agg(id order id) where removed AS gone
  select
    columns author, array_agg(distinct score), json_agg(id order id) where removed, string_agg(CASE WHEN score > 1 THEN title ELSE NULL END, ', ' order id)
    aggregate by author: array_agg(distinct score), json_agg(id order id) where removed, string_agg(CASE WHEN score > 1 THEN title ELSE NULL END, ', ' order id)
      materialized by author
      table public.stories (id, title, author, score, removed)
  lookup: SELECT t."author", t."score", count(*), t."id", count(*) FILTER (WHERE (t."removed")), CASE WHEN t."score" > 1 THEN t."title" ELSE NULL::text END, ', '::text, t."id", count(*), count(*) FROM public.stories t WHERE t."author" = ANY($1::text[]) GROUP BY t."author", t."score", t."id", CASE WHEN t."score" > 1 THEN t."title" ELSE NULL::text END
*/

-- view: list_range_and_limit_parameters
SELECT id, title FROM stories WHERE author IN (:authors) AND score BETWEEN :low AND :high ORDER BY score DESC LIMIT :n OFFSET :m;
/*
view list_range_and_limit_parameters
  incremental, partial: Only what is read of a key is filled, in parts of the order score DESC, id.
  parameters: :authors has author
  columns: id, title
  range: score <= :high
  range: score >= :low
  order: score DESC, id
  limit :n offset :m
  table public.stories (id, title, author, score)
  lookup: SELECT t."id", t."title", t."author", t."score" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup of a part: SELECT t."id", t."title", t."author", t."score" FROM public.stories t WHERE t."author" = $1::text ORDER BY t."score" DESC, t."id"
    warning: no index of public.stories begins with author, then score: each part is sorted anew
*/

-- view: a_range_over_groups
SELECT story_id, count(*) AS n FROM votes GROUP BY story_id HAVING count(*) > :least ORDER BY n DESC;
/*
view a_range_over_groups
  incremental, full: No parameter is a key (column = :name), and its order is not one of a table's columns: the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: story_id, count(*) AS n
  range: count(*) > :least
  order: count(*) DESC
  select
    columns story_id, count(*)
    aggregate by story_id: count(*)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      table public.votes (story_id)
  lookup: SELECT t."story_id", count(*), count(*) FROM public.votes t GROUP BY t."story_id"
*/

-- view: a_range_over_a_group_column
SELECT score, count(*) FROM stories WHERE score >= :low GROUP BY score;
/*
view a_range_over_a_group_column
  incremental, full: No parameter is a key (column = :name), and its order is not one of a table's columns: the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: score, count(*) AS count
  range: score >= :low
  select
    columns score, count(*)
    aggregate by score: count(*)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      table public.stories (score)
  lookup: SELECT t."score", count(*), count(*) FROM public.stories t GROUP BY t."score"
*/

-- view: an_order_ends_with_a_unique_key
SELECT s.title, u.display_name FROM stories s JOIN users u ON u.name = s.author WHERE s.author = :author ORDER BY s.created_at DESC LIMIT 10;
/*
view an_order_ends_with_a_unique_key
  incremental, partial: Only what is read of a key is filled, in parts of the order stories.created_at DESC, stories.id.
  parameters: :author = stories.author
  columns: title, display_name
  order: stories.created_at DESC, stories.id
  limit 10
  route: users by name, then stories by author
  route of a part: stories by author in order, then users by name
  join
    inner users.name = stories.author
    columns stories.id, stories.title, stories.author, stories.created_at, users.display_name
    table public.stories (id, title, author, created_at)
      materialized by author
      materialized by author in parts of the order created_at DESC, id
    table public.users (name, display_name)
      materialized by name
  lookup: SELECT t."name", t."display_name" FROM public.users t WHERE t."name" = ANY($1::text[])
  lookup: SELECT t."id", t."title", t."author", t."created_at" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup of a part: SELECT t."id", t."title", t."author", t."created_at" FROM public.stories t WHERE t."author" = $1::text ORDER BY t."created_at" DESC, t."id" FETCH FIRST 10 ROWS WITH TIES
    warning: no index of public.stories begins with author, then created_at: each part is sorted anew
*/

-- view: spread_of_an_author
SELECT author, stddev(score), var_pop(rating) FROM stories WHERE author = :author GROUP BY author;
/*
view spread_of_an_author
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = author
  columns: author, stddev_samp(score) AS stddev, var_pop(rating) AS var_pop
  select
    columns author, stddev_samp(score), var_pop(rating)
    aggregate by author: stddev_samp(score), var_pop(rating)
      materialized by author
      table public.stories (author, score, rating)
  lookup: SELECT t."author", t."score", count(t."score"), t."rating", count(t."rating"), count(*) FROM public.stories t WHERE t."author" = ANY($1::text[]) GROUP BY t."author", t."score", t."rating", (t."rating")::text COLLATE "C"
*/

-- view: a_time_window
SELECT id, title FROM stories WHERE author = :author AND created_at > now() - interval '1 hour' ORDER BY created_at DESC, id LIMIT 20;
/*
view a_time_window
  incremental, partial: Only what is read of a key is filled, in parts of the order created_at DESC, id.
  parameters: :author = author
  columns: id, title
  time window: created_at > CURRENT_TIMESTAMP - CAST('1 hour' AS INTERVAL), computed at each read (UTC)
  order: created_at DESC, id
  limit 20
  table public.stories (id, title, author, created_at)
  lookup: SELECT t."id", t."title", t."author", t."created_at" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup of a part: SELECT t."id", t."title", t."author", t."created_at" FROM public.stories t WHERE t."author" = $1::text ORDER BY t."created_at" DESC, t."id" FETCH FIRST 20 ROWS WITH TIES
    warning: no index of public.stories begins with author, then created_at: each part is sorted anew
*/

-- view: groups_of_a_time_window
SELECT s.author, count(c.id) AS n FROM stories s JOIN comments c ON c.story_id = s.id WHERE s.created_at > now() - interval '1 day' GROUP BY s.author HAVING count(c.id) > 2 ORDER BY n DESC, s.author LIMIT 10;
/*
view groups_of_a_time_window
  incremental, partial: Only what is read is filled, in parts of the order stories.created_at.
  time window: stories.created_at > CURRENT_TIMESTAMP - CAST('1 day' AS INTERVAL), computed at each read (UTC)
  columns: "stories.author" AS author, count("comments.id") AS n
  order: count("comments.id") DESC, "stories.author"
  limit 10
  route: comments whole, then stories whole
  route of a part: stories in order, then comments by story_id
  select
    where count("comments.id") > 2
    columns "stories.author", count("comments.id")
    aggregate by "stories.author": count("comments.id")
      select
        columns "stories.author", "comments.id"
        rows of the time window, from which each read computes the above
          join
            inner stories.id = comments.story_id
            columns comments.id, stories.author, stories.created_at
            table public.comments (id, story_id)
              fully materialized once all of the view is read: of unknown size: the upstream has no statistics (run ANALYZE there)
              materialized by story_id
            table public.stories (id, author, created_at)
              fully materialized once all of the view is read: of unknown size: the upstream has no statistics (run ANALYZE there)
              materialized in parts of the order created_at
  lookup: SELECT t."id", t."story_id" FROM public.comments t
  lookup: SELECT t."id", t."author", t."created_at" FROM public.stories t
  lookup: SELECT t."id", t."story_id" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
  lookup of a part: SELECT t."id", t."author", t."created_at" FROM public.stories t ORDER BY t."created_at"
    warning: no index of public.stories begins with created_at: each part is sorted anew
*/

-- view: number_of_a_time_window
SELECT count(*) AS n FROM stories WHERE author = :author AND created_at > now() - interval '1 hour';
/*
view number_of_a_time_window
  incremental, partial: Only what is read of a key is filled, in parts of the order created_at.
  parameters: :author = author
  time window: created_at > CURRENT_TIMESTAMP - CAST('1 hour' AS INTERVAL), computed at each read (UTC)
  columns: count(*) AS n
  for NULL: 0
  select
    columns count(*)
    aggregate by author: count(*)
      a row even for no rows
      select
        columns author
        rows of the time window, from which each read computes the above
          table public.stories (author, created_at)
  lookup: SELECT t."author", t."created_at" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup of a part: SELECT t."author", t."created_at" FROM public.stories t WHERE t."author" = $1::text ORDER BY t."created_at"
    warning: no index of public.stories begins with author, then created_at: each part is sorted anew
*/

-- view: constant_rows
SELECT s.id, k.kind FROM (VALUES (1, 'old'), (2, 'new')) k (author, kind) JOIN stories s ON s.id = k.author WHERE s.author = :author;
/*
view constant_rows
  incremental, partial: Each key is filled by its first read; inputs that no route reaches from the key are fully materialized then.
  parameters: :author = stories.author
  columns: id, stories2.'old' AS kind
  route: stories by author, then stories2 whole
  join
    inner stories2.1 = stories.id
    columns stories.id, stories.author, stories2.'old'
    table public.stories (id, author)
      materialized by author
    constants (1, 'old'), (2, 'new')
      fully materialized: about 2 rows, 664 bytes
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
*/

-- view: generated_rows
SELECT n, count(s.id) AS stories FROM generate_series(1, 2) n LEFT JOIN stories s ON s.score = n AND s.author = :author GROUP BY n;
/*
view generated_rows
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.:1
  columns: stories.1 AS n, stories.count(*) * coalesce(stories2.count(*), 0) AS stories
  for NULL: what the upstream answers
  route: stories by :1, then stories2 by author, score
  join
    left stories2.author = stories.:1 and stories2.score = stories.1
    columns stories.:1, stories.1, stories.count(*) * coalesce(stories2.count(*), 0)
    aggregate by :1, 1: count(*)
      materialized by :1
      union
        select
          columns :1, 1
          materialized by :1
          aggregate by :1
            a row even for no rows
            materialized by :1
            table public.stories (:1)
              where false
        select
          columns :1, 2
          materialized by :1
          aggregate by :1
            a row even for no rows
            materialized by :1
            table public.stories (:1)
              where false
    aggregate by author, score: count(*)
      materialized by author, score
      table public.stories (author, score)
  lookup: SELECT t."author", t."score", count(*), count(*) FROM public.stories t JOIN unnest($1::text[], $2::int8[]) AS k(k1, k2) ON t."author" = k.k1 AND t."score" = k.k2 GROUP BY t."author", t."score"
*/

-- view: generated_rows_of_parameters
SELECT n, s.id FROM generate_series(1, :n) n LEFT JOIN stories s ON s.score = n AND s.author = :author;
/*
view generated_rows_of_parameters
  incremental, partial: Each key is filled by its first read; inputs that no route reaches from the key are fully materialized then.
  parameters: :author = stories.stories.:1, :n = stories.stories.:2
  columns: stories.series_value(1, stories.:2, 1, stories3.0 + (stories2.0 * 20)) AS n, id
  for NULL: what the upstream answers
  route: stories by stories.:1, stories.:2, then stories2 by author, score
  join
    left stories2.author = stories.stories.:1 and stories2.score = stories.series_value(1, stories.:2, 1, stories3.0 + (stories2.0 * 20))
    columns stories.stories.:1, stories.stories.:2, stories.series_value(1, stories.:2, 1, stories3.0 + (stories2.0 * 20)), stories2.id
    aggregate by stories.:1, stories.:2, series_value(1, stories.:2, 1, stories3.0 + (stories2.0 * 20))
      materialized by stories.:1, stories.:2
      route: stories by :1, :2, then stories2 whole, then stories3 whole
      join
        cross
        cross
        where (series_value(1, stories.:2, 1, stories2.0 * 20) IS NOT NULL) AND (series_value(1, stories.:2, 1, stories3.0 + (stories2.0 * 20)) IS NOT NULL)
        columns stories.:1, stories.:2, series_value(1, stories.:2, 1, stories3.0 + (stories2.0 * 20))
        aggregate by :1, :2
          a row even for no rows
          materialized by :1, :2
          table public.stories (:1, :2)
            where false
        constants 0, 1, 10, 11, 12 and 15 more
          fully materialized: about 20 rows, 4.7 kB
        constants 0, 1, 10, 11, 12 and 15 more
          fully materialized: about 20 rows, 4.7 kB
    table public.stories (id, author, score)
      materialized by author, score
  lookup: SELECT t."id", t."author", t."score" FROM public.stories t JOIN unnest($1::text[], $2::int8[]) AS k(k1, k2) ON t."author" = k.k1 AND t."score" = k.k2
*/
