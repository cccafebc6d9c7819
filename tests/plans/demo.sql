-- The views of the demo.

-- view: story_with_votes
SELECT s.id, s.title, s.author, COUNT(v.user_id) AS votes
FROM stories s
LEFT JOIN votes v ON v.story_id = s.id
WHERE s.id = :id
GROUP BY s.id, s.title, s.author;
/*
view story_with_votes
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :id = stories.id
  columns: id, title, author, coalesce(votes.count(*), 0) AS votes
  route: stories by id, then votes by story_id
  join
    left votes.story_id = stories.id
    columns stories.id, stories.title, stories.author, coalesce(votes.count(*), 0)
    table public.stories (id, title, author)
      materialized by id
    aggregate by story_id: count(*)
      materialized by story_id
      table public.votes (story_id)
  lookup: SELECT t."id", t."title", t."author" FROM public.stories t WHERE t."id" = ANY($1::int8[])
  lookup: SELECT t."story_id", count(*), count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: stories_of_author
SELECT s.id, s.title, s.created_at, COALESCE(SUM(v.value), 0) AS score, COUNT(v.user_id) AS votes
FROM stories s
LEFT JOIN votes v ON v.story_id = s.id
WHERE s.author = :author AND NOT s.removed
GROUP BY s.id, s.title, s.created_at
ORDER BY s.created_at DESC, s.id DESC;
/*
view stories_of_author
  incremental, partial: Only what is read of a key is filled, in parts of the order stories.created_at DESC, stories.id DESC.
  parameters: :author = stories.author
  columns: id, title, created_at, coalesce(votes.sum(value), 0) AS score, coalesce(votes.count(*), 0) AS votes
  order: stories.created_at DESC, stories.id DESC
  route: stories by author, then votes by story_id
  route of a part: stories by author in order, then votes by story_id
  join
    left votes.story_id = stories.id
    columns stories.id, stories.title, stories.author, stories.created_at, coalesce(votes.count(*), 0), coalesce(votes.sum(value), 0)
    table public.stories (id, title, author, created_at)
      where NOT removed
      materialized by author
      materialized by author in parts of the order created_at DESC, id DESC
    aggregate by story_id: count(*), sum(value)
      materialized by story_id
      table public.votes (story_id, value)
  lookup: SELECT t."id", t."title", t."author", t."created_at" FROM public.stories t WHERE t."author" = ANY($1::text[]) AND (NOT t."removed")
  lookup: SELECT t."story_id", count(*), count(t."value"), sum(t."value"), count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
  lookup of a part: SELECT t."id", t."title", t."author", t."created_at" FROM public.stories t WHERE t."author" = $1::text AND (NOT t."removed") ORDER BY t."created_at" DESC, t."id" DESC
    warning: no index of public.stories begins with author, then created_at: each part is sorted anew
*/

-- view: comments_of_story
SELECT c.id, c.parent_id, c.body, c.created_at, u.name AS author, u.display_name
FROM comments c
JOIN users u ON u.name = c.author
WHERE c.story_id = :story_id
ORDER BY c.created_at, c.id;
/*
view comments_of_story
  incremental, partial: Only what is read of a key is filled, in parts of the order comments.created_at, comments.id.
  parameters: :story_id = comments.story_id
  columns: id, parent_id, body, created_at, users.name AS author, display_name
  order: comments.created_at, comments.id
  route: comments by story_id, then users by name
  route of a part: comments by story_id in order, then users by name
  join
    inner users.name = comments.author
    columns comments.id, comments.story_id, comments.parent_id, comments.body, comments.created_at, users.name, users.display_name
    table public.comments (id, story_id, parent_id, author, body, created_at)
      materialized by story_id
      materialized by story_id in parts of the order created_at, id
    table public.users (name, display_name)
      materialized by name
  lookup: SELECT t."id", t."story_id", t."parent_id", t."author", t."body", t."created_at" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
  lookup: SELECT t."name", t."display_name" FROM public.users t WHERE t."name" = ANY($1::text[])
  lookup of a part: SELECT t."id", t."story_id", t."parent_id", t."author", t."body", t."created_at" FROM public.comments t WHERE t."story_id" = $1::int8 ORDER BY t."created_at", t."id"
    warning: no index of public.comments begins with story_id, then created_at: each part is sorted anew
*/

