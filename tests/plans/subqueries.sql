-- Subqueries as inputs of the join that computes the expression.

-- view: exists_is_an_inner_join_with_the_different_keys
SELECT s.id FROM stories s WHERE s.author = :author AND EXISTS (SELECT 1 FROM comments c WHERE c.story_id = s.id AND c.parent_id IS NULL);
/*
view exists_is_an_inner_join_with_the_different_keys
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: id
  route: stories by author, then comments by story_id
  join
    inner stories.id = comments.story_id
    columns stories.id, stories.author
    aggregate by story_id
      materialized by story_id
      table public.comments (story_id)
        where parent_id IS NULL
    table public.stories (id, author)
      materialized by author
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."story_id", count(*) FROM public.comments t WHERE t."story_id" = ANY($1::int8[]) AND (t."parent_id" IS NULL) GROUP BY t."story_id"
*/

-- view: not_exists_is_a_left_join
SELECT s.id FROM stories s WHERE s.author = :author AND NOT EXISTS (SELECT 1 FROM votes v WHERE v.story_id = s.id);
/*
view not_exists_is_a_left_join
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: id
  route: stories by author, then votes by story_id
  join
    left votes.story_id = stories.id
    where votes.story_id IS NULL
    columns stories.id, stories.author
    table public.stories (id, author)
      materialized by author
    aggregate by story_id
      materialized by story_id
      table public.votes (story_id)
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."story_id", count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: exists_in_an_expression_is_a_left_join
SELECT s.id, EXISTS (SELECT 1 FROM votes v WHERE v.story_id = s.id) OR s.score > 10 AS seen FROM stories s WHERE s.id = :id;
/*
view exists_in_an_expression_is_a_left_join
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, (stories.score > 10) OR (votes.story_id IS NOT NULL) AS seen
  route: stories by id, then votes by story_id
  join
    left votes.story_id = stories.id
    columns stories.id, (stories.score > 10) OR (votes.story_id IS NOT NULL)
    table public.stories (id, score)
      materialized by id
    aggregate by story_id
      materialized by story_id
      table public.votes (story_id)
  lookup: SELECT t."id", t."score" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: exists_of_anything
SELECT s.id FROM stories s WHERE EXISTS (SELECT 1 FROM tags WHERE name = 'open');
/*
view exists_of_anything
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: id
  route: tags whole, then stories whole
  join
    cross
    where tags.count(*) > 0
    columns stories.id
    aggregate by nothing: count(*)
      a row even for no rows
      fully materialized: about 1 row, 239 bytes
      table public.tags ()
        where name = 'open'
    table public.stories (id)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT count(*), count(*) FROM public.tags t WHERE t."name" = 'open'::text
  lookup: SELECT t."id" FROM public.stories t
*/

-- view: in_a_unique_column_is_a_join
SELECT c.id FROM comments c WHERE c.story_id IN (SELECT id FROM stories WHERE author = :author);
/*
view in_a_unique_column_is_a_join
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: id
  route: stories by author, then comments by story_id
  join
    inner stories.id = comments.story_id
    columns comments.id, stories.author
    table public.comments (id, story_id)
      materialized by story_id
    table public.stories (id, author)
      materialized by author
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."id", t."story_id" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
*/

-- view: in_with_a_parameter
SELECT s.title FROM stories s WHERE s.id IN (SELECT story_id FROM comments WHERE author = :author);
/*
view in_with_a_parameter
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = comments.author
  columns: title
  route: comments by author, then stories by id
  join
    inner stories.id = comments.story_id
    columns comments.author, stories.title
    aggregate by story_id, author
      materialized by author
      table public.comments (story_id, author)
    table public.stories (id, title)
      materialized by id
  lookup: SELECT t."story_id", t."author", count(*) FROM public.comments t WHERE t."author" = ANY($1::text[]) GROUP BY t."story_id", t."author"
  lookup: SELECT t."id", t."title" FROM public.stories t WHERE t."id" = ANY($1::int8[])
*/

