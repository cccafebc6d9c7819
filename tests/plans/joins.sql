-- Joins of every kind: which side is padded, what is a condition, what the rest of ON.

-- view: right_join_is_a_left_join_from_the_other_side
SELECT s.title, v.user_id FROM stories s RIGHT JOIN votes v ON v.story_id = s.id WHERE v.user_id = :user;
/*
view right_join_is_a_left_join_from_the_other_side
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :user = votes.user_id
  columns: title, user_id
  route: votes by user_id, then stories by id
  join
    left stories.id = votes.story_id
    columns votes.user_id, stories.title
    table public.votes (story_id, user_id)
      materialized by user_id
    table public.stories (id, title)
      materialized by id
  lookup: SELECT t."story_id", t."user_id" FROM public.votes t WHERE t."user_id" = ANY($1::text[])
    warning: no index of public.votes begins with user_id: each lookup reads the whole table
  lookup: SELECT t."id", t."title" FROM public.stories t WHERE t."id" = ANY($1::int8[])
*/

-- view: what_is_before_a_right_join_is_one_input
SELECT s.id, c.id AS comment FROM stories s JOIN users u ON u.name = s.author RIGHT JOIN comments c ON c.story_id = s.id WHERE c.id = :comment;
/*
view what_is_before_a_right_join_is_one_input
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :comment = comments.id
  columns: id, comments.id AS comment
  route: comments by id, then stories by stories.id
  join
    left stories.stories.id = comments.story_id
    columns comments.id, stories.stories.id
    table public.comments (id, story_id)
      materialized by id
    join
      inner users.name = stories.author
      columns stories.id
      materialized by stories.id
      route: stories by id, then users by name
      table public.stories (id, author)
        materialized by id
      table public.users (name)
        materialized by name
  lookup: SELECT t."id", t."story_id" FROM public.comments t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."name" FROM public.users t WHERE t."name" = ANY($1::text[])
*/

-- view: full_join_is_a_union
SELECT s.id, v.user_id FROM stories s FULL JOIN votes v ON v.story_id = s.id;
/*
view full_join_is_a_union
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: id, user_id
  union
    join
      left votes.story_id = stories.id
      columns stories.id, votes.user_id
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      route: stories whole, then votes whole
      table public.stories (id)
        fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      table public.votes (story_id, user_id)
        fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
    join
      left stories.id = votes.story_id
      where stories.id IS NULL
      columns stories.id, votes.user_id
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      route: votes whole, then stories whole
      table public.votes (story_id, user_id)
        fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      table public.stories (id)
        fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT t."id" FROM public.stories t
  lookup: SELECT t."story_id", t."user_id" FROM public.votes t
*/

-- view: a_join_in_parentheses_is_padded_as_a_whole
SELECT s.id, u.display_name FROM stories s LEFT JOIN (comments c JOIN users u ON u.name = c.author) ON c.story_id = s.id WHERE s.id = :id;
/*
view a_join_in_parentheses_is_padded_as_a_whole
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, display_name
  route: stories by id, then comments by comments.story_id
  join
    left comments.comments.story_id = stories.id
    columns stories.id, comments.users.display_name
    table public.stories (id)
      materialized by id
    join
      inner users.name = comments.author
      columns comments.story_id, users.display_name
      materialized by comments.story_id
      route: comments by story_id, then users by name
      table public.comments (story_id, author)
        materialized by story_id
      table public.users (name, display_name)
        materialized by name
  lookup: SELECT t."id" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", t."author" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
  lookup: SELECT t."name", t."display_name" FROM public.users t WHERE t."name" = ANY($1::text[])
*/

-- view: cross_join
SELECT s.title, t.name FROM stories s CROSS JOIN tags t WHERE s.id = :id;
/*
view cross_join
  incremental, partial: Each key is filled by its first read; inputs that no route reaches from the key are fully materialized then.
  parameters: :id = stories.id
  columns: title, name
  route: stories by id, then tags whole
  join
    cross
    columns stories.id, stories.title, tags.name
    table public.stories (id, title)
      materialized by id
    table public.tags (name)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT t."id", t."title" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."name" FROM public.tags t
*/

-- view: a_join_by_another_comparison
SELECT a.id, b.id AS later FROM stories a JOIN stories b ON b.author = a.author AND b.created_at > a.created_at WHERE a.id = :id;
/*
view a_join_by_another_comparison
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, stories2.id AS later
  route: stories by id, then stories2 by author
  join
    inner stories2.author = stories.author
    where stories.created_at < stories2.created_at
    columns stories.id, stories2.id
    table public.stories (id, author, created_at)
      materialized by id
      materialized by author
    table public.stories (id, author, created_at)
      materialized by id
      materialized by author
  lookup: SELECT t."id", t."author", t."created_at" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."id", t."author", t."created_at" FROM public.stories t WHERE t."author" = ANY($1::text[])
*/

