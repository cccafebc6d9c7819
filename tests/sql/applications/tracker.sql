-- Reads of an issue tracker. A paragraph is one; where the databases' SQL differs it has a text for each.

-- project by code
SELECT projects.* FROM projects WHERE projects.code = :code LIMIT 1

-- projects of a user
SELECT p.id, p.code, p.name, m.role FROM projects p INNER JOIN project_members m ON m.project_id = p.id WHERE m.user_id = :user_id AND NOT p.archived ORDER BY p.name

-- projects that a user may see
SELECT p.id, p.code, p.name FROM projects p WHERE p.archived = FALSE AND (p.is_public = TRUE OR EXISTS (SELECT 1 FROM project_members m WHERE m.project_id = p.id AND m.user_id = :user_id)) ORDER BY p.name

-- the same by a subquery in IN
SELECT projects.id, projects.name FROM projects WHERE projects.is_public OR projects.id IN (SELECT U0.project_id FROM project_members U0 WHERE U0.user_id = :user_id)

-- role in a project
SELECT project_members.role FROM project_members WHERE project_members.project_id = :project_id AND project_members.user_id = :user_id LIMIT 1

-- members of a project
SELECT u.id, u.username, u.name, m.role, m.joined_at FROM project_members m JOIN users u ON u.id = m.user_id WHERE m.project_id = :project_id AND u.active = TRUE ORDER BY m.role, u.username

-- members who can be assigned, by name
-- postgres
SELECT u.id, u.username FROM users u JOIN project_members m ON m.user_id = u.id WHERE m.project_id = :project_id AND (u.username ILIKE :pattern OR u.name ILIKE :pattern) ORDER BY u.username LIMIT 10
-- mariadb
SELECT u.id, u.username FROM users u JOIN project_members m ON m.user_id = u.id WHERE m.project_id = :project_id AND (u.username LIKE :pattern OR u.name LIKE :pattern) ORDER BY u.username LIMIT 10

-- projects with numbers of open issues
SELECT p.id, p.name, COUNT(i.id) AS open_issues FROM projects p LEFT JOIN issues i ON i.project_id = p.id AND i.closed_at IS NULL WHERE p.archived = FALSE GROUP BY p.id, p.name ORDER BY p.name

-- issue by id
SELECT issues.id, issues.project_id, issues.number, issues.title, issues.description FROM issues WHERE issues.id = :id

-- issue by key
SELECT i.* FROM issues i JOIN projects p ON p.id = i.project_id WHERE p.code = :code AND i.number = :number

-- issue by key in one text
-- postgres
SELECT i.id, i.title FROM issues i JOIN projects p ON p.id = i.project_id WHERE p.code || '-' || i.number = :key
-- mariadb
SELECT i.id, i.title FROM issues i JOIN projects p ON p.id = i.project_id WHERE CONCAT(p.code, '-', i.number) = :key

-- issue with all that its page shows
SELECT i.id, i.title, i.description, s.name AS status, pr.name AS priority, r.username AS reporter, a.username AS assignee, sp.name AS sprint, ms.title AS milestone
FROM issues i JOIN statuses s ON s.id = i.status_id LEFT JOIN priorities pr ON pr.id = i.priority_id JOIN users r ON r.id = i.reporter_id
LEFT JOIN users a ON a.id = i.assignee_id LEFT JOIN sprints sp ON sp.id = i.sprint_id LEFT JOIN milestones ms ON ms.id = i.milestone_id WHERE i.id = :id

-- issues of a project, first page
SELECT issues.* FROM issues WHERE issues.project_id = :project_id ORDER BY issues.number DESC LIMIT 25

-- issues of a project, page by page
SELECT issues.id, issues.number, issues.title FROM issues WHERE issues.project_id = :project_id AND issues.closed_at IS NULL ORDER BY issues.updated_at DESC, issues.id DESC LIMIT :limit OFFSET :offset

-- number of issues for the pages
SELECT COUNT(*) AS __count FROM issues WHERE issues.project_id = :project_id AND issues.closed_at IS NULL

-- issues changed before a moment: next page by key
SELECT id, title, updated_at FROM issues WHERE project_id = :project_id AND (updated_at < :updated_at OR (updated_at = :updated_at AND id < :id)) ORDER BY updated_at DESC, id DESC LIMIT 25