-- view: not_in_without_nulls_is_not_exists
SELECT s.id FROM stories s WHERE s.id NOT IN (SELECT story_id FROM comments) AND s.author = :author;
/*
view not_in_without_nulls_is_not_exists
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: id
  route: stories by author, then comments by story_id
  join
    left comments.story_id = stories.id
    where comments.story_id IS NULL
    columns stories.id, stories.author
    table public.stories (id, author)
      materialized by author
    aggregate by story_id
      materialized by story_id
      table public.comments (story_id)
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."story_id", count(*) FROM public.comments t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: not_in_with_nulls_counts_them
SELECT c.id FROM comments c WHERE c.id NOT IN (SELECT parent_id FROM comments r WHERE r.story_id = c.story_id) AND c.story_id = :story;
/*
view not_in_with_nulls_counts_them
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :story = comments.story_id
  columns: id
  route: comments by story_id, then comments2 by story_id, parent_id, then comments3 by story_id
  join
    left comments2.story_id = comments.story_id and comments2.parent_id = comments.id
    left comments3.story_id = comments.story_id
    where NOT CASE WHEN comments2.parent_id IS NOT NULL THEN true WHEN coalesce(comments3.count(*), 0) = 0 THEN false WHEN coalesce(comments3.count(parent_id), 0) < coalesce(comments3.count(*), 0) THEN NULL ELSE false END
    columns comments.id, comments.story_id
    table public.comments (id, story_id)
      materialized by story_id
    aggregate by story_id, parent_id
      materialized by story_id, parent_id
      table public.comments (story_id, parent_id)
    aggregate by story_id: count(parent_id), count(*)
      materialized by story_id
      table public.comments (story_id, parent_id)
  lookup: SELECT t."id", t."story_id" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
  lookup: SELECT t."story_id", t."parent_id", count(*) FROM public.comments t JOIN unnest($1::int8[], $2::int8[]) AS k(k1, k2) ON t."story_id" = k.k1 AND t."parent_id" = k.k2 GROUP BY t."story_id", t."parent_id"
  lookup: SELECT t."story_id", count(t."parent_id"), count(*), count(*) FROM public.comments t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: all_compares_with_the_extreme
SELECT s.id FROM stories s WHERE s.score >= ALL (SELECT o.score FROM stories o WHERE o.author = s.author) AND s.author = :author;
/*
view all_compares_with_the_extreme
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: id
  route: stories by author, then stories2 by author
  join
    left stories2.author = stories.author
    where CASE WHEN NOT (stories.score >= stories2.max(score)) THEN false WHEN coalesce(stories2.count(*), 0) = 0 THEN true ELSE true END
    columns stories.id, stories.author
    table public.stories (id, author, score)
      materialized by author
    aggregate by author: count(*), max(score)
      materialized by author
      table public.stories (author, score)
  lookup: SELECT t."id", t."author", t."score" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."author", count(*), t."score", count(t."score"), count(*) FROM public.stories t WHERE t."author" = ANY($1::text[]) GROUP BY t."author", t."score"
*/

-- view: a_value_of_an_aggregate_has_a_default
SELECT s.id, (SELECT count(*) FROM votes v WHERE v.story_id = s.id) AS votes, (SELECT max(value) FROM votes v WHERE v.story_id = s.id) AS best FROM stories s WHERE s.id = :id;
/*
view a_value_of_an_aggregate_has_a_default
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, coalesce(votes2.count(*), 0) AS votes, votes.max(value) AS best
  route: stories by id, then votes by story_id, then votes2 by story_id
  join
    left votes.story_id = stories.id
    left votes2.story_id = stories.id
    columns stories.id, votes.max(value), coalesce(votes2.count(*), 0)
    table public.stories (id)
      materialized by id
    aggregate by story_id: max(value)
      materialized by story_id
      table public.votes (story_id, value)
    aggregate by story_id: count(*)
      materialized by story_id
      table public.votes (story_id)
  lookup: SELECT t."id" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", t."value", count(t."value"), count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id", t."value"
  lookup: SELECT t."story_id", count(*), count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: a_value_by_a_unique_key
SELECT s.id, (SELECT display_name FROM users u WHERE u.name = s.author) AS author FROM stories s WHERE s.id = :id;
/*
view a_value_by_a_unique_key
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, users.display_name AS author
  route: stories by id, then users by name
  join
    left users.name = stories.author
    columns stories.id, users.display_name
    table public.stories (id, author)
      materialized by id
    table public.users (name, display_name)
      materialized by name
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."name", t."display_name" FROM public.users t WHERE t."name" = ANY($1::text[])
*/