-- view: the_rest_of_on
SELECT s.id, v.user_id FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.value > 0 AND v.value < s.score AND NOT s.removed WHERE s.id = :id;
/*
view the_rest_of_on
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, user_id
  route: stories by id, then votes by story_id
  join
    left votes.story_id = stories.id and (stories.score > votes.value) AND (NOT stories.removed)
    columns stories.id, votes.user_id
    table public.stories (id, score, removed)
      materialized by id
    table public.votes (story_id, user_id, value)
      where value > 0
      materialized by story_id
  lookup: SELECT t."id", t."score", t."removed" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", t."user_id", t."value" FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) AND (t."value" > '0'::int2)
*/

-- view: where_makes_the_rest_of_on_a_filter
SELECT s.id, v.user_id FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.value < s.score WHERE s.id = :id AND v.value > 0;
/*
view where_makes_the_rest_of_on_a_filter
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, user_id
  route: stories by id, then votes by story_id
  join
    inner votes.story_id = stories.id
    where stories.score > votes.value
    columns stories.id, votes.user_id
    table public.stories (id, score)
      materialized by id
    table public.votes (story_id, user_id, value)
      where value > 0
      materialized by story_id
  lookup: SELECT t."id", t."score" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", t."user_id", t."value" FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) AND (t."value" > '0'::int2)
*/

-- view: an_input_with_a_rest_of_on_is_not_counted_early
SELECT s.author, COUNT(c.id), COUNT(v.user_id) FROM stories s LEFT JOIN comments c ON c.story_id = s.id AND c.created_at > s.created_at LEFT JOIN votes v ON v.story_id = s.id GROUP BY s.author;
/*
view an_input_with_a_rest_of_on_is_not_counted_early
  incremental, full: No parameter is a key (column = :name): the view is fully materialized. Of unknown size: the upstream has no statistics (run ANALYZE there).
  columns: author, count(comments.id) times coalesce(votes.count(*), 1) AS count, count(*) times coalesce(votes.count(*), 0) AS count_2
  select
    columns stories.author, count(comments.id) times coalesce(votes.count(*), 1), count(*) times coalesce(votes.count(*), 0)
    aggregate by stories.author: count(comments.id) times coalesce(votes.count(*), 1), count(*) times coalesce(votes.count(*), 0)
      fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
      route: stories whole, then votes whole, then comments whole
      join
        left votes.story_id = stories.id
        left comments.story_id = stories.id and stories.created_at < comments.created_at
        columns stories.author, votes.count(*), comments.id
        table public.stories (id, author, created_at)
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
        aggregate by story_id: count(*)
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
          table public.votes (story_id)
        table public.comments (id, story_id, created_at)
          fully materialized: of unknown size: the upstream has no statistics (run ANALYZE there)
  lookup: SELECT t."id", t."author", t."created_at" FROM public.stories t
  lookup: SELECT t."story_id", count(*), count(*) FROM public.votes t GROUP BY t."story_id"
  lookup: SELECT t."id", t."story_id", t."created_at" FROM public.comments t
*/

-- view: natural_join
SELECT * FROM taggings NATURAL JOIN votes WHERE user_id = :user;
/*
view natural_join
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :user = votes.user_id
  columns: story_id, tag_id, user_id, value
  route: votes by user_id, then taggings by story_id
  join
    inner votes.story_id = taggings.story_id
    columns taggings.story_id, taggings.tag_id, votes.user_id, votes.value
    table public.taggings (story_id, tag_id)
      materialized by story_id
    table public.votes (story_id, user_id, value)
      materialized by user_id
  lookup: SELECT t."story_id", t."user_id", t."value" FROM public.votes t WHERE t."user_id" = ANY($1::text[])
    warning: no index of public.votes begins with user_id: each lookup reads the whole table
  lookup: SELECT t."story_id", t."tag_id" FROM public.taggings t WHERE t."story_id" = ANY($1::int8[])
*/

-- view: a_parameter_in_on_that_equals_a_column_of_the_rows
SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.user_id = :me WHERE s.author = :me;
/*
view a_parameter_in_on_that_equals_a_column_of_the_rows
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :me = stories.author
  columns: id, value
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

-- view: a_parameter_in_on_where_padding_is_dropped
SELECT s.id, v.value FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.user_id = :me WHERE v.value > 0;
/*
view a_parameter_in_on_where_padding_is_dropped
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :me = votes.user_id
  columns: id, value
  route: votes by user_id, then stories by id
  join
    inner votes.story_id = stories.id
    columns stories.id, votes.user_id, votes.value
    table public.stories (id)
      materialized by id
    table public.votes (story_id, user_id, value)
      where value > 0
      materialized by user_id
  lookup: SELECT t."story_id", t."user_id", t."value" FROM public.votes t WHERE t."user_id" = ANY($1::text[]) AND (t."value" > '0'::int2)
    warning: no index of public.votes begins with user_id: each lookup reads the whole table
  lookup: SELECT t."id" FROM public.stories t WHERE t."id" = ANY($1::int8[])
*/
