-- The published indexes are in schema.sql. These are what somebody who runs the site would add for its queries.
CREATE INDEX ON votes (story_id, vote) WHERE comment_id IS NULL;
CREATE INDEX ON votes (comment_id, vote) WHERE comment_id IS NOT NULL;
CREATE INDEX ON votes (story_id);
CREATE INDEX ON comments (parent_comment_id);
CREATE INDEX ON read_ribbons (user_id, story_id);
CREATE INDEX ON tag_filters (user_id);
CREATE INDEX ON taggings (tag_id);
CREATE INDEX ON suggested_titles (story_id);
CREATE INDEX ON suggested_taggings (story_id);
CREATE INDEX ON hats (user_id);
CREATE INDEX ON comments (id DESC) WHERE is_deleted = 0 AND is_moderated = 0;
CREATE INDEX ON stories (id DESC) WHERE merged_story_id IS NULL AND is_expired = 0;