-- view: a_value_of_everything_is_a_cross_join
SELECT s.id FROM stories s WHERE s.score = (SELECT max(score) FROM stories) AND s.author = :author;
/*
view a_value_of_everything_is_a_cross_join
  incremental, partial: Each key is filled by its first read; inputs that no route reaches from the key are fully materialized then.
  parameters: :author = stories2.author
  columns: id
  route: stories2 by author, then stories whole
  join
    inner stories2.score = stories.max(score)
    columns stories2.id, stories2.author
    aggregate by nothing: max(score)
      a row even for no rows
      fully materialized: about 1 row, 235 bytes
      table public.stories (score)
    table public.stories (id, author, score)
      materialized by author
  lookup: SELECT t."id", t."author", t."score" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."score", count(t."score"), count(*) FROM public.stories t GROUP BY t."score"
*/

-- view: a_value_by_limit_one
SELECT s.id, (SELECT body FROM comments c WHERE c.story_id = s.id ORDER BY c.created_at DESC, c.id LIMIT 1) AS last FROM stories s WHERE s.id = :id;
/*
view a_value_by_limit_one
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, comments.body AS last
  route: stories by id, then comments by story_id
  join
    left comments.story_id = stories.id
    columns stories.id, comments.body
    table public.stories (id)
      materialized by id
    first by story_id: order created_at DESC, id limit 1
      materialized by story_id
      table public.comments (id, story_id, body, created_at)
  lookup: SELECT t."id" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id", t."story_id", t."body", t."created_at" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
*/

-- view: a_parameter_that_equals_a_column_of_the_rows
SELECT s.id, (SELECT value FROM votes v WHERE v.story_id = s.id AND v.user_id = :me) AS mine FROM stories s WHERE s.author = :me;
/*
view a_parameter_that_equals_a_column_of_the_rows
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :me = stories.author
  columns: id, votes.value AS mine
  route: stories by author, then votes by story_id, user_id
  join
    left votes.story_id = stories.id and votes.user_id = stories.author
    columns stories.id, stories.author, votes.value
    table public.stories (id, author)
      materialized by author
    table public.votes (story_id, user_id, value)
      materialized by story_id, user_id
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."story_id", t."user_id", t."value" FROM public.votes t JOIN unnest($1::int8[], $2::text[]) AS k(k1, k2) ON t."story_id" = k.k1 AND t."user_id" = k.k2
*/

-- view: a_subquery_beside_an_aggregate_is_joined_to_the_groups
SELECT author, COUNT(*), (SELECT joined FROM users u WHERE u.name = s.author) AS joined FROM stories s WHERE author = :author GROUP BY author HAVING COUNT(*) > (SELECT count(*) FROM tags);
/*
view a_subquery_beside_an_aggregate_is_joined_to_the_groups
  incremental, partial: Each key is filled by its first read; inputs that no route reaches from the key are fully materialized then.
  parameters: :author = stories.author
  columns: author, stories.count(*) AS count, joined
  route: stories by author, then tags whole, then users by name
  join
    cross
    left users.name = stories.author
    where stories.count(*) > tags.count(*)
    columns stories.author, stories.count(*), users.joined
    aggregate by author: count(*)
      materialized by author
      table public.stories (author)
    aggregate by nothing: count(*)
      a row even for no rows
      fully materialized: about 1 row, 239 bytes
      table public.tags ()
    table public.users (name, joined)
      materialized by name
  lookup: SELECT t."author", count(*), count(*) FROM public.stories t WHERE t."author" = ANY($1::text[]) GROUP BY t."author"
  lookup: SELECT count(*), count(*) FROM public.tags t
  lookup: SELECT t."name", t."joined" FROM public.users t WHERE t."name" = ANY($1::text[])
*/

-- view: another_comparison_needs_the_outer_rows
SELECT c.id FROM comments c WHERE c.story_id = :story AND EXISTS (SELECT 1 FROM comments o WHERE o.story_id = c.story_id AND o.author = c.author AND o.id < c.id);
/*
view another_comparison_needs_the_outer_rows
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :story = comments2.story_id
  columns: id
  route: comments2 by story_id, then comments by comments2.id
  join
    inner comments2.id = comments.comments2.id
    columns comments2.id, comments2.story_id
    aggregate by comments2.id
      materialized by comments2.id
      route: comments2 by id, then comments by story_id, author
      join
        inner comments2.story_id = comments.story_id and comments2.author = comments.author
        where comments.id < comments2.id
        columns comments2.id
        table public.comments (id, story_id, author)
          materialized by id
          materialized by story_id, author
        table public.comments (id, story_id, author)
          materialized by id
          materialized by story_id, author
    table public.comments (id, story_id)
      materialized by story_id
  lookup: SELECT t."id", t."story_id" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
  lookup: SELECT t."id", t."story_id", t."author" FROM public.comments t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id", t."story_id", t."author" FROM public.comments t JOIN unnest($1::int8[], $2::text[]) AS k(k1, k2) ON t."story_id" = k.k1 AND t."author" = k.k2
*/

