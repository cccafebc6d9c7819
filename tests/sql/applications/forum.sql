-- Reads of a forum. A paragraph is one; where the databases' SQL differs it has a text for each.

-- login: by email
SELECT users.* FROM users WHERE users.email = :email LIMIT 1

-- current user of a session
SELECT users.* FROM users WHERE users.id = :id AND users.active = TRUE LIMIT 1

-- profile by name, in any case
SELECT id, username, name, karma, trust_level, created_at, last_seen_at FROM users WHERE lower(username) = lower(:username) LIMIT 1

-- preload of authors
SELECT users.id, users.username, users.name, users.admin, users.moderator FROM users WHERE users.id IN (:ids)

-- is this name taken?
SELECT 1 AS one FROM users WHERE users.username = :username LIMIT 1

-- is it taken by someone else?
SELECT 1 AS one FROM users WHERE users.email = :email AND users.id <> :id LIMIT 1

-- a preference of a user
-- postgres
SELECT settings->>'theme' AS theme FROM users WHERE id = :id
-- mariadb
SELECT JSON_UNQUOTE(JSON_EXTRACT(settings, '$.theme')) AS theme FROM users WHERE id = :id

-- staff page
SELECT id, username, admin, moderator FROM users WHERE (admin = TRUE OR moderator = TRUE) AND active = TRUE ORDER BY username

-- mention autocomplete
-- postgres
SELECT id, username, name FROM users WHERE username ILIKE :prefix AND active ORDER BY last_seen_at DESC NULLS LAST LIMIT 8
-- mariadb
SELECT id, username, name FROM users WHERE username LIKE :prefix AND active ORDER BY last_seen_at DESC LIMIT 8

-- admin: users, page by page
SELECT users.* FROM users ORDER BY users.created_at DESC, users.id DESC LIMIT :limit OFFSET :offset

-- admin: users with optional filters
-- postgres
SELECT id, username, email, trust_level FROM users
WHERE (CAST(:trust_level AS integer) IS NULL OR trust_level = :trust_level) AND (CAST(:active AS boolean) IS NULL OR active = :active)
ORDER BY id DESC LIMIT 50
-- mariadb
SELECT id, username, email, trust_level FROM users
WHERE (:trust_level IS NULL OR trust_level = :trust_level) AND (:active IS NULL OR active = :active)
ORDER BY id DESC LIMIT 50

-- invited users
SELECT users.id, users.username, users.karma FROM users WHERE users.invited_by_id = :id ORDER BY users.created_at DESC

-- leaderboard
SELECT id, username, karma FROM users WHERE active = TRUE AND banned_at IS NULL ORDER BY karma DESC, id ASC LIMIT 20

-- rank of a user by karma
SELECT COUNT(*) + 1 AS position FROM users u JOIN users me ON me.id = :id WHERE u.karma > me.karma

-- number of users
SELECT COUNT(*) FROM users WHERE active = TRUE

-- registrations by month
-- postgres
SELECT date_trunc('month', created_at) AS month, COUNT(*) AS users FROM users GROUP BY 1 ORDER BY 1
-- mariadb
SELECT DATE_FORMAT(created_at, '%Y-%m') AS month, COUNT(*) AS users FROM users GROUP BY month ORDER BY month

-- users online now
-- postgres
SELECT id, username FROM users WHERE last_seen_at > now() - interval '5 minutes' ORDER BY username
-- mariadb
SELECT id, username FROM users WHERE last_seen_at > NOW() - INTERVAL 5 MINUTE ORDER BY username

-- category by slug
SELECT categories.* FROM categories WHERE categories.slug = :slug LIMIT 1

-- category list
SELECT categories.* FROM categories WHERE categories.parent_category_id IS NULL AND categories.read_restricted = FALSE ORDER BY categories.position ASC, categories.name ASC

-- subcategories
SELECT c.id, c.name, c.slug, p.slug AS parent_slug FROM categories c JOIN categories p ON p.id = c.parent_category_id WHERE p.slug = :slug ORDER BY c.position