-- view: karma
SELECT u.name, u.display_name, COALESCE(SUM(v.value), 0) AS karma
FROM users u
LEFT JOIN stories s ON s.author = u.name
LEFT JOIN votes v ON v.story_id = s.id
WHERE u.name = :name
GROUP BY u.name, u.display_name;
/*
view karma
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :name = users.name
  columns: name, display_name, coalesce(sum(votes.sum(value)) of coalesce(votes.count(*), 0) values, 0) AS karma
  select
    columns users.name, users.display_name, coalesce(sum(votes.sum(value)) of coalesce(votes.count(*), 0) values, 0)
    aggregate by users.name, users.display_name: sum(votes.sum(value)) of coalesce(votes.count(*), 0) values
      materialized by users.name
      route: users by name, then stories by author, then votes by story_id
      join
        left stories.author = users.name
        left votes.story_id = stories.id
        columns users.name, users.display_name, votes.count(*), votes.sum(value)
        table public.users (name, display_name)
          materialized by name
        table public.stories (id, author)
          materialized by author
        aggregate by story_id: count(*), sum(value)
          materialized by story_id
          table public.votes (story_id, value)
  lookup: SELECT t."name", t."display_name" FROM public.users t WHERE t."name" = ANY($1::text[])
  lookup: SELECT t."id", t."author" FROM public.stories t WHERE t."author" = ANY($1::text[])
  lookup: SELECT t."story_id", count(*), count(t."value"), sum(t."value"), count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: stories_of_tag
SELECT s.id, s.title, s.author, s.score, s.created_at
FROM tags t
JOIN taggings g ON g.tag_id = t.id
JOIN stories s ON s.id = g.story_id
WHERE t.name = :tag AND NOT s.removed
ORDER BY s.created_at DESC, s.id DESC
LIMIT 25;
/*
view stories_of_tag
  incremental, partial: Each key is filled by its first read, by the lookups below.
  parameters: :tag = tags.name
  columns: id, title, author, score, created_at
  order: stories.created_at DESC, stories.id DESC
  limit 25
  route: tags by name, then taggings by tag_id, then stories by id
  join
    inner taggings.story_id = stories.id
    inner tags.id = taggings.tag_id
    columns stories.id, stories.title, stories.author, stories.created_at, stories.score, tags.name
    table public.stories (id, title, author, created_at, score)
      where NOT removed
      materialized by id
    table public.taggings (story_id, tag_id)
      materialized by tag_id
    table public.tags (id, name)
      materialized by name
  lookup: SELECT t."id", t."name" FROM public.tags t WHERE t."name" = ANY($1::text[])
  lookup: SELECT t."story_id", t."tag_id" FROM public.taggings t WHERE t."tag_id" = ANY($1::int8[])
  lookup: SELECT t."id", t."title", t."author", t."created_at", t."score" FROM public.stories t WHERE t."id" = ANY($1::int8[]) AND (NOT t."removed")
*/

-- view: front_page
SELECT s.id, s.title, s.author, s.score, COUNT(c.id) AS comments
FROM stories s
LEFT JOIN comments c ON c.story_id = s.id
WHERE NOT s.removed
GROUP BY s.id, s.title, s.author, s.score
ORDER BY s.score DESC, s.id DESC
LIMIT 25;
/*
view front_page
  incremental, partial: Only what is read is filled, in parts of the order stories.score DESC, stories.id DESC.
  columns: id, title, author, score, coalesce(comments.count(*), 0) AS comments
  order: stories.score DESC, stories.id DESC
  limit 25
  route: stories whole, then comments whole
  route of a part: stories in order, then comments by story_id
  join
    left comments.story_id = stories.id
    columns stories.id, stories.title, stories.author, stories.score, coalesce(comments.count(*), 0)
    table public.stories (id, title, author, score)
      where NOT removed
      fully materialized once all of the view is read: of unknown size: the upstream has no statistics (run ANALYZE there)
      materialized in parts of the order score DESC, id DESC
    aggregate by story_id: count(*)
      fully materialized once all of the view is read: of unknown size: the upstream has no statistics (run ANALYZE there)
      materialized by story_id
      table public.comments (story_id)
  lookup: SELECT t."id", t."title", t."author", t."score" FROM public.stories t WHERE NOT t."removed"
  lookup: SELECT t."story_id", count(*), count(*) FROM public.comments t GROUP BY t."story_id"
  lookup: SELECT t."story_id", count(*), count(*) FROM public.comments t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
  lookup of a part: SELECT t."id", t."title", t."author", t."score" FROM public.stories t WHERE NOT t."removed" ORDER BY t."score" DESC, t."id" DESC FETCH FIRST 25 ROWS WITH TIES
    warning: no index of public.stories begins with score: each part is sorted anew
*/
