-- What the published views must say for pages to show anything. Each is what the site means, and what Noria computes:
-- Noria's UNION keeps duplicates, and its benchmark never had a vote on a comment without a story.

-- A vote on a comment has its story, too (the column is NOT NULL): what tells it apart is the comment.
CREATE OR REPLACE VIEW comment_upvotes AS SELECT votes.comment_id, votes.user_id FROM votes WHERE votes.comment_id IS NOT NULL AND votes.vote = 1;
CREATE OR REPLACE VIEW comment_downvotes AS SELECT votes.comment_id, votes.user_id FROM votes WHERE votes.comment_id IS NOT NULL AND votes.vote = 0;

-- Two parts of a sum count twice, also if they are equal.
CREATE OR REPLACE VIEW comment_votes AS
(SELECT FULL_comment_upvotes.id, FULL_comment_upvotes.votes AS score FROM FULL_comment_upvotes)
UNION ALL
(SELECT FULL_comment_downvotes.id, 0 - FULL_comment_downvotes.votes AS score FROM FULL_comment_downvotes);
CREATE OR REPLACE VIEW story_votes AS
(SELECT FULL_story_upvotes.id, FULL_story_upvotes.votes AS score FROM FULL_story_upvotes)
UNION ALL
(SELECT FULL_story_downvotes.id, 0 - FULL_story_downvotes.votes AS score FROM FULL_story_downvotes);
CREATE OR REPLACE VIEW all_hotness_components AS
(SELECT FULL_story_tag_score.id, FULL_story_tag_score.score FROM FULL_story_tag_score)
UNION ALL
(SELECT FULL_story_score.id, FULL_story_score.score FROM FULL_story_score)
UNION ALL
(SELECT FULL_merged_story_score.id, FULL_merged_story_score.score FROM FULL_merged_story_score)
UNION ALL
(SELECT FULL_story_comment_score.id, FULL_story_comment_score.score FROM FULL_story_comment_score);
CREATE OR REPLACE VIEW heads AS
(SELECT stories.user_id, stories.id AS story_id, stories.always_null as pid FROM stories)
UNION ALL
(SELECT good_comments.user_id, good_comments.story_id, good_comments.id AS pid
FROM good_comments WHERE good_comments.score >= 0);

-- What nobody has voted down has a score: almost everything.
CREATE OR REPLACE VIEW comment_with_votes AS
SELECT comments.*,
       FULL_comment_upvotes.votes AS upvotes,
       FULL_comment_downvotes.votes AS downvotes,
       COALESCE(FULL_comment_upvotes.votes, 0) - COALESCE(FULL_comment_downvotes.votes, 0) AS score
FROM comments
LEFT JOIN FULL_comment_upvotes ON (comments.id = FULL_comment_upvotes.id)
LEFT JOIN FULL_comment_downvotes ON (comments.id = FULL_comment_downvotes.id);
CREATE OR REPLACE VIEW story_with_votes AS
SELECT stories.*,
       FULL_story_upvotes.votes AS upvotes,
       FULL_story_downvotes.votes AS downvotes,
       COALESCE(FULL_story_upvotes.votes, 0) - COALESCE(FULL_story_downvotes.votes, 0) AS score
FROM stories
LEFT JOIN FULL_story_upvotes ON (stories.id = FULL_story_upvotes.id)
LEFT JOIN FULL_story_downvotes ON (stories.id = FULL_story_downvotes.id);
CREATE OR REPLACE VIEW good_comments AS
SELECT comments.id, comments.created_at, comments.story_id,
       comments.user_id, comments.parent_comment_id,
       COALESCE(FULL_comment_upvotes.votes, 0) - COALESCE(FULL_comment_downvotes.votes, 0) AS score
FROM comments
LEFT JOIN FULL_comment_upvotes ON (comments.id = FULL_comment_upvotes.id)
LEFT JOIN FULL_comment_downvotes ON (comments.id = FULL_comment_downvotes.id)
WHERE comments.is_deleted = 0 AND comments.is_moderated = 0;

-- The front page shows the hottest stories, not the coldest.
CREATE OR REPLACE VIEW frontpage_ids AS
SELECT FULL_story_hotness.id
FROM FULL_story_hotness
ORDER BY FULL_story_hotness.hotness DESC NULLS LAST, FULL_story_hotness.id DESC
LIMIT 51 OFFSET 0;