-- categories with their newest topic
-- postgres
SELECT c.id, c.name, t.id AS topic_id, t.title, t.bumped_at FROM categories c
LEFT JOIN LATERAL (
    SELECT id, title, bumped_at FROM topics WHERE category_id = c.id AND deleted_at IS NULL AND visible ORDER BY bumped_at DESC LIMIT 1
) t ON TRUE
ORDER BY c.position
-- mariadb
SELECT c.id, c.name, t.id AS topic_id, t.title, t.bumped_at FROM categories c
LEFT JOIN (
    SELECT id, category_id, title, bumped_at, ROW_NUMBER() OVER (PARTITION BY category_id ORDER BY bumped_at DESC) AS place
    FROM topics WHERE deleted_at IS NULL AND visible
) t ON t.category_id = c.id AND t.place = 1
ORDER BY c.position

-- category tree
WITH RECURSIVE tree AS (
    SELECT id, name, parent_category_id, 0 AS depth FROM categories WHERE id = :id
    UNION ALL
    SELECT c.id, c.name, c.parent_category_id, tree.depth + 1 FROM categories c JOIN tree ON tree.id = c.parent_category_id
)
SELECT id, name, depth FROM tree ORDER BY depth, name

-- topic by id
SELECT topics.* FROM topics WHERE topics.deleted_at IS NULL AND topics.id = :id LIMIT 1

-- topic by slug
SELECT topics.id, topics.slug, topics.title FROM topics WHERE topics.slug = :slug AND topics.deleted_at IS NULL ORDER BY topics.id LIMIT 1

-- topic with author and category
SELECT t.id, t.title, t.views, t.posts_count, u.username, c.name AS category, c.slug AS category_slug
FROM topics t JOIN users u ON u.id = t.user_id LEFT JOIN categories c ON c.id = t.category_id
WHERE t.id = :id AND t.deleted_at IS NULL

-- latest topics
SELECT t.id, t.title, t.slug, t.posts_count, t.bumped_at, u.username, lp.username AS last_poster
FROM topics t JOIN users u ON u.id = t.user_id LEFT JOIN users lp ON lp.id = t.last_post_user_id
WHERE t.deleted_at IS NULL AND t.visible = TRUE AND t.archetype <> 'private_message'
ORDER BY t.bumped_at DESC, t.id DESC LIMIT 30

-- latest topics, page by page
SELECT topics.* FROM topics WHERE topics.deleted_at IS NULL AND topics.visible = TRUE ORDER BY topics.bumped_at DESC, topics.id DESC LIMIT 30 OFFSET :offset

-- latest topics, next page by key
SELECT t.id, t.title, t.bumped_at FROM topics t
WHERE t.deleted_at IS NULL AND t.visible = TRUE AND (t.bumped_at < :bumped_at OR (t.bumped_at = :bumped_at AND t.id < :id))
ORDER BY t.bumped_at DESC, t.id DESC LIMIT 30

-- newest topics, next page by row value
SELECT id, title, created_at FROM topics WHERE (created_at, id) < (:created_at, :id) ORDER BY created_at DESC, id DESC LIMIT 20

-- topics of a category
SELECT topics.* FROM topics WHERE topics.category_id = :category_id AND topics.deleted_at IS NULL AND topics.visible = TRUE ORDER BY topics.bumped_at DESC LIMIT 30

-- topics of some categories
SELECT topics.id, topics.title, topics.category_id FROM topics WHERE topics.category_id IN (:category_ids) AND topics.deleted_at IS NULL ORDER BY topics.bumped_at DESC LIMIT 30

-- topics of a category and those below it
SELECT t.id, t.title, t.bumped_at FROM topics t JOIN categories c ON c.id = t.category_id
WHERE (c.id = :category_id OR c.parent_category_id = :category_id) AND t.deleted_at IS NULL ORDER BY t.bumped_at DESC LIMIT 30