-- issues changed since: sync of a client
SELECT issues.* FROM issues WHERE issues.project_id = :project_id AND issues.updated_at > :since ORDER BY issues.updated_at, issues.id LIMIT 200

-- issues of a project by priority
SELECT i.id, i.title, pr.name AS priority FROM issues i LEFT JOIN priorities pr ON pr.id = i.priority_id WHERE i.project_id = :project_id AND i.closed_at IS NULL ORDER BY COALESCE(pr.weight, 0) DESC, i.created_at LIMIT 50

-- issues in a status
SELECT issues.* FROM issues INNER JOIN statuses ON issues.status_id = statuses.id WHERE issues.project_id = :project_id AND statuses.stage = 'done' ORDER BY issues.closed_at DESC LIMIT 20

-- issues of some ids
SELECT issues.id, issues.title, issues.status_id FROM issues WHERE issues.id IN (:ids) ORDER BY issues.id

-- issues without some ids
SELECT issues.id, issues.title FROM issues WHERE issues.project_id = :project_id AND NOT (issues.id IN (:ids)) LIMIT 20

-- issues assigned to a user
SELECT i.id, i.title, i.due_date, p.code FROM issues i JOIN projects p ON p.id = i.project_id WHERE i.assignee_id = :user_id AND i.closed_at IS NULL ORDER BY i.due_date, i.id

-- issues nobody has
SELECT issues.id, issues.title FROM issues WHERE issues.project_id = :project_id AND issues.assignee_id IS NULL AND issues.closed_at IS NULL ORDER BY issues.created_at

-- issues a user reported or has
SELECT id, title FROM issues WHERE (reporter_id = :user_id OR assignee_id = :user_id) AND closed_at IS NULL ORDER BY updated_at DESC LIMIT 50

-- issues with every filter of the page, each may be empty
-- postgres
SELECT i.id, i.title FROM issues i
WHERE i.project_id = :project_id AND (:assignee_id::bigint IS NULL OR i.assignee_id = :assignee_id) AND (:status_id::bigint IS NULL OR i.status_id = :status_id)
  AND (:text::text IS NULL OR i.title ILIKE '%' || :text || '%') ORDER BY i.id DESC LIMIT 50
-- mariadb
SELECT i.id, i.title FROM issues i
WHERE i.project_id = :project_id AND (:assignee_id IS NULL OR i.assignee_id = :assignee_id) AND (:status_id IS NULL OR i.status_id = :status_id)
  AND (:text IS NULL OR i.title LIKE CONCAT('%', :text, '%')) ORDER BY i.id DESC LIMIT 50

-- issues a user may see: not confidential, or of their own
SELECT i.id, i.title FROM issues i WHERE i.project_id = :project_id AND (i.confidential = FALSE OR i.reporter_id = :user_id OR i.assignee_id = :user_id) ORDER BY i.id DESC LIMIT 25

-- issues of some kinds and statuses
SELECT id, title, kind FROM issues WHERE project_id = :project_id AND kind IN ('bug', 'incident') AND status_id IN (:status_ids) ORDER BY id DESC

-- search by words in title or description
SELECT id, title FROM issues WHERE project_id = :project_id AND (title LIKE :pattern OR description LIKE :pattern) ORDER BY updated_at DESC LIMIT 20

-- search in title, in any case
-- postgres
SELECT id, title FROM issues WHERE UPPER(title) LIKE UPPER(:pattern) ORDER BY id DESC LIMIT 20
-- mariadb
SELECT id, title FROM issues WHERE title LIKE :pattern ORDER BY id DESC LIMIT 20

-- full-text search
-- postgres
SELECT id, title, ts_rank(to_tsvector('simple', title), query) AS rank FROM issues, plainto_tsquery('simple', :query) query WHERE to_tsvector('simple', title) @@ query ORDER BY rank DESC LIMIT 20
-- mariadb
SELECT id, title FROM issues WHERE title REGEXP :query LIMIT 20

-- issues with a label
SELECT i.id, i.title FROM issues i JOIN issue_labels il ON il.issue_id = i.id JOIN labels l ON l.id = il.label_id WHERE l.name = :label AND i.project_id = :project_id ORDER BY i.id DESC

-- issues with all of some labels
SELECT i.id, i.title FROM issues i JOIN issue_labels il ON il.issue_id = i.id WHERE il.label_id IN (:first, :second) GROUP BY i.id, i.title HAVING COUNT(DISTINCT il.label_id) = 2

