-- Tables of the three applications, as migrations make them, in types of PostgreSQL.

-- forum
CREATE TABLE users (
    id bigserial PRIMARY KEY, username varchar(60) NOT NULL UNIQUE, name varchar(255), email varchar(255) NOT NULL UNIQUE,
    admin boolean NOT NULL DEFAULT false, moderator boolean NOT NULL DEFAULT false, active boolean NOT NULL DEFAULT true,
    trust_level integer NOT NULL DEFAULT 0, karma integer NOT NULL DEFAULT 0, invited_by_id bigint,
    last_seen_at timestamp(6), banned_at timestamp(6), created_at timestamp(6) NOT NULL, settings jsonb
);
CREATE TABLE categories (
    id bigserial PRIMARY KEY, name varchar(50) NOT NULL, slug varchar(60) NOT NULL UNIQUE, parent_category_id bigint,
    position integer NOT NULL DEFAULT 0, topic_count integer NOT NULL DEFAULT 0, read_restricted boolean NOT NULL DEFAULT false,
    color varchar(6)
);
CREATE TABLE topics (
    id bigserial PRIMARY KEY, title varchar(255) NOT NULL, slug varchar(255), user_id bigint NOT NULL, category_id bigint,
    archetype varchar(20) NOT NULL DEFAULT 'regular', views integer NOT NULL DEFAULT 0, posts_count integer NOT NULL DEFAULT 0,
    like_count integer NOT NULL DEFAULT 0, score double precision, excerpt text, closed boolean NOT NULL DEFAULT false,
    visible boolean NOT NULL DEFAULT true, pinned_at timestamp(6), last_post_user_id bigint, last_posted_at timestamp(6),
    bumped_at timestamp(6) NOT NULL, created_at timestamp(6) NOT NULL, deleted_at timestamp(6)
);
CREATE INDEX topics_user_id ON topics (user_id);
CREATE INDEX topics_category_id_bumped_at ON topics (category_id, bumped_at);
CREATE INDEX topics_bumped_at ON topics (bumped_at);
CREATE TABLE posts (
    id bigserial PRIMARY KEY, topic_id bigint NOT NULL, user_id bigint NOT NULL, post_number integer NOT NULL,
    reply_to_post_number integer, post_type integer NOT NULL DEFAULT 1, raw text NOT NULL, like_count integer NOT NULL DEFAULT 0,
    hidden boolean NOT NULL DEFAULT false, created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL,
    deleted_at timestamp(6), UNIQUE (topic_id, post_number)
);
CREATE INDEX posts_user_id_created_at ON posts (user_id, created_at);
CREATE TABLE likes (
    id bigserial PRIMARY KEY, post_id bigint NOT NULL, user_id bigint NOT NULL, created_at timestamp(6) NOT NULL,
    UNIQUE (post_id, user_id)
);
CREATE INDEX likes_user_id ON likes (user_id);
CREATE TABLE tags (id bigserial PRIMARY KEY, name varchar(100) NOT NULL UNIQUE, topic_count integer NOT NULL DEFAULT 0);
CREATE TABLE topic_tags (topic_id bigint NOT NULL, tag_id bigint NOT NULL, PRIMARY KEY (topic_id, tag_id));
CREATE INDEX topic_tags_tag_id ON topic_tags (tag_id);
CREATE TABLE topic_users (
    topic_id bigint NOT NULL, user_id bigint NOT NULL, last_read_post_number integer, notification_level integer NOT NULL DEFAULT 1,
    bookmarked boolean NOT NULL DEFAULT false, last_visited_at timestamp(6), PRIMARY KEY (user_id, topic_id)
);
CREATE INDEX topic_users_topic_id ON topic_users (topic_id);
CREATE TABLE category_mutes (user_id bigint NOT NULL, category_id bigint NOT NULL, PRIMARY KEY (user_id, category_id));
CREATE TABLE tag_mutes (user_id bigint NOT NULL, tag_id bigint NOT NULL, PRIMARY KEY (user_id, tag_id));
CREATE TABLE ignored_users (
    user_id bigint NOT NULL, ignored_user_id bigint NOT NULL, expiring_at timestamp(6), PRIMARY KEY (user_id, ignored_user_id)
);
CREATE TABLE notifications (
    id bigserial PRIMARY KEY, user_id bigint NOT NULL, notification_type integer NOT NULL, topic_id bigint, post_number integer,
    data jsonb NOT NULL, seen boolean NOT NULL DEFAULT false, urgent boolean NOT NULL DEFAULT false,
    created_at timestamp(6) NOT NULL
);
CREATE INDEX notifications_user_id_id ON notifications (user_id, id);
CREATE TABLE messages (
    id bigserial PRIMARY KEY, conversation_id bigint NOT NULL, author_id bigint NOT NULL, recipient_id bigint NOT NULL,
    subject varchar(150), body text NOT NULL, read_at timestamp(6), deleted_by_author boolean NOT NULL DEFAULT false,
    deleted_by_recipient boolean NOT NULL DEFAULT false, created_at timestamp(6) NOT NULL
);
CREATE INDEX messages_recipient_id ON messages (recipient_id);
CREATE INDEX messages_author_id ON messages (author_id);
CREATE INDEX messages_conversation_id ON messages (conversation_id);
CREATE TABLE bookmarks (
    id bigserial PRIMARY KEY, user_id bigint NOT NULL, post_id bigint NOT NULL, name varchar(100), reminder_at timestamp(6),
    created_at timestamp(6) NOT NULL, UNIQUE (user_id, post_id)
);
CREATE TABLE flags (
    id bigserial PRIMARY KEY, post_id bigint NOT NULL, user_id bigint NOT NULL, reason varchar(40) NOT NULL,
    status varchar(20) NOT NULL DEFAULT 'open', resolved_by_id bigint, created_at timestamp(6) NOT NULL
);
CREATE INDEX flags_post_id ON flags (post_id);
CREATE TABLE badges (id bigserial PRIMARY KEY, name varchar(100) NOT NULL, tier integer NOT NULL, enabled boolean NOT NULL);
CREATE TABLE user_badges (
    id bigserial PRIMARY KEY, user_id bigint NOT NULL, badge_id bigint NOT NULL, granted_at timestamp(6) NOT NULL
);
CREATE INDEX user_badges_user_id ON user_badges (user_id);
CREATE TABLE poll_options (id bigserial PRIMARY KEY, post_id bigint NOT NULL, body varchar(255) NOT NULL);
CREATE TABLE poll_votes (option_id bigint NOT NULL, user_id bigint NOT NULL, PRIMARY KEY (option_id, user_id));
CREATE TABLE user_visits (
    id bigserial PRIMARY KEY, user_id bigint NOT NULL, visited_on date NOT NULL, posts_read integer NOT NULL DEFAULT 0,
    UNIQUE (user_id, visited_on)
);