-- pinned topics
SELECT topics.id, topics.title FROM topics WHERE topics.pinned_at IS NOT NULL AND topics.category_id = :category_id ORDER BY topics.pinned_at DESC

-- topics with a tag
SELECT t.id, t.title, t.bumped_at FROM topics t INNER JOIN topic_tags tt ON tt.topic_id = t.id INNER JOIN tags ON tags.id = tt.tag_id
WHERE tags.name = :tag AND t.deleted_at IS NULL ORDER BY t.bumped_at DESC LIMIT 30

-- topics with all of two tags
SELECT t.id, t.title FROM topics t
WHERE EXISTS (SELECT 1 FROM topic_tags a JOIN tags ON tags.id = a.tag_id WHERE a.topic_id = t.id AND tags.name = :first)
  AND EXISTS (SELECT 1 FROM topic_tags b JOIN tags ON tags.id = b.tag_id WHERE b.topic_id = t.id AND tags.name = :second)
ORDER BY t.bumped_at DESC LIMIT 30

-- topics with any of some tags
SELECT DISTINCT t.id, t.title, t.bumped_at FROM topics t JOIN topic_tags tt ON tt.topic_id = t.id WHERE tt.tag_id IN (:tag_ids) ORDER BY t.bumped_at DESC LIMIT 30

-- tags of topics on a page
SELECT topic_tags.topic_id, tags.id, tags.name FROM topic_tags JOIN tags ON tags.id = topic_tags.tag_id WHERE topic_tags.topic_id IN (:topic_ids) ORDER BY tags.name

-- topics with the names of their tags
-- postgres
SELECT t.id, t.title, string_agg(g.name, ', ' ORDER BY g.name) AS tags FROM topics t
LEFT JOIN topic_tags tt ON tt.topic_id = t.id LEFT JOIN tags g ON g.id = tt.tag_id WHERE t.category_id = :category_id GROUP BY t.id, t.title
-- mariadb
SELECT t.id, t.title, GROUP_CONCAT(g.name ORDER BY g.name SEPARATOR ', ') AS tags FROM topics t
LEFT JOIN topic_tags tt ON tt.topic_id = t.id LEFT JOIN tags g ON g.id = tt.tag_id WHERE t.category_id = :category_id GROUP BY t.id, t.title

-- tag cloud
SELECT tags.id, tags.name, COUNT(topic_tags.topic_id) AS uses FROM tags LEFT JOIN topic_tags ON topic_tags.tag_id = tags.id GROUP BY tags.id, tags.name ORDER BY uses DESC, tags.name LIMIT 50

-- tag autocomplete
SELECT tags.id, tags.name FROM tags WHERE tags.name LIKE :pattern ORDER BY tags.topic_count DESC LIMIT 10

-- tags used together with one
SELECT o.tag_id, COUNT(*) AS together FROM topic_tags tt JOIN topic_tags o ON o.topic_id = tt.topic_id AND o.tag_id <> tt.tag_id
WHERE tt.tag_id = :tag_id GROUP BY o.tag_id ORDER BY together DESC LIMIT 10

-- topics by a user
SELECT topics.id, topics.title, topics.created_at FROM topics WHERE topics.user_id = :user_id AND topics.deleted_at IS NULL ORDER BY topics.created_at DESC LIMIT 20

-- unread topics of a user
SELECT t.id, t.title, t.posts_count - COALESCE(tu.last_read_post_number, 0) AS unread FROM topics t
JOIN topic_users tu ON tu.topic_id = t.id AND tu.user_id = :user_id
WHERE tu.notification_level >= 2 AND t.deleted_at IS NULL AND COALESCE(tu.last_read_post_number, 0) < t.posts_count ORDER BY t.bumped_at DESC LIMIT 30

-- latest topics with what the reader has read
SELECT t.id, t.title, tu.last_read_post_number, tu.bookmarked FROM topics t
LEFT JOIN topic_users tu ON tu.topic_id = t.id AND tu.user_id = :user_id WHERE t.category_id = :category_id ORDER BY t.bumped_at DESC LIMIT 30