-- view: a_condition_on_the_outer_row_alone_is_one_of_the_join
SELECT s.id, EXISTS (SELECT 1 FROM votes v WHERE v.story_id = s.id AND NOT s.removed) AS voted FROM stories s WHERE s.id = :id;
/*
view a_condition_on_the_outer_row_alone_is_one_of_the_join
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, votes.story_id IS NOT NULL AS voted
  route: stories by id, then votes by story_id
  join
    left votes.story_id = stories.id and NOT stories.removed
    columns stories.id, votes.story_id IS NOT NULL
    table public.stories (id, removed)
      materialized by id
    aggregate by story_id
      materialized by story_id
      table public.votes (story_id)
  lookup: SELECT t."id", t."removed" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: lateral_with_limit_is_a_top_k_of_each_row
SELECT s.title, c.body FROM stories s LEFT JOIN LATERAL (SELECT body FROM comments c WHERE c.story_id = s.id ORDER BY c.created_at DESC, c.id LIMIT 3) c ON true WHERE s.author = :author;
/*
view lateral_with_limit_is_a_top_k_of_each_row
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: title, body
  route: stories by author, then comments by story_id
  join
    left comments.story_id = stories.id
    columns stories.title, stories.author, comments.body
    table public.stories (id, title, author)
      materialized by author
    first by story_id: order created_at DESC, id limit 3
      materialized by story_id
      table public.comments (id, story_id, body, created_at)
  lookup: SELECT t."id", t."title", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."id", t."story_id", t."body", t."created_at" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
*/

-- view: lateral_aggregate_has_a_row_for_every_row
SELECT s.id, l.n FROM stories s, LATERAL (SELECT count(*) AS n FROM votes v WHERE v.story_id = s.id) l WHERE s.author = :author;
/*
view lateral_aggregate_has_a_row_for_every_row
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: id, coalesce(votes.count(*), 0) AS n
  route: stories by author, then votes by story_id
  join
    left votes.story_id = stories.id
    columns stories.id, stories.author, coalesce(votes.count(*), 0)
    table public.stories (id, author)
      materialized by author
    aggregate by story_id: count(*)
      materialized by story_id
      table public.votes (story_id)
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."story_id", count(*), count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: a_subquery_in_a_subquery
SELECT u.name FROM users u WHERE u.name IN (SELECT author FROM stories WHERE id IN (SELECT story_id FROM taggings WHERE tag_id = :tag));
/*
view a_subquery_in_a_subquery
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :tag = stories.taggings.tag_id
  columns: name
  route: stories by taggings.tag_id, then users by name
  join
    inner users.name = stories.stories.author
    columns stories.taggings.tag_id, users.name
    aggregate by stories.author, taggings.tag_id
      materialized by taggings.tag_id
      route: taggings by tag_id, then stories by id
      join
        inner taggings.story_id = stories.id
        columns stories.author, taggings.tag_id
        table public.stories (id, author)
          materialized by id
        table public.taggings (story_id, tag_id)
          materialized by tag_id
    table public.users (name)
      materialized by name
  lookup: SELECT t."story_id", t."tag_id" FROM public.taggings t WHERE t."tag_id" = ANY($1::int8[])
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."name" FROM public.users t WHERE t."name" = ANY($1::text[])
*/

-- view: a_common_table_expression_twice_is_one_node
WITH n AS (SELECT story_id, count(*) AS votes FROM votes GROUP BY story_id) SELECT a.story_id, b.story_id AS other FROM n a JOIN n b ON b.votes = a.votes WHERE a.story_id = :story;
/*
view a_common_table_expression_twice_is_one_node
  incremental, partial: Each key is filled by its first read; inputs that no route reaches from the key are fully materialized then.
  parameters: :story = votes.story_id
  columns: story_id, votes2.story_id AS other
  route: votes by story_id, then votes2 whole
  join
    inner votes2.count(*) = votes.count(*)
    columns votes.story_id, votes2.story_id
    aggregate by story_id: count(*)
      materialized by story_id
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      table public.votes (story_id)
    aggregate by story_id: count(*)
      materialized by story_id
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      table public.votes (story_id)
  lookup: SELECT t."story_id", count(*), count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
  lookup: SELECT t."story_id", count(*), count(*) FROM public.votes t GROUP BY t."story_id"
*/