-- issues with any of a list of labels, each once
SELECT DISTINCT issues.id, issues.title FROM issues INNER JOIN issue_labels ON issue_labels.issue_id = issues.id WHERE issue_labels.label_id IN (:label_ids) ORDER BY issues.id DESC

-- issues without any label
SELECT i.id, i.title FROM issues i LEFT JOIN issue_labels il ON il.issue_id = i.id WHERE il.issue_id IS NULL AND i.project_id = :project_id

-- labels of issues of a page
SELECT il.issue_id, l.id, l.name, l.color FROM labels l INNER JOIN issue_labels il ON il.label_id = l.id WHERE il.issue_id IN (:issue_ids)

-- labels of a project with numbers of open issues
SELECT l.id, l.name, COUNT(i.id) AS open_issues FROM labels l LEFT JOIN issue_labels il ON il.label_id = l.id LEFT JOIN issues i ON i.id = il.issue_id AND i.closed_at IS NULL WHERE l.project_id = :project_id GROUP BY l.id, l.name ORDER BY l.name

-- children of an issue
SELECT issues.id, issues.number, issues.title, issues.closed_at IS NOT NULL AS done FROM issues WHERE issues.parent_id = :id ORDER BY issues.board_rank

-- progress of an epic
SELECT COUNT(*) AS total, SUM(CASE WHEN closed_at IS NOT NULL THEN 1 ELSE 0 END) AS done, COALESCE(SUM(story_points), 0) AS points FROM issues WHERE parent_id = :id

-- progress of epics on a page
-- postgres
SELECT parent_id, COUNT(*) AS total, COUNT(*) FILTER (WHERE closed_at IS NOT NULL) AS done FROM issues WHERE parent_id IN (:ids) GROUP BY parent_id
-- mariadb
SELECT parent_id, COUNT(*) AS total, COUNT(closed_at) AS done FROM issues WHERE parent_id IN (:ids) GROUP BY parent_id

-- all ancestors of an issue
WITH RECURSIVE above AS (SELECT id, parent_id, title FROM issues WHERE id = :id UNION ALL SELECT i.id, i.parent_id, i.title FROM issues i JOIN above ON above.parent_id = i.id)
SELECT id, title FROM above

-- links of an issue, both ways
SELECT l.kind, i.id, i.title, 'outward' AS direction FROM issue_links l JOIN issues i ON i.id = l.target_id WHERE l.source_id = :id
UNION ALL
SELECT l.kind, i.id, i.title, 'inward' AS direction FROM issue_links l JOIN issues i ON i.id = l.source_id WHERE l.target_id = :id

-- issues that open ones block
SELECT DISTINCT b.id, b.title FROM issue_links l JOIN issues b ON b.id = l.target_id JOIN issues a ON a.id = l.source_id WHERE l.kind = 'blocks' AND a.closed_at IS NULL AND b.project_id = :project_id

-- issues that nothing blocks
SELECT i.id, i.title FROM issues i WHERE i.sprint_id = :sprint_id AND i.closed_at IS NULL AND NOT EXISTS (SELECT 1 FROM issue_links l JOIN issues b ON b.id = l.source_id WHERE l.target_id = i.id AND l.kind = 'blocks' AND b.closed_at IS NULL)

-- comments of an issue
SELECT c.id, c.body, c.created_at, u.username FROM comments c INNER JOIN users u ON u.id = c.author_id WHERE c.issue_id = :issue_id AND c.deleted_at IS NULL ORDER BY c.created_at ASC

-- comments that a customer may see, newest first
SELECT comments.id, comments.body FROM comments WHERE comments.issue_id = :issue_id AND comments.internal = FALSE ORDER BY comments.id DESC LIMIT 10

-- numbers of comments of issues on a page
SELECT comments.issue_id, COUNT(comments.id) AS n FROM comments WHERE comments.issue_id IN (:issue_ids) AND comments.deleted_at IS NULL GROUP BY comments.issue_id

-- issues of a project with counts
SELECT i.id, i.title, COUNT(DISTINCT c.id) AS comments, COUNT(DISTINCT w.user_id) AS watchers FROM issues i LEFT JOIN comments c ON c.issue_id = i.id LEFT JOIN watchers w ON w.issue_id = i.id WHERE i.project_id = :project_id GROUP BY i.id, i.title ORDER BY i.id DESC LIMIT 25