-- new topics since the last visit that the reader has not opened
SELECT COUNT(*) FROM topics t LEFT JOIN topic_users tu ON tu.topic_id = t.id AND tu.user_id = :user_id
WHERE tu.topic_id IS NULL AND t.created_at > :since AND t.deleted_at IS NULL

-- latest topics without muted categories
SELECT t.id, t.title FROM topics t
WHERE t.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM category_mutes m WHERE m.category_id = t.category_id AND m.user_id = :user_id)
ORDER BY t.bumped_at DESC LIMIT 30

-- latest topics without muted tags
SELECT t.id, t.title FROM topics t
WHERE t.deleted_at IS NULL AND t.id NOT IN (SELECT tt.topic_id FROM topic_tags tt JOIN tag_mutes m ON m.tag_id = tt.tag_id WHERE m.user_id = :user_id)
ORDER BY t.bumped_at DESC LIMIT 30

-- top topics of a period
SELECT topics.id, topics.title, topics.like_count FROM topics WHERE topics.created_at >= :since AND topics.deleted_at IS NULL ORDER BY topics.like_count DESC, topics.id DESC LIMIT 20

-- topics of the last week
-- postgres
SELECT id, title, created_at FROM topics WHERE created_at > now() - interval '7 days' AND deleted_at IS NULL ORDER BY created_at DESC
-- mariadb
SELECT id, title, created_at FROM topics WHERE created_at > NOW() - INTERVAL 7 DAY AND deleted_at IS NULL ORDER BY created_at DESC

-- hottest topics of the last week
-- postgres
SELECT id, title, like_count FROM topics WHERE created_at > now() - interval '7 days' ORDER BY like_count DESC LIMIT 10
-- mariadb
SELECT id, title, like_count FROM topics WHERE created_at > NOW() - INTERVAL 7 DAY ORDER BY like_count DESC LIMIT 10

-- front page by a score that ages
-- postgres
SELECT id, title, (like_count - 1) / power(extract(epoch FROM now() - created_at) / 3600 + 2, 1.8) AS heat FROM topics WHERE visible ORDER BY heat DESC LIMIT 25
-- mariadb
SELECT id, title, (like_count - 1) / POW(TIMESTAMPDIFF(SECOND, created_at, NOW()) / 3600 + 2, 1.8) AS heat FROM topics WHERE visible ORDER BY heat DESC LIMIT 25

-- number of topics in a category
SELECT COUNT(*) FROM topics WHERE topics.category_id = :category_id AND topics.deleted_at IS NULL

-- topics by category
SELECT topics.category_id, COUNT(*) AS count_all FROM topics WHERE topics.deleted_at IS NULL GROUP BY topics.category_id

-- topics by category and state
SELECT c.name, SUM(CASE WHEN t.closed THEN 1 ELSE 0 END) AS closed, SUM(CASE WHEN t.closed THEN 0 ELSE 1 END) AS opened
FROM categories c LEFT JOIN topics t ON t.category_id = c.id AND t.deleted_at IS NULL GROUP BY c.id, c.name ORDER BY c.name

-- topics without an answer
SELECT t.id, t.title FROM topics t WHERE t.category_id = :category_id AND NOT EXISTS (SELECT 1 FROM posts p WHERE p.topic_id = t.id AND p.post_number > 1) ORDER BY t.created_at DESC LIMIT 20

-- search by title
SELECT topics.id, topics.title FROM topics WHERE topics.title LIKE :pattern AND topics.deleted_at IS NULL ORDER BY topics.bumped_at DESC LIMIT 20

-- full-text search
-- postgres
SELECT id, topic_id, post_number FROM posts WHERE to_tsvector('english', raw) @@ plainto_tsquery('english', :query) LIMIT 20
-- mariadb
SELECT id, topic_id, post_number FROM posts WHERE raw LIKE CONCAT('%', :query, '%') LIMIT 20