-- view: without_from_there_is_one_row_of_any_values
SELECT EXISTS (SELECT 1 FROM votes WHERE story_id = :story AND user_id = :user) AS voted, (SELECT count(*) FROM comments WHERE author = :user AND created_at > :since) AS comments;
/*
view without_from_there_is_one_row_of_any_values
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :since = votes.:1, :story = votes.:2, :user = votes.:3
  columns: votes2.story_id IS NOT NULL AS voted, coalesce(comments.count(*), 0) AS comments
  for NULL: what the upstream answers
  route: votes by :1, :2, :3, then comments by author, :1, then votes2 by story_id, user_id
  join
    left comments.author = votes.:3 and comments.:1 = votes.:1
    left votes2.story_id = votes.:2 and votes2.user_id = votes.:3
    columns votes.:1, votes.:2, votes.:3, coalesce(comments.count(*), 0), votes2.story_id IS NOT NULL
    aggregate by :1, :2, :3
      a row even for no rows
      materialized by :1, :2, :3
      table public.votes (:1, :2, :3)
        where false
    aggregate by author, :1: count(*)
      materialized by author, :1
      table public.comments (author, :1)
        where created_at > :1
    table public.votes (story_id, user_id)
      materialized by story_id, user_id
  lookup: SELECT t."author", k.k2, count(*), count(*) FROM public.comments t JOIN unnest($1::text[], $2::timestamptz[]) AS k(k1, k2) ON t."author" = k.k1 WHERE t."created_at" > k.k2 GROUP BY t."author", k.k2
  lookup: SELECT t."story_id", t."user_id" FROM public.votes t JOIN unnest($1::int8[], $2::text[]) AS k(k1, k2) ON t."story_id" = k.k1 AND t."user_id" = k.k2
*/

-- view: latest_comment
SELECT s.id, c.body FROM stories s LEFT JOIN comments c ON c.story_id = s.id AND c.id = (SELECT max(id) FROM comments m WHERE m.story_id = s.id) WHERE s.author = :author;
/*
view latest_comment
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author
  columns: id, body
  route: stories by author, then comments by stories.id
  join
    left comments.stories.id = stories.id
    columns stories.id, stories.author, comments.comments2.body
    table public.stories (id, author)
      materialized by author
    join
      inner comments2.id = comments.max(id) and comments2.story_id = comments.story_id
      inner stories.id = comments.story_id
      columns comments2.body, stories.id
      materialized by stories.id
      route: stories by id, then comments by story_id, then comments2 by id, story_id
      aggregate by story_id: max(id)
        materialized by story_id
        table public.comments (id, story_id)
      table public.comments (id, story_id, body)
        materialized by id, story_id
      table public.stories (id)
        materialized by id
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."id" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", t."id", count(t."id"), count(*) FROM public.comments t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id", t."id"
  lookup: SELECT t."id", t."story_id", t."body" FROM public.comments t JOIN unnest($1::int8[], $2::int8[]) AS k(k1, k2) ON t."id" = k.k1 AND t."story_id" = k.k2
*/

-- view: free_parameter_of_two_queries
SELECT s.id FROM stories s WHERE s.author = :author AND EXISTS (SELECT FROM comments c WHERE c.story_id = s.id AND c.created_at >= :since);
/*
view free_parameter_of_two_queries
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :author = stories.author, :since = stories.:1
  columns: id
  for NULL: what the upstream answers
  route: stories by author, :1, then comments by story_id, :1
  join
    inner stories.id = comments.story_id and stories.:1 = comments.:1
    columns stories.id, stories.author, stories.:1
    aggregate by story_id, :1
      materialized by story_id, :1
      table public.comments (story_id, :1)
        where created_at >= :1
    table public.stories (id, author, :1)
      materialized by author, :1
  lookup: SELECT t."id", t."author", k.k2 FROM public.stories t JOIN unnest($1::text[], $2::timestamptz[]) AS k(k1, k2) ON t."author" = k.k1
  lookup: SELECT t."story_id", k.k2, count(*) FROM public.comments t JOIN unnest($1::int8[], $2::timestamptz[]) AS k(k1, k2) ON t."story_id" = k.k1 WHERE t."created_at" >= k.k2 GROUP BY t."story_id", k.k2
*/