-- issues with their last comment
-- postgres
SELECT i.id, i.title, c.body, c.created_at FROM issues i LEFT JOIN LATERAL (SELECT body, created_at FROM comments WHERE issue_id = i.id ORDER BY created_at DESC LIMIT 1) c ON TRUE WHERE i.assignee_id = :user_id
-- mariadb
SELECT i.id, i.title, c.body, c.created_at FROM issues i LEFT JOIN comments c ON c.id = (SELECT MAX(id) FROM comments WHERE issue_id = i.id) WHERE i.assignee_id = :user_id

-- issues where the last word is not the team's
SELECT i.id, i.title FROM issues i WHERE i.project_id = :project_id AND i.closed_at IS NULL AND (SELECT c.author_id FROM comments c WHERE c.issue_id = i.id ORDER BY c.id DESC LIMIT 1) = i.reporter_id

-- comments of a user
SELECT c.id, c.body, i.number, p.code FROM comments c JOIN issues i ON i.id = c.issue_id JOIN projects p ON p.id = i.project_id WHERE c.author_id = :user_id ORDER BY c.created_at DESC LIMIT 20

-- edited comments
SELECT id, body FROM comments WHERE issue_id = :issue_id AND updated_at > created_at

-- is the user watching?
SELECT 1 AS a FROM watchers WHERE watchers.issue_id = :issue_id AND watchers.user_id = :user_id LIMIT 1

-- whom to notify
SELECT w.user_id FROM watchers w WHERE w.issue_id = :issue_id
UNION
SELECT i.assignee_id FROM issues i WHERE i.id = :issue_id AND i.assignee_id IS NOT NULL
UNION
SELECT i.reporter_id FROM issues i WHERE i.id = :issue_id

-- email addresses of watchers but for the actor
SELECT u.email FROM watchers w JOIN users u ON u.id = w.user_id WHERE w.issue_id = :issue_id AND u.id <> :actor_id AND u.active = TRUE

-- watched issues with news
SELECT i.id, i.title, i.updated_at FROM issues i JOIN watchers w ON w.issue_id = i.id WHERE w.user_id = :user_id AND i.updated_at > :since ORDER BY i.updated_at DESC

-- issues of a project, with whether the user watches
SELECT i.id, i.title, CASE WHEN w.user_id IS NULL THEN 0 ELSE 1 END AS watching FROM issues i LEFT JOIN watchers w ON w.issue_id = i.id AND w.user_id = :user_id WHERE i.project_id = :project_id ORDER BY i.id DESC LIMIT 25

-- active sprint of a project
SELECT sprints.* FROM sprints WHERE sprints.project_id = :project_id AND sprints.state = 'active' ORDER BY sprints.start_date DESC LIMIT 1

-- sprint that runs today
-- postgres
SELECT id, name FROM sprints WHERE project_id = :project_id AND start_date <= CURRENT_DATE AND end_date >= CURRENT_DATE
-- mariadb
SELECT id, name FROM sprints WHERE project_id = :project_id AND start_date <= CURRENT_DATE AND end_date >= CURRENT_DATE

-- board of a sprint
SELECT i.id, i.number, i.title, i.status_id, s.name AS status, a.username FROM issues i JOIN statuses s ON s.id = i.status_id LEFT JOIN users a ON a.id = i.assignee_id WHERE i.sprint_id = :sprint_id ORDER BY s.position, i.board_rank

-- board: number of issues and points in each column
SELECT s.id, s.name, COUNT(i.id) AS issues, COALESCE(SUM(i.story_points), 0) AS points FROM statuses s LEFT JOIN issues i ON i.status_id = s.id AND i.sprint_id = :sprint_id GROUP BY s.id, s.name, s.position ORDER BY s.position

-- backlog
SELECT issues.id, issues.title, issues.story_points FROM issues WHERE issues.project_id = :project_id AND issues.sprint_id IS NULL AND issues.closed_at IS NULL ORDER BY issues.board_rank ASC, issues.id ASC LIMIT 100

-- last rank of the backlog
SELECT MAX(board_rank) AS last_rank FROM issues WHERE project_id = :project_id AND sprint_id IS NULL

-- next number of an issue
SELECT COALESCE(MAX(number), 0) + 1 AS next_number FROM issues WHERE project_id = :project_id