-- suggested topics: others of the category
SELECT id, title FROM topics WHERE category_id = :category_id AND id <> :id AND deleted_at IS NULL AND closed = FALSE ORDER BY bumped_at DESC LIMIT 5

-- previous topic
SELECT id, title FROM topics WHERE id < :id AND category_id = :category_id ORDER BY id DESC LIMIT 1

-- posts of a topic, first page
SELECT posts.* FROM posts WHERE posts.topic_id = :topic_id AND posts.deleted_at IS NULL ORDER BY posts.post_number LIMIT 20

-- posts of a topic from a number on
SELECT posts.* FROM posts WHERE posts.topic_id = :topic_id AND posts.post_number >= :from AND posts.post_number < :to ORDER BY posts.post_number

-- posts of a topic with authors, page by page
SELECT p.id, p.post_number, p.raw, p.like_count, u.username, u.trust_level FROM posts p JOIN users u ON u.id = p.user_id
WHERE p.topic_id = :topic_id AND p.hidden = FALSE ORDER BY p.post_number LIMIT :limit OFFSET :offset

-- posts of a topic, with whether the reader likes them
SELECT p.id, p.post_number, p.raw, l.id IS NOT NULL AS liked FROM posts p LEFT JOIN likes l ON l.post_id = p.id AND l.user_id = :reader_id
WHERE p.topic_id = :topic_id ORDER BY p.post_number

-- the same by EXISTS
SELECT p.id, EXISTS (SELECT 1 FROM likes l WHERE l.post_id = p.id AND l.user_id = :reader_id) AS liked FROM posts p WHERE p.topic_id = :topic_id

-- posts of a topic without those of ignored users
SELECT p.id, p.raw FROM posts p WHERE p.topic_id = :topic_id AND p.user_id NOT IN (SELECT ignored_user_id FROM ignored_users WHERE user_id = :reader_id) ORDER BY p.post_number

-- one post by its number
SELECT posts.* FROM posts WHERE posts.topic_id = :topic_id AND posts.post_number = :post_number LIMIT 1

-- last post of a topic
SELECT posts.* FROM posts WHERE posts.topic_id = :topic_id AND posts.deleted_at IS NULL ORDER BY posts.post_number DESC LIMIT 1

-- last posts of topics on a page
SELECT p.topic_id, p.id, p.user_id, p.created_at FROM posts p
JOIN (SELECT topic_id, MAX(post_number) AS post_number FROM posts WHERE deleted_at IS NULL GROUP BY topic_id) last ON last.topic_id = p.topic_id AND last.post_number = p.post_number
WHERE p.topic_id IN (:topic_ids)

-- first posts of topics of a category
-- postgres
SELECT DISTINCT ON (p.topic_id) p.topic_id, p.raw FROM posts p JOIN topics t ON t.id = p.topic_id WHERE t.category_id = :category_id ORDER BY p.topic_id, p.post_number
-- mariadb
SELECT p.topic_id, p.raw FROM posts p JOIN topics t ON t.id = p.topic_id WHERE t.category_id = :category_id AND p.post_number = 1 ORDER BY p.topic_id

-- three most liked posts of each topic on a page
SELECT topic_id, id, like_count FROM (
    SELECT topic_id, id, like_count, ROW_NUMBER() OVER (PARTITION BY topic_id ORDER BY like_count DESC, id) AS place FROM posts WHERE deleted_at IS NULL
) ranked WHERE place <= 3 AND topic_id IN (:topic_ids)

-- answers to a post
SELECT p.id, p.post_number, u.username FROM posts p JOIN users u ON u.id = p.user_id WHERE p.topic_id = :topic_id AND p.reply_to_post_number = :post_number ORDER BY p.post_number

-- number of answers to each post
SELECT reply_to_post_number, COUNT(*) AS answers FROM posts WHERE topic_id = :topic_id AND reply_to_post_number IS NOT NULL GROUP BY reply_to_post_number

