-- What the site's own code keeps, so that its database need not compute it for every reader (thesis §6.3): votes of stories
-- and comments, hotness. Triggers stand for that code: a few statements at each write, in the same transaction. The reads
-- stay as they are; four of the views below them look up the counters, and one is written so that it begins at its reader.
-- Votes and tags are only ever added by this site.
--
-- Not counted: the line of the front page that has no id (the sum of all stories that are merged into none).
CREATE TABLE story_counters (
    story_id int PRIMARY KEY, upvotes bigint, downvotes bigint, hotness bigint
) WITH (fillfactor = 70);
CREATE TABLE comment_counters (
    comment_id int PRIMARY KEY, upvotes bigint, downvotes bigint
) WITH (fillfactor = 70);

INSERT INTO story_counters
SELECT id, up.votes, down.votes, hotness
FROM FULL_story_hotness
FULL JOIN FULL_story_upvotes AS up USING (id)
FULL JOIN FULL_story_downvotes AS down USING (id)
WHERE id IS NOT NULL;
INSERT INTO comment_counters
SELECT id, up.votes, down.votes
FROM FULL_comment_upvotes AS up
FULL JOIN FULL_comment_downvotes AS down USING (id);
CREATE INDEX ON story_counters (hotness DESC NULLS LAST, story_id DESC);

CREATE FUNCTION add_to_story(int, up int, down int, hotter int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO story_counters AS kept VALUES ($1, nullif(up, 0), nullif(down, 0), hotter)
    ON CONFLICT (story_id) DO UPDATE SET
        upvotes = nullif(coalesce(kept.upvotes, 0) + up, 0),
        downvotes = nullif(coalesce(kept.downvotes, 0) + down, 0),
        hotness = coalesce(kept.hotness, 0) + hotter
$$;

CREATE FUNCTION keep_vote() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    up int := (NEW.vote = 1)::int;
    down int := (NEW.vote = 0)::int;
    other int;
BEGIN
    IF NEW.comment_id IS NULL THEN
        PERFORM add_to_story(NEW.story_id, up, down, up - down);
        SELECT merged_story_id INTO other FROM stories WHERE id = NEW.story_id AND merged_story_id IS NOT NULL;
    ELSE
        INSERT INTO comment_counters AS kept VALUES (NEW.comment_id, nullif(up, 0), nullif(down, 0))
        ON CONFLICT (comment_id) DO UPDATE SET
            upvotes = nullif(coalesce(kept.upvotes, 0) + up, 0),
            downvotes = nullif(coalesce(kept.downvotes, 0) + down, 0);
        SELECT stories.id INTO other
        FROM comments JOIN stories ON stories.id = comments.story_id AND stories.user_id <> comments.user_id
        WHERE comments.id = NEW.comment_id;
    END IF;
    IF other IS NOT NULL THEN
        PERFORM add_to_story(other, 0, 0, up - down);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER keep_vote AFTER INSERT ON votes FOR EACH ROW EXECUTE FUNCTION keep_vote();

CREATE FUNCTION keep_tagging() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM add_to_story(NEW.story_id, 0, 0, (SELECT hotness_mod FROM tags WHERE id = NEW.tag_id));
    RETURN NULL;
END $$;
CREATE TRIGGER keep_tagging AFTER INSERT ON taggings FOR EACH ROW EXECUTE FUNCTION keep_tagging();

CREATE OR REPLACE VIEW comment_with_votes AS
SELECT comments.*, upvotes, downvotes, coalesce(upvotes, 0) - coalesce(downvotes, 0) AS score
FROM comments LEFT JOIN comment_counters ON comment_counters.comment_id = comments.id;
CREATE OR REPLACE VIEW story_with_votes AS
SELECT stories.*, upvotes, downvotes, coalesce(upvotes, 0) - coalesce(downvotes, 0) AS score
FROM stories LEFT JOIN story_counters ON story_counters.story_id = stories.id;
CREATE OR REPLACE VIEW good_comments AS
SELECT id, created_at, story_id, user_id, parent_comment_id, coalesce(upvotes, 0) - coalesce(downvotes, 0) AS score
FROM comments LEFT JOIN comment_counters ON comment_counters.comment_id = comments.id
WHERE is_deleted = 0 AND is_moderated = 0;
CREATE OR REPLACE VIEW frontpage_ids AS
SELECT story_id AS id FROM story_counters ORDER BY hotness DESC NULLS LAST, story_id DESC LIMIT 51;
-- Replies to stories (`always_null`) match nothing as published.
CREATE OR REPLACE VIEW BOUNDARY_notifications AS
SELECT read_ribbons.user_id, COUNT(*) AS notifications
FROM read_ribbons
JOIN comments ON comments.story_id = read_ribbons.story_id AND comments.created_at > read_ribbons.updated_at
JOIN comments AS parent ON parent.id = comments.parent_comment_id AND parent.story_id = comments.story_id
LEFT JOIN comment_counters ON comment_counters.comment_id = parent.id
WHERE read_ribbons.is_following = 1 AND parent.user_id <> read_ribbons.user_id
  AND comments.is_deleted = 0 AND comments.is_moderated = 0 AND parent.is_deleted = 0 AND parent.is_moderated = 0
  AND coalesce(upvotes, 0) - coalesce(downvotes, 0) >= 0
GROUP BY read_ribbons.user_id;
CREATE INDEX ON comments (story_id, created_at);