-- shop
CREATE TABLE customer_groups (id bigserial PRIMARY KEY, name varchar(80) NOT NULL, discount numeric(5,2) NOT NULL);
CREATE TABLE customers (
    id bigserial PRIMARY KEY, email varchar(255) NOT NULL UNIQUE, first_name varchar(100), last_name varchar(100),
    phone varchar(40), group_id bigint, accepts_marketing boolean NOT NULL DEFAULT false, metadata jsonb,
    created_at timestamptz NOT NULL, deleted_at timestamptz
);
CREATE TABLE addresses (
    id bigserial PRIMARY KEY, customer_id bigint NOT NULL, street varchar(255) NOT NULL, city varchar(100) NOT NULL,
    postal_code varchar(20), country_code char(2) NOT NULL, is_default boolean NOT NULL DEFAULT false
);
CREATE INDEX addresses_customer_id ON addresses (customer_id);
CREATE TABLE brands (id bigserial PRIMARY KEY, name varchar(100) NOT NULL, slug varchar(100) NOT NULL UNIQUE);
CREATE TABLE taxons (
    id bigserial PRIMARY KEY, parent_id bigint, name varchar(100) NOT NULL, slug varchar(120) NOT NULL UNIQUE,
    position integer NOT NULL DEFAULT 0, active boolean NOT NULL DEFAULT true, lft integer NOT NULL, rgt integer NOT NULL
);
CREATE INDEX taxons_parent_id ON taxons (parent_id);
CREATE TABLE products (
    id bigserial PRIMARY KEY, brand_id bigint, name varchar(255) NOT NULL, slug varchar(255) NOT NULL UNIQUE, description text,
    status varchar(20) NOT NULL DEFAULT 'draft', featured boolean NOT NULL DEFAULT false, attributes jsonb,
    published_at timestamptz, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, deleted_at timestamptz
);
CREATE INDEX products_brand_id ON products (brand_id);
CREATE INDEX products_status_published_at ON products (status, published_at);
CREATE TABLE product_taxons (
    product_id bigint NOT NULL, taxon_id bigint NOT NULL, position integer NOT NULL DEFAULT 0, PRIMARY KEY (product_id, taxon_id)
);
CREATE INDEX product_taxons_taxon_id ON product_taxons (taxon_id);
CREATE TABLE variants (
    id bigserial PRIMARY KEY, product_id bigint NOT NULL, sku varchar(64) NOT NULL UNIQUE, name varchar(255) NOT NULL,
    price numeric(10,2) NOT NULL, compare_at_price numeric(10,2), position integer NOT NULL DEFAULT 0,
    active boolean NOT NULL DEFAULT true
);
CREATE INDEX variants_product_id ON variants (product_id);
CREATE TABLE prices (
    id bigserial PRIMARY KEY, variant_id bigint NOT NULL, currency char(3) NOT NULL, amount numeric(12,2) NOT NULL,
    customer_group_id bigint, min_quantity integer NOT NULL DEFAULT 1, valid_from timestamptz, valid_until timestamptz
);
CREATE INDEX prices_variant_id ON prices (variant_id);
CREATE TABLE images (
    id bigserial PRIMARY KEY, product_id bigint NOT NULL, url varchar(500) NOT NULL, alt varchar(255), position integer NOT NULL
);
CREATE INDEX images_product_id ON images (product_id);
CREATE TABLE warehouses (id bigserial PRIMARY KEY, code varchar(20) NOT NULL UNIQUE, name varchar(100) NOT NULL, active boolean NOT NULL);
CREATE TABLE stock_levels (
    variant_id bigint NOT NULL, warehouse_id bigint NOT NULL, on_hand integer NOT NULL, reserved integer NOT NULL,
    reorder_point integer, PRIMARY KEY (variant_id, warehouse_id)
);
CREATE TABLE stock_movements (
    id bigserial PRIMARY KEY, variant_id bigint NOT NULL, warehouse_id bigint NOT NULL, quantity integer NOT NULL,
    reason varchar(20) NOT NULL, created_at timestamptz NOT NULL
);
CREATE INDEX stock_movements_variant_id ON stock_movements (variant_id);
CREATE TABLE carts (
    id bigserial PRIMARY KEY, customer_id bigint, token varchar(64) NOT NULL UNIQUE, coupon_id bigint,
    created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, completed_at timestamptz
);
CREATE INDEX carts_customer_id ON carts (customer_id);
CREATE TABLE cart_items (
    id bigserial PRIMARY KEY, cart_id bigint NOT NULL, variant_id bigint NOT NULL, quantity integer NOT NULL
);
CREATE INDEX cart_items_cart_id ON cart_items (cart_id);
CREATE TABLE orders (
    id bigserial PRIMARY KEY, number varchar(32) NOT NULL UNIQUE, customer_id bigint, status varchar(20) NOT NULL,
    payment_status varchar(20) NOT NULL, channel varchar(20) NOT NULL, currency char(3) NOT NULL, subtotal numeric(12,2) NOT NULL,
    shipping_total numeric(12,2) NOT NULL, tax_total numeric(12,2) NOT NULL, discount_total numeric(12,2) NOT NULL,
    total numeric(12,2) NOT NULL, coupon_id bigint, shipping_address_id bigint, metadata jsonb, placed_at timestamptz,
    created_at timestamptz NOT NULL, cancelled_at timestamptz
);
CREATE INDEX orders_customer_id ON orders (customer_id);
CREATE INDEX orders_status_placed_at ON orders (status, placed_at);
CREATE TABLE order_lines (
    id bigserial PRIMARY KEY, order_id bigint NOT NULL, variant_id bigint, product_name varchar(255) NOT NULL,
    sku varchar(64) NOT NULL, quantity integer NOT NULL, unit_price numeric(10,2) NOT NULL, discount numeric(10,2) NOT NULL DEFAULT 0,
    total numeric(12,2) NOT NULL
);
CREATE INDEX order_lines_order_id ON order_lines (order_id);
CREATE INDEX order_lines_variant_id ON order_lines (variant_id);
CREATE TABLE payments (
    id bigserial PRIMARY KEY, order_id bigint NOT NULL, method varchar(20) NOT NULL, status varchar(20) NOT NULL,
    amount numeric(12,2) NOT NULL, transaction_id varchar(100), created_at timestamptz NOT NULL, captured_at timestamptz
);
CREATE INDEX payments_order_id ON payments (order_id);
CREATE TABLE refunds (
    id bigserial PRIMARY KEY, payment_id bigint NOT NULL, amount numeric(12,2) NOT NULL, reason varchar(100), created_at timestamptz NOT NULL
);
CREATE INDEX refunds_payment_id ON refunds (payment_id);
CREATE TABLE shipments (
    id bigserial PRIMARY KEY, order_id bigint NOT NULL, warehouse_id bigint NOT NULL, carrier varchar(40), tracking_number varchar(80),
    status varchar(20) NOT NULL, shipped_at timestamptz, delivered_at timestamptz
);
CREATE INDEX shipments_order_id ON shipments (order_id);
CREATE TABLE reviews (
    id bigserial PRIMARY KEY, product_id bigint NOT NULL, customer_id bigint NOT NULL, rating smallint NOT NULL, title varchar(150),
    body text, status varchar(20) NOT NULL DEFAULT 'pending', helpful_count integer NOT NULL DEFAULT 0, created_at timestamptz NOT NULL
);
CREATE INDEX reviews_product_id ON reviews (product_id);
CREATE INDEX reviews_customer_id ON reviews (customer_id);
CREATE TABLE coupons (
    id bigserial PRIMARY KEY, code varchar(40) NOT NULL UNIQUE, kind varchar(20) NOT NULL, value numeric(10,2) NOT NULL,
    usage_limit integer, used_count integer NOT NULL DEFAULT 0, min_total numeric(10,2), starts_at timestamptz, ends_at timestamptz,
    active boolean NOT NULL DEFAULT true
);
CREATE TABLE coupon_redemptions (
    id bigserial PRIMARY KEY, coupon_id bigint NOT NULL, order_id bigint NOT NULL, customer_id bigint, created_at timestamptz NOT NULL
);
CREATE INDEX coupon_redemptions_coupon_id ON coupon_redemptions (coupon_id);
CREATE TABLE wishlist_items (
    id bigserial PRIMARY KEY, customer_id bigint NOT NULL, product_id bigint NOT NULL, created_at timestamptz NOT NULL,
    UNIQUE (customer_id, product_id)
);