-- who takes part in a topic
SELECT u.id, u.username, COUNT(*) AS posts FROM posts p JOIN users u ON u.id = p.user_id WHERE p.topic_id = :topic_id AND p.deleted_at IS NULL GROUP BY u.id, u.username ORDER BY posts DESC LIMIT 24

-- number of people in a topic
SELECT COUNT(DISTINCT posts.user_id) FROM posts WHERE posts.topic_id = :topic_id

-- posts by a user, newest first
SELECT p.id, p.post_number, p.created_at, t.title, t.slug FROM posts p JOIN topics t ON t.id = p.topic_id
WHERE p.user_id = :user_id AND p.deleted_at IS NULL AND t.deleted_at IS NULL ORDER BY p.created_at DESC LIMIT 20 OFFSET :offset

-- posts of a user on the day before: rate limit
SELECT COUNT(*) FROM posts WHERE posts.user_id = :user_id AND posts.created_at >= :since

-- the same by the database's clock
-- postgres
SELECT COUNT(*) FROM posts WHERE user_id = :user_id AND created_at > now() - interval '1 day'
-- mariadb
SELECT COUNT(*) FROM posts WHERE user_id = :user_id AND created_at > NOW() - INTERVAL 1 DAY

-- posts by day in a period
-- postgres
SELECT created_at::date AS day, COUNT(*) AS posts FROM posts WHERE created_at >= :from AND created_at < :to GROUP BY created_at::date ORDER BY day
-- mariadb
SELECT DATE(created_at) AS day, COUNT(*) AS posts FROM posts WHERE created_at >= :from AND created_at < :to GROUP BY DATE(created_at) ORDER BY day

-- who likes a post
SELECT u.id, u.username FROM likes l JOIN users u ON u.id = l.user_id WHERE l.post_id = :post_id ORDER BY l.created_at

-- likes of posts on a page
SELECT likes.post_id, COUNT(*) AS count_all FROM likes WHERE likes.post_id IN (:post_ids) GROUP BY likes.post_id

-- likes a user has received
SELECT COUNT(*) FROM likes l JOIN posts p ON p.id = l.post_id WHERE p.user_id = :user_id AND p.deleted_at IS NULL

-- users who received most likes in a period
SELECT p.user_id, COUNT(*) AS received FROM likes l JOIN posts p ON p.id = l.post_id WHERE l.created_at BETWEEN :from AND :to GROUP BY p.user_id HAVING COUNT(*) >= 5 ORDER BY received DESC LIMIT 10

-- profile counts in one row
SELECT u.id, u.username,
    (SELECT COUNT(*) FROM topics t WHERE t.user_id = u.id AND t.deleted_at IS NULL) AS topics,
    (SELECT COUNT(*) FROM posts p WHERE p.user_id = u.id AND p.deleted_at IS NULL) AS posts,
    (SELECT COUNT(*) FROM likes l WHERE l.user_id = u.id) AS likes_given,
    (SELECT MAX(p.created_at) FROM posts p WHERE p.user_id = u.id) AS last_post_at
FROM users u WHERE u.id = :id

-- activity of a user
SELECT 'topic' AS kind, t.id, t.title AS text, t.created_at FROM topics t WHERE t.user_id = :user_id
UNION ALL
SELECT 'post' AS kind, p.id, p.raw AS text, p.created_at FROM posts p WHERE p.user_id = :user_id
ORDER BY created_at DESC LIMIT 30

-- unseen notifications
SELECT COUNT(*) FROM notifications WHERE notifications.user_id = :user_id AND notifications.seen = FALSE

-- notifications, newest first
SELECT n.id, n.notification_type, n.data, n.seen, n.created_at, t.title FROM notifications n LEFT JOIN topics t ON t.id = n.topic_id AND t.deleted_at IS NULL
WHERE n.user_id = :user_id ORDER BY n.urgent DESC, n.id DESC LIMIT 30