-- velocity: points of the last sprints
SELECT sp.id, sp.name, SUM(i.story_points) AS points FROM sprints sp JOIN issues i ON i.sprint_id = sp.id WHERE sp.project_id = :project_id AND sp.state = 'closed' AND i.closed_at IS NOT NULL GROUP BY sp.id, sp.name, sp.end_date ORDER BY sp.end_date DESC LIMIT 6

-- burndown: points closed by day
-- postgres
SELECT closed_at::date AS day, SUM(story_points) AS points FROM issues WHERE sprint_id = :sprint_id AND closed_at IS NOT NULL GROUP BY 1 ORDER BY 1
-- mariadb
SELECT DATE(closed_at) AS day, SUM(story_points) AS points FROM issues WHERE sprint_id = :sprint_id AND closed_at IS NOT NULL GROUP BY 1 ORDER BY 1

-- burndown, cumulative
-- postgres
SELECT day, SUM(points) OVER (ORDER BY day) AS total FROM (SELECT CAST(closed_at AS date) AS day, SUM(story_points) AS points FROM issues WHERE sprint_id = :sprint_id AND closed_at IS NOT NULL GROUP BY CAST(closed_at AS date)) d
-- mariadb
SELECT day, SUM(points) OVER (ORDER BY day) AS total FROM (SELECT DATE(closed_at) AS day, SUM(story_points) AS points FROM issues WHERE sprint_id = :sprint_id AND closed_at IS NOT NULL GROUP BY DATE(closed_at)) d

-- milestones with their progress
SELECT m.id, m.title, m.due_on, COUNT(i.id) AS total, COUNT(i.closed_at) AS closed FROM milestones m LEFT JOIN issues i ON i.milestone_id = m.id WHERE m.project_id = :project_id AND m.state = 'open' GROUP BY m.id, m.title, m.due_on ORDER BY m.due_on

-- share of a milestone that is done
-- postgres
SELECT milestone_id, ROUND(100.0 * COUNT(closed_at) / NULLIF(COUNT(*), 0), 1) AS percent FROM issues WHERE milestone_id = :milestone_id GROUP BY milestone_id
-- mariadb
SELECT milestone_id, ROUND(100.0 * COUNT(closed_at) / NULLIF(COUNT(*), 0), 1) AS percent FROM issues WHERE milestone_id = :milestone_id GROUP BY milestone_id

-- overdue issues
-- postgres
SELECT id, title, due_date, assignee_id FROM issues WHERE due_date < CURRENT_DATE AND closed_at IS NULL ORDER BY due_date
-- mariadb
SELECT id, title, due_date, assignee_id FROM issues WHERE due_date < CURDATE() AND closed_at IS NULL ORDER BY due_date

-- issues due in the next week
-- postgres
SELECT id, title, due_date FROM issues WHERE assignee_id = :user_id AND due_date BETWEEN CURRENT_DATE AND CURRENT_DATE + 7 ORDER BY due_date
-- mariadb
SELECT id, title, due_date FROM issues WHERE assignee_id = :user_id AND due_date BETWEEN CURDATE() AND CURDATE() + INTERVAL 7 DAY ORDER BY due_date

-- number of overdue issues of a user
-- postgres
SELECT COUNT(*) FROM issues WHERE assignee_id = :user_id AND closed_at IS NULL AND due_date < CURRENT_DATE
-- mariadb
SELECT COUNT(*) FROM issues WHERE assignee_id = :user_id AND closed_at IS NULL AND due_date < CURDATE()

-- stale issues
-- postgres
SELECT id, title FROM issues WHERE project_id = :project_id AND closed_at IS NULL AND updated_at < now() - interval '90 days' ORDER BY updated_at LIMIT 50
-- mariadb
SELECT id, title FROM issues WHERE project_id = :project_id AND closed_at IS NULL AND updated_at < NOW() - INTERVAL 90 DAY ORDER BY updated_at LIMIT 50

-- age of open issues in days
-- postgres
SELECT id, title, EXTRACT(DAY FROM now() - created_at) AS age FROM issues WHERE project_id = :project_id AND closed_at IS NULL
-- mariadb
SELECT id, title, DATEDIFF(NOW(), created_at) AS age FROM issues WHERE project_id = :project_id AND closed_at IS NULL

