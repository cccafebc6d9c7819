-- The views of the demo.

-- view: story_with_votes
SELECT s.id, s.title, s.author, COUNT(v.user_id) AS votes
FROM stories s
LEFT JOIN votes v ON v.story_id = s.id
WHERE s.id = :id
GROUP BY s.id, s.title, s.author;
/*
view story_with_votes
  parameters: :id = stories.id
  columns: id, title, author, coalesce(votes.count(*), 0) AS votes
  join
    left votes.story_id = stories.id
    columns stories.id, stories.title, stories.author, coalesce(votes.count(*), 0)
    table public.stories (id, title, author)
    aggregate by story_id: count(*)
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
  parameters: :author = stories.author
  columns: id, title, created_at, coalesce(votes.sum(value), 0) AS score, coalesce(votes.count(*), 0) AS votes
  order: stories.created_at DESC, stories.id DESC
  join
    left votes.story_id = stories.id
    columns stories.id, stories.title, stories.author, stories.created_at, coalesce(votes.count(*), 0), coalesce(votes.sum(value), 0)
    table public.stories (id, title, author, created_at)
      where NOT removed
    aggregate by story_id: count(*), sum(value)
      table public.votes (story_id, value)
  lookup: SELECT t."id", t."title", t."author", t."created_at" FROM public.stories t WHERE t."author" = ANY($1::text[]) AND (NOT t."removed")
  lookup: SELECT t."story_id", count(*), count(t."value"), sum(t."value"), count(*) FROM public.votes t WHERE t."story_id" = ANY($1::int8[]) GROUP BY t."story_id"
*/

-- view: comments_of_story
SELECT c.id, c.parent_id, c.body, c.created_at, u.name AS author, u.display_name
FROM comments c
JOIN users u ON u.name = c.author
WHERE c.story_id = :story_id
ORDER BY c.created_at, c.id;
/*
view comments_of_story
  parameters: :story_id = comments.story_id
  columns: id, parent_id, body, created_at, users.name AS author, display_name
  order: comments.created_at, comments.id
  join
    inner users.name = comments.author
    columns comments.id, comments.story_id, comments.parent_id, comments.body, comments.created_at, users.name, users.display_name
    table public.comments (id, story_id, parent_id, author, body, created_at)
    table public.users (name, display_name)
  lookup: SELECT t."id", t."story_id", t."parent_id", t."author", t."body", t."created_at" FROM public.comments t WHERE t."story_id" = ANY($1::int8[])
  lookup: SELECT t."name", t."display_name" FROM public.users t WHERE t."name" = ANY($1::text[])
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
  parameters: :name = users.name
  columns: name, display_name, coalesce(sum(votes.sum(value)) of coalesce(votes.count(*), 0) values, 0) AS karma
  select
    columns users.name, users.display_name, coalesce(sum(votes.sum(value)) of coalesce(votes.count(*), 0) values, 0)
    aggregate by users.name, users.display_name: sum(votes.sum(value)) of coalesce(votes.count(*), 0) values
      join
        left stories.author = users.name
        left votes.story_id = stories.id
        columns users.name, users.display_name, votes.count(*), votes.sum(value)
        table public.users (name, display_name)
        table public.stories (id, author)
        aggregate by story_id: count(*), sum(value)
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
  parameters: :tag = tags.name
  columns: id, title, author, score, created_at
  order: stories.created_at DESC, stories.id DESC
  limit 25
  join
    inner taggings.tag_id = tags.id
    inner stories.id = taggings.story_id
    columns tags.name, stories.id, stories.title, stories.author, stories.created_at, stories.score
    table public.tags (id, name)
    table public.taggings (story_id, tag_id)
    table public.stories (id, title, author, created_at, score)
      where NOT removed
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
  columns: id, title, author, score, coalesce(comments.count(*), 0) AS comments
  order: stories.score DESC, stories.id DESC
  limit 25
  join
    left comments.story_id = stories.id
    columns stories.id, stories.title, stories.author, stories.score, coalesce(comments.count(*), 0)
    table public.stories (id, title, author, score)
      where NOT removed
    aggregate by story_id: count(*)
      table public.comments (story_id)
  lookup: SELECT t."id", t."title", t."author", t."score" FROM public.stories t WHERE NOT t."removed"
  lookup: SELECT t."story_id", count(*), count(*) FROM public.comments t GROUP BY t."story_id"
*/