-- notifications by kind
SELECT notification_type, COUNT(*) AS unseen FROM notifications WHERE user_id = :user_id AND seen = FALSE GROUP BY notification_type

-- notifications by the name in their data
-- postgres
SELECT id, data->>'display_username' AS actor FROM notifications WHERE user_id = :user_id AND data->>'display_username' = :actor
-- mariadb
SELECT id, JSON_VALUE(data, '$.display_username') AS actor FROM notifications WHERE user_id = :user_id AND JSON_VALUE(data, '$.display_username') = :actor

-- inbox: last message of each conversation
SELECT m.id, m.conversation_id, m.subject, m.created_at, u.username FROM messages m JOIN users u ON u.id = m.author_id
WHERE m.recipient_id = :user_id AND m.deleted_by_recipient = FALSE
  AND m.id = (SELECT MAX(l.id) FROM messages l WHERE l.conversation_id = m.conversation_id) ORDER BY m.created_at DESC

-- all messages of a user, sent or received
SELECT messages.* FROM messages WHERE (messages.author_id = :user_id AND messages.deleted_by_author = FALSE) OR (messages.recipient_id = :user_id AND messages.deleted_by_recipient = FALSE) ORDER BY messages.created_at DESC LIMIT 50

-- a conversation
SELECT m.id, m.body, m.created_at, a.username AS author FROM messages m INNER JOIN users a ON a.id = m.author_id WHERE m.conversation_id = :conversation_id ORDER BY m.id ASC

-- unread messages
SELECT COUNT(*) FROM messages WHERE messages.recipient_id = :user_id AND messages.read_at IS NULL AND messages.deleted_by_recipient = FALSE

-- bookmarks
SELECT b.id, b.name, p.topic_id, p.post_number, t.title FROM bookmarks b JOIN posts p ON p.id = b.post_id JOIN topics t ON t.id = p.topic_id WHERE b.user_id = :user_id ORDER BY b.created_at DESC LIMIT 20

-- reminders that are due
-- postgres
SELECT id, user_id, post_id FROM bookmarks WHERE reminder_at <= now()
-- mariadb
SELECT id, user_id, post_id FROM bookmarks WHERE reminder_at <= NOW()

-- moderation queue
SELECT f.post_id, COUNT(*) AS flags, MIN(f.created_at) AS first_flag FROM flags f JOIN posts p ON p.id = f.post_id
WHERE f.status = 'open' AND p.deleted_at IS NULL GROUP BY f.post_id HAVING COUNT(*) >= 2 ORDER BY flags DESC, first_flag

-- badges of a user, with how often
SELECT b.id, b.name, b.tier, COUNT(*) AS times, MAX(ub.granted_at) AS last_granted FROM user_badges ub JOIN badges b ON b.id = ub.badge_id
WHERE ub.user_id = :user_id AND b.enabled = TRUE GROUP BY b.id, b.name, b.tier ORDER BY b.tier, b.name

-- result of a poll
SELECT o.id, o.body, COUNT(v.user_id) AS votes FROM poll_options o LEFT JOIN poll_votes v ON v.option_id = o.id WHERE o.post_id = :post_id GROUP BY o.id, o.body ORDER BY o.id

-- days visited, and posts read, in a period
SELECT COUNT(*) AS days_visited, SUM(posts_read) AS posts_read FROM user_visits WHERE user_id = :user_id AND visited_on BETWEEN :from AND :to

-- daily active users with a running mean
SELECT visited_on, users, AVG(users) OVER (ORDER BY visited_on ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS week
FROM (SELECT visited_on, COUNT(*) AS users FROM user_visits GROUP BY visited_on) days ORDER BY visited_on

-- users whose posts are flagged more often than liked
SELECT u.id, u.username FROM users u
WHERE (SELECT COUNT(*) FROM flags f JOIN posts p ON p.id = f.post_id WHERE p.user_id = u.id)
    > (SELECT COUNT(*) FROM likes l JOIN posts p ON p.id = l.post_id WHERE p.user_id = u.id)