-- worklogs of an issue
SELECT w.id, w.minutes, w.spent_on, w.note, u.username FROM worklogs w JOIN users u ON u.id = w.user_id WHERE w.issue_id = :issue_id ORDER BY w.spent_on DESC, w.id DESC

-- time spent against the estimate
SELECT i.id, i.estimate_minutes, COALESCE(SUM(w.minutes), 0) AS spent FROM issues i LEFT JOIN worklogs w ON w.issue_id = i.id WHERE i.id = :id GROUP BY i.id, i.estimate_minutes

-- issues over their estimate
SELECT i.id, i.title, SUM(w.minutes) - i.estimate_minutes AS over_by FROM issues i JOIN worklogs w ON w.issue_id = i.id WHERE i.project_id = :project_id GROUP BY i.id, i.title, i.estimate_minutes HAVING SUM(w.minutes) > i.estimate_minutes ORDER BY over_by DESC

-- timesheet of a user
SELECT spent_on, SUM(minutes) AS minutes FROM worklogs WHERE user_id = :user_id AND spent_on BETWEEN :from AND :to GROUP BY spent_on ORDER BY spent_on

-- timesheet of a user by project
SELECT p.code, SUM(w.minutes) AS minutes FROM worklogs w JOIN issues i ON i.id = w.issue_id JOIN projects p ON p.id = i.project_id WHERE w.user_id = :user_id AND w.spent_on >= :from AND w.spent_on <= :to GROUP BY p.code ORDER BY minutes DESC

-- hours of a team by week
-- postgres
SELECT date_trunc('week', w.spent_on) AS week, w.user_id, ROUND(SUM(w.minutes) / 60.0, 2) AS hours FROM worklogs w JOIN issues i ON i.id = w.issue_id WHERE i.project_id = :project_id GROUP BY 1, 2 ORDER BY 1, 2
-- mariadb
SELECT YEARWEEK(w.spent_on, 3) AS week, w.user_id, ROUND(SUM(w.minutes) / 60.0, 2) AS hours FROM worklogs w JOIN issues i ON i.id = w.issue_id WHERE i.project_id = :project_id GROUP BY 1, 2 ORDER BY 1, 2

-- billable time of a period
SELECT SUM(minutes) AS minutes FROM worklogs WHERE billable = TRUE AND spent_on BETWEEN :from AND :to

-- users who logged nothing in a period
SELECT u.id, u.username FROM users u JOIN project_members m ON m.user_id = u.id AND m.project_id = :project_id WHERE NOT EXISTS (SELECT 1 FROM worklogs w WHERE w.user_id = u.id AND w.spent_on >= :from AND w.spent_on < :to)

-- attachments of an issue
SELECT attachments.id, attachments.filename, attachments.size_bytes FROM attachments WHERE attachments.issue_id = :issue_id ORDER BY attachments.created_at

-- space that a project uses
SELECT SUM(a.size_bytes) AS bytes, COUNT(*) AS files FROM attachments a JOIN issues i ON i.id = a.issue_id WHERE i.project_id = :project_id

-- images of an issue
SELECT id, filename FROM attachments WHERE issue_id = :issue_id AND content_type LIKE 'image/%' ORDER BY id

-- history of an issue
SELECT h.id, h.field, h.old_value, h.new_value, h.created_at, u.username FROM issue_history h JOIN users u ON u.id = h.user_id WHERE h.issue_id = :issue_id ORDER BY h.id

-- comments and history as one feed
SELECT 'comment' AS kind, id, author_id AS user_id, body AS text, created_at FROM comments WHERE issue_id = :issue_id
UNION ALL
SELECT 'change', id, user_id, new_value, created_at FROM issue_history WHERE issue_id = :issue_id
ORDER BY created_at

-- activity of a project
SELECT h.issue_id, i.title, h.field, h.new_value, h.created_at FROM issue_history h JOIN issues i ON i.id = h.issue_id WHERE i.project_id = :project_id ORDER BY h.created_at DESC LIMIT 50

-- mean time to close, by kind, in hours
-- postgres
SELECT kind, AVG(EXTRACT(EPOCH FROM closed_at - created_at)) / 3600 AS hours FROM issues WHERE project_id = :project_id AND closed_at IS NOT NULL GROUP BY kind
-- mariadb
SELECT kind, AVG(TIMESTAMPDIFF(SECOND, created_at, closed_at)) / 3600 AS hours FROM issues WHERE project_id = :project_id AND closed_at IS NOT NULL GROUP BY kind