-- tracker: its users are the forum's
CREATE TABLE projects (
    id bigserial PRIMARY KEY, code varchar(10) NOT NULL UNIQUE, name varchar(120) NOT NULL, description text, lead_id bigint,
    is_public boolean NOT NULL DEFAULT false, archived boolean NOT NULL DEFAULT false, created_at timestamptz NOT NULL
);
CREATE TABLE project_members (
    id bigserial PRIMARY KEY, project_id bigint NOT NULL, user_id bigint NOT NULL, role varchar(20) NOT NULL,
    joined_at timestamptz NOT NULL, UNIQUE (project_id, user_id)
);
CREATE INDEX project_members_user_id ON project_members (user_id);
CREATE TABLE statuses (id bigserial PRIMARY KEY, name varchar(40) NOT NULL, stage varchar(20) NOT NULL, position integer NOT NULL);
CREATE TABLE priorities (id bigserial PRIMARY KEY, name varchar(40) NOT NULL, weight integer NOT NULL);
CREATE TABLE issues (
    id bigserial PRIMARY KEY, project_id bigint NOT NULL, number integer NOT NULL, title varchar(255) NOT NULL, description text,
    kind varchar(20) NOT NULL, status_id bigint NOT NULL, priority_id bigint, reporter_id bigint NOT NULL, assignee_id bigint,
    parent_id bigint, sprint_id bigint, milestone_id bigint, story_points numeric(5,1), estimate_minutes integer, due_date date,
    board_rank varchar(40), confidential boolean NOT NULL DEFAULT false, custom_fields jsonb, created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL, closed_at timestamptz, UNIQUE (project_id, number)
);
CREATE INDEX issues_assignee_id ON issues (assignee_id);
CREATE INDEX issues_reporter_id ON issues (reporter_id);
CREATE INDEX issues_sprint_id ON issues (sprint_id);
CREATE INDEX issues_parent_id ON issues (parent_id);
CREATE INDEX issues_milestone_id ON issues (milestone_id);
CREATE TABLE labels (id bigserial PRIMARY KEY, project_id bigint NOT NULL, name varchar(60) NOT NULL, color char(7) NOT NULL);
CREATE INDEX labels_project_id ON labels (project_id);
CREATE TABLE issue_labels (issue_id bigint NOT NULL, label_id bigint NOT NULL, PRIMARY KEY (issue_id, label_id));
CREATE INDEX issue_labels_label_id ON issue_labels (label_id);
CREATE TABLE comments (
    id bigserial PRIMARY KEY, issue_id bigint NOT NULL, author_id bigint NOT NULL, body text NOT NULL,
    internal boolean NOT NULL DEFAULT false, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, deleted_at timestamptz
);
CREATE INDEX comments_issue_id ON comments (issue_id);
CREATE INDEX comments_author_id ON comments (author_id);
CREATE TABLE sprints (
    id bigserial PRIMARY KEY, project_id bigint NOT NULL, name varchar(80) NOT NULL, state varchar(20) NOT NULL, goal text,
    start_date date, end_date date, completed_at timestamptz
);
CREATE INDEX sprints_project_id ON sprints (project_id);
CREATE TABLE milestones (
    id bigserial PRIMARY KEY, project_id bigint NOT NULL, title varchar(120) NOT NULL, due_on date, state varchar(20) NOT NULL
);
CREATE INDEX milestones_project_id ON milestones (project_id);
CREATE TABLE worklogs (
    id bigserial PRIMARY KEY, issue_id bigint NOT NULL, user_id bigint NOT NULL, minutes integer NOT NULL, spent_on date NOT NULL,
    billable boolean NOT NULL DEFAULT false, note varchar(255), created_at timestamptz NOT NULL
);
CREATE INDEX worklogs_issue_id ON worklogs (issue_id);
CREATE INDEX worklogs_user_id_spent_on ON worklogs (user_id, spent_on);
CREATE TABLE watchers (issue_id bigint NOT NULL, user_id bigint NOT NULL, created_at timestamptz NOT NULL, PRIMARY KEY (issue_id, user_id));
CREATE INDEX watchers_user_id ON watchers (user_id);
CREATE TABLE issue_links (
    id bigserial PRIMARY KEY, source_id bigint NOT NULL, target_id bigint NOT NULL, kind varchar(20) NOT NULL,
    UNIQUE (source_id, target_id, kind)
);
CREATE INDEX issue_links_target_id ON issue_links (target_id);
CREATE TABLE attachments (
    id bigserial PRIMARY KEY, issue_id bigint NOT NULL, uploader_id bigint NOT NULL, filename varchar(255) NOT NULL,
    content_type varchar(100) NOT NULL, size_bytes bigint NOT NULL, created_at timestamptz NOT NULL
);
CREATE INDEX attachments_issue_id ON attachments (issue_id);
CREATE TABLE issue_history (
    id bigserial PRIMARY KEY, issue_id bigint NOT NULL, user_id bigint NOT NULL, field varchar(40) NOT NULL, old_value varchar(255),
    new_value varchar(255), created_at timestamptz NOT NULL
);
CREATE INDEX issue_history_issue_id ON issue_history (issue_id);
CREATE TABLE inbox_items (
    id bigserial PRIMARY KEY, user_id bigint NOT NULL, issue_id bigint NOT NULL, actor_id bigint, kind varchar(20) NOT NULL,
    payload jsonb, read_at timestamptz, created_at timestamptz NOT NULL
);
CREATE INDEX inbox_items_user_id ON inbox_items (user_id);
CREATE TABLE components (id bigserial PRIMARY KEY, project_id bigint NOT NULL, name varchar(80) NOT NULL, lead_id bigint);
CREATE TABLE issue_components (issue_id bigint NOT NULL, component_id bigint NOT NULL, PRIMARY KEY (issue_id, component_id));
CREATE TABLE saved_filters (
    id bigserial PRIMARY KEY, owner_id bigint NOT NULL, name varchar(80) NOT NULL, query jsonb NOT NULL, shared boolean NOT NULL
);