-- time in each status, by the history
SELECT issue_id, new_value AS status, created_at AS entered_at, LEAD(created_at) OVER (PARTITION BY issue_id ORDER BY created_at) AS left_at FROM issue_history WHERE field = 'status' AND issue_id = :issue_id

-- opened and closed issues by month
-- postgres
SELECT date_trunc('month', created_at) AS month, COUNT(*) AS opened, COUNT(closed_at) AS closed FROM issues WHERE project_id = :project_id AND created_at >= :since GROUP BY 1 ORDER BY 1
-- mariadb
SELECT DATE_FORMAT(created_at, '%Y-%m') AS month, COUNT(*) AS opened, COUNT(closed_at) AS closed FROM issues WHERE project_id = :project_id AND created_at >= :since GROUP BY month ORDER BY month

-- open issues by assignee
SELECT u.id, u.username, COUNT(*) AS issues FROM issues i JOIN users u ON u.id = i.assignee_id WHERE i.project_id = :project_id AND i.closed_at IS NULL GROUP BY u.id, u.username ORDER BY issues DESC

-- open issues by kind and priority
SELECT i.kind, pr.name, COUNT(*) AS issues FROM issues i JOIN priorities pr ON pr.id = i.priority_id WHERE i.project_id = :project_id AND i.closed_at IS NULL GROUP BY i.kind, pr.name, pr.weight ORDER BY i.kind, pr.weight

-- busiest assignee of each project
SELECT project_id, assignee_id, issues FROM (SELECT project_id, assignee_id, COUNT(*) AS issues, ROW_NUMBER() OVER (PARTITION BY project_id ORDER BY COUNT(*) DESC, assignee_id) AS place FROM issues WHERE closed_at IS NULL AND assignee_id IS NOT NULL GROUP BY project_id, assignee_id) b WHERE place = 1

-- issues with a custom field
-- postgres
SELECT id, title, custom_fields->>'severity' AS severity FROM issues WHERE project_id = :project_id AND custom_fields->>'severity' = :severity
-- mariadb
SELECT id, title, JSON_VALUE(custom_fields, '$.severity') AS severity FROM issues WHERE project_id = :project_id AND JSON_VALUE(custom_fields, '$.severity') = :severity

-- unread inbox, newest first
SELECT n.id, n.kind, n.created_at, i.title, a.username AS actor FROM inbox_items n JOIN issues i ON i.id = n.issue_id LEFT JOIN users a ON a.id = n.actor_id WHERE n.user_id = :user_id AND n.read_at IS NULL ORDER BY n.created_at DESC LIMIT 20

-- unread inbox by project
SELECT i.project_id, COUNT(*) AS unread FROM inbox_items n JOIN issues i ON i.id = n.issue_id WHERE n.user_id = :user_id AND n.read_at IS NULL GROUP BY i.project_id

-- components of a project with their leads
SELECT c.id, c.name, u.username AS lead, COUNT(ic.issue_id) AS issues FROM components c LEFT JOIN users u ON u.id = c.lead_id LEFT JOIN issue_components ic ON ic.component_id = c.id WHERE c.project_id = :project_id GROUP BY c.id, c.name, u.username ORDER BY c.name

-- saved filters of a user, and shared ones
SELECT id, name, query, owner_id = :user_id AS own FROM saved_filters WHERE owner_id = :user_id OR shared = TRUE ORDER BY name

-- dashboard of a user in one row
SELECT
    (SELECT COUNT(*) FROM issues WHERE assignee_id = :user_id AND closed_at IS NULL) AS assigned,
    (SELECT COUNT(*) FROM issues WHERE reporter_id = :user_id AND closed_at IS NULL) AS reported,
    (SELECT COUNT(*) FROM watchers WHERE user_id = :user_id) AS watched,
    (SELECT COUNT(*) FROM inbox_items WHERE user_id = :user_id AND read_at IS NULL) AS unread

-- issues that may be duplicates: same title in a project
SELECT a.id, b.id AS other_id, a.title FROM issues a JOIN issues b ON b.project_id = a.project_id AND b.title = a.title AND b.id > a.id WHERE a.project_id = :project_id AND a.closed_at IS NULL ORDER BY a.id, b.id
