-- Reads of a shop. A paragraph is one; where the databases' SQL differs it has a text for each.

-- product page: by slug
SELECT products.* FROM products WHERE products.slug = :slug AND products.deleted_at IS NULL LIMIT 1

-- product page with its brand
SELECT p.id, p.name, p.description, b.name AS brand FROM products p LEFT JOIN brands b ON b.id = p.brand_id WHERE p.slug = :slug AND p.status = 'active'

-- variants of a product
SELECT variants.* FROM variants WHERE variants.product_id = :product_id AND variants.active = TRUE ORDER BY variants.position ASC, variants.id ASC

-- preload of variants
SELECT variants.* FROM variants WHERE variants.product_id IN (:product_ids)

-- images of products on a page
SELECT images.* FROM images WHERE images.product_id IN (:product_ids) ORDER BY images.position

-- first image of each product on a page
SELECT i.product_id, i.url FROM images i JOIN (SELECT product_id, MIN(position) AS position FROM images GROUP BY product_id) f ON f.product_id = i.product_id AND f.position = i.position WHERE i.product_id IN (:product_ids)

-- variant by SKU
SELECT v.id, v.sku, v.price, p.name, p.slug FROM variants v INNER JOIN products p ON p.id = v.product_id WHERE v.sku = :sku

-- products of a category with their lowest price
SELECT p.id, p.name, p.slug, MIN(v.price) AS price_from FROM products p JOIN product_taxons pt ON pt.product_id = p.id JOIN variants v ON v.product_id = p.id AND v.active = TRUE
WHERE pt.taxon_id = :taxon_id AND p.status = 'active' GROUP BY p.id, p.name, p.slug ORDER BY p.name LIMIT 24 OFFSET :offset

-- products of a category in its own order
SELECT p.id, p.name, p.slug FROM products p JOIN product_taxons pt ON pt.product_id = p.id WHERE pt.taxon_id = :taxon_id AND p.deleted_at IS NULL ORDER BY pt.position, p.id LIMIT 24

-- number of products of a category
SELECT COUNT(*) AS aggregate FROM products INNER JOIN product_taxons ON product_taxons.product_id = products.id WHERE product_taxons.taxon_id = :taxon_id AND products.status = 'active'

-- products of a category, filtered by price
SELECT DISTINCT p.id, p.name FROM products p JOIN product_taxons pt ON pt.product_id = p.id JOIN variants v ON v.product_id = p.id WHERE pt.taxon_id = :taxon_id AND v.price BETWEEN :low AND :high ORDER BY p.name

-- products of a category, by whatever filter is set
-- postgres
SELECT p.id, p.name FROM products p JOIN product_taxons pt ON pt.product_id = p.id
WHERE pt.taxon_id = :taxon_id AND (:brand_id::bigint IS NULL OR p.brand_id = :brand_id) AND (:featured::boolean IS NULL OR p.featured = :featured) ORDER BY p.id LIMIT 24
-- mariadb
SELECT p.id, p.name FROM products p JOIN product_taxons pt ON pt.product_id = p.id
WHERE pt.taxon_id = :taxon_id AND (:brand_id IS NULL OR p.brand_id = :brand_id) AND (:featured IS NULL OR p.featured = :featured) ORDER BY p.id LIMIT 24

-- facets: brands of a category
SELECT b.id, b.name, COUNT(*) AS products FROM products p JOIN brands b ON b.id = p.brand_id JOIN product_taxons pt ON pt.product_id = p.id WHERE pt.taxon_id = :taxon_id AND p.status = 'active' GROUP BY b.id, b.name ORDER BY products DESC, b.name

-- facets: lowest and highest price of a category
SELECT MIN(v.price) AS lowest, MAX(v.price) AS highest FROM variants v JOIN product_taxons pt ON pt.product_id = v.product_id WHERE pt.taxon_id = :taxon_id AND v.active = TRUE

-- facets: price bands
SELECT CASE WHEN v.price < 20 THEN 'cheap' WHEN v.price < 100 THEN 'middle' ELSE 'dear' END AS band, COUNT(DISTINCT v.product_id) AS products
FROM variants v JOIN product_taxons pt ON pt.product_id = v.product_id WHERE pt.taxon_id = :taxon_id GROUP BY 1

-- products with an attribute
-- postgres
SELECT id, name FROM products WHERE attributes->>'color' = :color AND status = 'active' ORDER BY id LIMIT 24
-- mariadb
SELECT id, name FROM products WHERE JSON_UNQUOTE(JSON_EXTRACT(attributes, '$.color')) = :color AND status = 'active' ORDER BY id LIMIT 24

-- products that have a set of attributes
-- postgres
SELECT id, name FROM products WHERE attributes @> '{"organic": true}' AND status = 'active'
-- mariadb
SELECT id, name FROM products WHERE JSON_CONTAINS(attributes, '{"organic": true}') AND status = 'active'

-- newest products
SELECT products.* FROM products WHERE products.status = 'active' AND products.deleted_at IS NULL ORDER BY products.published_at DESC LIMIT 12

-- products published by now
-- postgres
SELECT id, name FROM products WHERE status = 'active' AND published_at <= now() ORDER BY published_at DESC LIMIT 12
-- mariadb
SELECT id, name FROM products WHERE status = 'active' AND published_at <= NOW() ORDER BY published_at DESC LIMIT 12

-- featured products
SELECT products.id, products.name, products.slug FROM products WHERE products.featured = TRUE AND products.status = :status ORDER BY products.updated_at DESC LIMIT 8

-- some products at random
-- postgres
SELECT id, name FROM products WHERE status = 'active' ORDER BY random() LIMIT 4
-- mariadb
SELECT id, name FROM products WHERE status = 'active' ORDER BY RAND() LIMIT 4

-- search by name
SELECT products.id, products.name FROM products WHERE LOWER(products.name) LIKE LOWER(:pattern) AND products.status = 'active' LIMIT 20

-- search by name, SKU or description
SELECT DISTINCT p.id, p.name FROM products p LEFT JOIN variants v ON v.product_id = p.id WHERE p.name LIKE :pattern OR v.sku LIKE :pattern OR p.description LIKE :pattern

-- brand page
SELECT p.id, p.name, p.slug FROM brands b JOIN products p ON p.brand_id = b.id WHERE b.slug = :slug AND p.status = 'active' ORDER BY p.name

-- brands that have products
SELECT brands.* FROM brands WHERE EXISTS (SELECT * FROM products WHERE brands.id = products.brand_id AND products.deleted_at IS NULL) ORDER BY brands.name ASC

-- brands with the number of products
SELECT b.*, (SELECT COUNT(*) FROM products p WHERE p.brand_id = b.id AND p.status = 'active') AS products_count FROM brands b ORDER BY b.name

-- root categories
SELECT taxons.* FROM taxons WHERE taxons.parent_id IS NULL AND taxons.active = TRUE ORDER BY taxons.position

-- path to a category, by nested sets
SELECT a.id, a.name, a.slug FROM taxons t JOIN taxons a ON a.lft <= t.lft AND a.rgt >= t.rgt WHERE t.slug = :slug ORDER BY a.lft

-- products below a category, by nested sets
SELECT COUNT(DISTINCT pt.product_id) FROM taxons root JOIN taxons t ON t.lft BETWEEN root.lft AND root.rgt JOIN product_taxons pt ON pt.taxon_id = t.id WHERE root.id = :taxon_id

-- categories below one, recursively
WITH RECURSIVE below AS (SELECT id FROM taxons WHERE id = :taxon_id UNION ALL SELECT t.id FROM taxons t JOIN below ON t.parent_id = below.id)
SELECT p.id, p.name FROM products p JOIN product_taxons pt ON pt.product_id = p.id JOIN below ON below.id = pt.taxon_id

-- related products: same category
SELECT DISTINCT p.id, p.name FROM product_taxons mine JOIN product_taxons other ON other.taxon_id = mine.taxon_id JOIN products p ON p.id = other.product_id WHERE mine.product_id = :product_id AND p.id <> :product_id LIMIT 6

-- also bought
SELECT o.variant_id, COUNT(*) AS orders FROM order_lines mine JOIN order_lines o ON o.order_id = mine.order_id AND o.variant_id <> mine.variant_id WHERE mine.variant_id = :variant_id GROUP BY o.variant_id ORDER BY orders DESC LIMIT 6

-- price for a customer group and quantity
SELECT amount FROM prices WHERE variant_id = :variant_id AND currency = :currency AND (customer_group_id = :group_id OR customer_group_id IS NULL) AND min_quantity <= :quantity ORDER BY amount LIMIT 1

-- price that is valid now
-- postgres
SELECT amount FROM prices WHERE variant_id = :variant_id AND currency = 'EUR' AND (valid_from IS NULL OR valid_from <= now()) AND (valid_until IS NULL OR valid_until > now()) ORDER BY min_quantity
-- mariadb
SELECT amount FROM prices WHERE variant_id = :variant_id AND currency = 'EUR' AND (valid_from IS NULL OR valid_from <= NOW()) AND (valid_until IS NULL OR valid_until > NOW()) ORDER BY min_quantity

-- prices of variants of a page in a currency, else the default
SELECT v.id, v.sku, COALESCE(pr.amount, v.price) AS amount FROM variants v LEFT JOIN prices pr ON pr.variant_id = v.id AND pr.currency = :currency AND pr.min_quantity = 1 WHERE v.product_id IN (:product_ids)

-- discounted variants
SELECT v.id, v.sku, v.price, v.compare_at_price, ROUND((v.compare_at_price - v.price) * 100 / v.compare_at_price, 0) AS percent FROM variants v WHERE v.compare_at_price > v.price AND v.active = TRUE

-- stock of a variant
SELECT SUM(on_hand - reserved) AS available FROM stock_levels WHERE variant_id = :variant_id

-- stock of a product's variants
SELECT v.id, v.sku, COALESCE(SUM(s.on_hand - s.reserved), 0) AS available FROM variants v LEFT JOIN stock_levels s ON s.variant_id = v.id WHERE v.product_id = :product_id GROUP BY v.id, v.sku

-- stock by warehouse
SELECT w.code, w.name, s.on_hand, s.reserved FROM stock_levels s JOIN warehouses w ON w.id = s.warehouse_id WHERE s.variant_id = :variant_id AND w.active = TRUE ORDER BY w.code

-- what to reorder
SELECT v.sku, v.name, w.code, s.on_hand - s.reserved AS available FROM stock_levels s JOIN variants v ON v.id = s.variant_id JOIN warehouses w ON w.id = s.warehouse_id WHERE s.on_hand - s.reserved < s.reorder_point ORDER BY available, v.sku

-- sold out products
SELECT p.id, p.name FROM products p WHERE p.status = 'active' AND NOT EXISTS (SELECT 1 FROM variants v JOIN stock_levels s ON s.variant_id = v.id WHERE v.product_id = p.id AND s.on_hand > s.reserved)

-- stock movements of a variant with a running balance
SELECT id, quantity, reason, created_at, SUM(quantity) OVER (ORDER BY id) AS balance FROM stock_movements WHERE variant_id = :variant_id AND warehouse_id = :warehouse_id ORDER BY id DESC

-- value of the stock
SELECT w.code, SUM(s.on_hand * v.price) AS stock_value FROM stock_levels s JOIN variants v ON v.id = s.variant_id JOIN warehouses w ON w.id = s.warehouse_id GROUP BY w.code

-- customer by email
SELECT customers.* FROM customers WHERE customers.email = :email AND customers.deleted_at IS NULL LIMIT 1

-- customer with the discount of its group
SELECT c.id, c.email, COALESCE(g.discount, 0) AS discount FROM customers c LEFT JOIN customer_groups g ON g.id = c.group_id WHERE c.id = :id

-- full names
-- postgres
SELECT id, first_name || ' ' || last_name AS full_name FROM customers WHERE id IN (:ids)
-- mariadb
SELECT id, CONCAT(first_name, ' ', last_name) AS full_name FROM customers WHERE id IN (:ids)

-- admin: find customers
-- postgres
SELECT id, email, first_name, last_name FROM customers WHERE (email ILIKE :pattern OR first_name ILIKE :pattern OR last_name ILIKE :pattern) AND deleted_at IS NULL ORDER BY created_at DESC LIMIT 20
-- mariadb
SELECT id, email, first_name, last_name FROM customers WHERE (email LIKE :pattern OR first_name LIKE :pattern OR last_name LIKE :pattern) AND deleted_at IS NULL ORDER BY created_at DESC LIMIT 20

-- addresses of a customer
SELECT addresses.* FROM addresses WHERE addresses.customer_id = :customer_id AND addresses.customer_id IS NOT NULL ORDER BY addresses.is_default DESC, addresses.id

-- newsletter receivers
SELECT id, email FROM customers WHERE accepts_marketing = TRUE AND deleted_at IS NULL AND id > :last_id ORDER BY id LIMIT 1000

-- customers by country
SELECT a.country_code, COUNT(DISTINCT a.customer_id) AS customers FROM addresses a GROUP BY a.country_code ORDER BY customers DESC

-- cart by token
SELECT carts.* FROM carts WHERE carts.token = :token AND carts.completed_at IS NULL LIMIT 1

-- lines of a cart
SELECT ci.id, ci.quantity, v.sku, v.price, p.name, p.slug, ci.quantity * v.price AS line_total FROM cart_items ci JOIN variants v ON v.id = ci.variant_id JOIN products p ON p.id = v.product_id WHERE ci.cart_id = :cart_id ORDER BY ci.id

-- total of a cart
SELECT COALESCE(SUM(ci.quantity * v.price), 0) AS subtotal, COALESCE(SUM(ci.quantity), 0) AS items FROM cart_items ci JOIN variants v ON v.id = ci.variant_id WHERE ci.cart_id = :cart_id

-- lines of a cart that are not available
SELECT ci.id, ci.variant_id FROM cart_items ci WHERE ci.cart_id = :cart_id AND ci.quantity > (SELECT COALESCE(SUM(s.on_hand - s.reserved), 0) FROM stock_levels s WHERE s.variant_id = ci.variant_id)

-- abandoned carts
SELECT c.id, c.customer_id, COUNT(ci.id) AS items FROM carts c JOIN cart_items ci ON ci.cart_id = c.id WHERE c.completed_at IS NULL AND c.updated_at < :before AND c.customer_id IS NOT NULL GROUP BY c.id, c.customer_id

-- carts left for a day
-- postgres
SELECT id, customer_id, updated_at FROM carts WHERE completed_at IS NULL AND updated_at < now() - interval '1 day' ORDER BY updated_at
-- mariadb
SELECT id, customer_id, updated_at FROM carts WHERE completed_at IS NULL AND updated_at < DATE_SUB(NOW(), INTERVAL 1 DAY) ORDER BY updated_at

-- coupon by code, in any case
-- postgres
SELECT * FROM coupons WHERE upper(code) = upper(:code) AND active = TRUE LIMIT 1
-- mariadb
SELECT * FROM coupons WHERE UPPER(code) = UPPER(:code) AND active = TRUE LIMIT 1

-- coupon that may be used
SELECT id, kind, value FROM coupons WHERE code = :code AND active = TRUE AND (usage_limit IS NULL OR used_count < usage_limit) AND (min_total IS NULL OR min_total <= :total)

-- coupons that are valid today
-- postgres
SELECT id, code FROM coupons WHERE active AND starts_at <= CURRENT_TIMESTAMP AND ends_at >= CURRENT_TIMESTAMP
-- mariadb
SELECT id, code FROM coupons WHERE active AND starts_at <= CURRENT_TIMESTAMP AND ends_at >= CURRENT_TIMESTAMP

-- did this customer use the coupon?
SELECT EXISTS (SELECT 1 FROM coupon_redemptions WHERE coupon_id = :coupon_id AND customer_id = :customer_id) AS used

-- use of coupons
SELECT c.code, COUNT(r.id) AS redemptions, COALESCE(SUM(o.discount_total), 0) AS given FROM coupons c LEFT JOIN coupon_redemptions r ON r.coupon_id = c.id LEFT JOIN orders o ON o.id = r.order_id GROUP BY c.id, c.code ORDER BY redemptions DESC

-- order by number
SELECT orders.* FROM orders WHERE orders.number = :number LIMIT 1

-- order by number, for its customer
SELECT o.id, o.number, o.total, a.street, a.city FROM orders o LEFT JOIN addresses a ON a.id = o.shipping_address_id WHERE o.number = :number AND o.customer_id = :customer_id

-- orders of a customer
SELECT orders.* FROM orders WHERE orders.customer_id = :customer_id AND orders.placed_at IS NOT NULL ORDER BY orders.placed_at DESC LIMIT 10 OFFSET :offset

-- orders of a customer with what was bought
-- postgres
SELECT o.id, o.number, string_agg(l.product_name, ', ' ORDER BY l.id) AS items FROM orders o JOIN order_lines l ON l.order_id = o.id WHERE o.customer_id = :customer_id GROUP BY o.id, o.number
-- mariadb
SELECT o.id, o.number, GROUP_CONCAT(l.product_name ORDER BY l.id SEPARATOR ', ') AS items FROM orders o JOIN order_lines l ON l.order_id = o.id WHERE o.customer_id = :customer_id GROUP BY o.id, o.number

-- lines of an order
SELECT order_lines.* FROM order_lines WHERE order_lines.order_id = :order_id ORDER BY order_lines.id

-- lines of an order as JSON
-- postgres
SELECT o.id, json_agg(json_build_object('sku', l.sku, 'quantity', l.quantity) ORDER BY l.id) AS lines FROM orders o JOIN order_lines l ON l.order_id = o.id WHERE o.id = :id GROUP BY o.id
-- mariadb
SELECT o.id, JSON_ARRAYAGG(JSON_OBJECT('sku', l.sku, 'quantity', l.quantity)) AS order_lines FROM orders o JOIN order_lines l ON l.order_id = o.id WHERE o.id = :id GROUP BY o.id

-- payments of an order with refunds
SELECT p.id, p.method, p.status, p.amount, COALESCE(SUM(r.amount), 0) AS refunded FROM payments p LEFT JOIN refunds r ON r.payment_id = p.id WHERE p.order_id = :order_id GROUP BY p.id, p.method, p.status, p.amount

-- what is still to be paid
SELECT o.total - COALESCE((SELECT SUM(p.amount) FROM payments p WHERE p.order_id = o.id AND p.status = 'captured'), 0) AS due FROM orders o WHERE o.id = :id

-- shipments of an order
SELECT s.id, s.carrier, s.tracking_number, s.status, w.name FROM shipments s JOIN warehouses w ON w.id = s.warehouse_id WHERE s.order_id = :order_id

-- admin: orders by state
SELECT orders.id, orders.number, orders.total, customers.email FROM orders LEFT OUTER JOIN customers ON customers.id = orders.customer_id WHERE orders.status = :status ORDER BY orders.placed_at DESC LIMIT 50 OFFSET :offset

-- admin: orders in some states and a period
SELECT o.id, o.number, o.total FROM orders o WHERE o.status IN (:statuses) AND o.placed_at >= :from AND o.placed_at < :to ORDER BY o.placed_at DESC

-- admin: orders that are not in some states
SELECT id, number, status FROM orders WHERE status NOT IN ('cancelled', 'completed') ORDER BY created_at LIMIT 100

-- admin: orders that are not in states that the user chose
SELECT id, number, status FROM orders WHERE status NOT IN (:hidden) ORDER BY created_at DESC LIMIT 100

-- admin: number of orders by state
SELECT status, COUNT(*) AS count FROM orders GROUP BY status

-- orders paid but not shipped
SELECT o.id, o.number, o.placed_at FROM orders o WHERE o.payment_status = 'paid' AND o.cancelled_at IS NULL AND NOT EXISTS (SELECT 1 FROM shipments s WHERE s.order_id = o.id) ORDER BY o.placed_at

-- orders whose payments do not add up
SELECT o.id, o.number, o.total, SUM(p.amount) AS paid FROM orders o JOIN payments p ON p.order_id = o.id WHERE p.status = 'captured' GROUP BY o.id, o.number, o.total HAVING SUM(p.amount) <> o.total

-- dashboard: orders and revenue of today
-- postgres
SELECT COUNT(*) AS orders, COALESCE(SUM(total), 0) AS revenue FROM orders WHERE placed_at >= CURRENT_DATE
-- mariadb
SELECT COUNT(*) AS orders, COALESCE(SUM(total), 0) AS revenue FROM orders WHERE placed_at >= CURDATE()

-- dashboard: orders and revenue of a period
SELECT COUNT(*) AS orders, COALESCE(SUM(total), 0) AS revenue, AVG(total) AS average FROM orders WHERE placed_at >= :from AND placed_at < :to AND status <> 'cancelled'

-- revenue by day in a period
-- postgres
SELECT date_trunc('day', placed_at) AS day, COUNT(*) AS orders, SUM(total) AS revenue FROM orders WHERE placed_at BETWEEN :from AND :to AND status <> 'cancelled' GROUP BY day ORDER BY day
-- mariadb
SELECT DATE(placed_at) AS day, COUNT(*) AS orders, SUM(total) AS revenue FROM orders WHERE placed_at BETWEEN :from AND :to AND status <> 'cancelled' GROUP BY day ORDER BY day

-- revenue by month and channel
-- postgres
SELECT to_char(placed_at, 'YYYY-MM') AS month, channel, SUM(total) AS revenue FROM orders WHERE status = 'completed' GROUP BY month, channel ORDER BY month, channel
-- mariadb
SELECT DATE_FORMAT(placed_at, '%Y-%m') AS month, channel, SUM(total) AS revenue FROM orders WHERE status = 'completed' GROUP BY month, channel ORDER BY month, channel

-- revenue of each month against the one before
-- postgres
WITH months AS (SELECT date_trunc('month', placed_at) AS month, SUM(total) AS revenue FROM orders WHERE placed_at IS NOT NULL GROUP BY 1)
SELECT month, revenue, revenue - LAG(revenue) OVER (ORDER BY month) AS growth FROM months ORDER BY month
-- mariadb
WITH months AS (SELECT DATE_FORMAT(placed_at, '%Y-%m-01') AS month, SUM(total) AS revenue FROM orders WHERE placed_at IS NOT NULL GROUP BY month)
SELECT month, revenue, revenue - LAG(revenue) OVER (ORDER BY month) AS growth FROM months ORDER BY month

-- every day of a period, also those without orders
-- postgres
SELECT d::date AS day, COUNT(o.id) AS orders FROM generate_series(CAST(:from AS date), CAST(:to AS date), interval '1 day') d LEFT JOIN orders o ON o.placed_at::date = d::date GROUP BY d ORDER BY d
-- mariadb
WITH RECURSIVE days AS (SELECT CAST(:from AS DATE) AS day UNION ALL SELECT day + INTERVAL 1 DAY FROM days WHERE day < :to)
SELECT days.day, COUNT(o.id) AS orders FROM days LEFT JOIN orders o ON DATE(o.placed_at) = days.day GROUP BY days.day ORDER BY days.day

-- best sellers
SELECT l.variant_id, l.sku, SUM(l.quantity) AS sold, SUM(l.total) AS revenue FROM order_lines l JOIN orders o ON o.id = l.order_id WHERE o.status = 'completed' GROUP BY l.variant_id, l.sku ORDER BY sold DESC LIMIT 10

-- best sellers of a period
SELECT v.product_id, SUM(l.quantity) AS sold FROM order_lines l JOIN orders o ON o.id = l.order_id JOIN variants v ON v.id = l.variant_id WHERE o.placed_at >= :since GROUP BY v.product_id ORDER BY sold DESC LIMIT 10

-- best sellers of the last 30 days
-- postgres
SELECT l.variant_id, SUM(l.quantity) AS sold FROM order_lines l JOIN orders o ON o.id = l.order_id WHERE o.placed_at > now() - interval '30 days' GROUP BY l.variant_id ORDER BY sold DESC LIMIT 10
-- mariadb
SELECT l.variant_id, SUM(l.quantity) AS sold FROM order_lines l JOIN orders o ON o.id = l.order_id WHERE o.placed_at > NOW() - INTERVAL 30 DAY GROUP BY l.variant_id ORDER BY sold DESC LIMIT 10

-- three best sellers of each category
SELECT taxon_id, product_id, sold FROM (
    SELECT pt.taxon_id, v.product_id, SUM(l.quantity) AS sold, RANK() OVER (PARTITION BY pt.taxon_id ORDER BY SUM(l.quantity) DESC) AS place
    FROM order_lines l JOIN variants v ON v.id = l.variant_id JOIN product_taxons pt ON pt.product_id = v.product_id GROUP BY pt.taxon_id, v.product_id
) ranked WHERE place <= 3 ORDER BY taxon_id, place

-- best customers
SELECT c.id, c.email, COUNT(o.id) AS orders, SUM(o.total) AS spent FROM customers c JOIN orders o ON o.customer_id = c.id AND o.status = 'completed' GROUP BY c.id, c.email HAVING SUM(o.total) > 1000 ORDER BY spent DESC LIMIT 100

-- best customers, above a sum that the user chose
SELECT o.customer_id, SUM(o.total) AS spent FROM orders o WHERE o.status = 'completed' GROUP BY o.customer_id HAVING SUM(o.total) >= :least ORDER BY spent DESC

-- what a customer spent
SELECT COUNT(*) AS orders, SUM(total) AS spent, MIN(placed_at) AS first_order, MAX(placed_at) AS last_order FROM orders WHERE customer_id = :customer_id AND status = 'completed'

-- first order of each customer
SELECT customer_id, id, total FROM (SELECT customer_id, id, total, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY placed_at) AS n FROM orders WHERE placed_at IS NOT NULL) o WHERE n = 1

-- customers without an order
SELECT c.id, c.email FROM customers c LEFT JOIN orders o ON o.customer_id = c.id WHERE o.id IS NULL AND c.deleted_at IS NULL

-- median of orders
-- postgres
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) AS median FROM orders WHERE status = 'completed'
-- mariadb
SELECT DISTINCT MEDIAN(total) OVER (PARTITION BY channel) AS median FROM orders WHERE status = 'completed'

-- reviews of a product
SELECT r.id, r.rating, r.title, r.body, r.created_at, c.first_name FROM reviews r INNER JOIN customers c ON c.id = r.customer_id WHERE r.product_id = :product_id AND r.status = 'approved' ORDER BY r.helpful_count DESC, r.id DESC LIMIT 10

-- rating of a product
SELECT COUNT(*) AS reviews, AVG(rating) AS rating FROM reviews WHERE product_id = :product_id AND status = 'approved'

-- ratings of products on a page
SELECT reviews.product_id, COUNT(*) AS reviews, ROUND(AVG(reviews.rating), 1) AS rating FROM reviews WHERE reviews.product_id IN (:product_ids) AND reviews.status = 'approved' GROUP BY reviews.product_id

-- stars of a product
SELECT rating, COUNT(*) AS reviews FROM reviews WHERE product_id = :product_id AND status = 'approved' GROUP BY rating ORDER BY rating DESC

-- may this customer review the product?
SELECT 1 AS one FROM orders o JOIN order_lines l ON l.order_id = o.id JOIN variants v ON v.id = l.variant_id WHERE o.customer_id = :customer_id AND v.product_id = :product_id AND o.status = 'completed' LIMIT 1

-- wishlist, with whether products are on sale
SELECT w.id, p.id AS product_id, p.name, EXISTS (SELECT 1 FROM variants v WHERE v.product_id = p.id AND v.compare_at_price > v.price) AS on_sale FROM wishlist_items w JOIN products p ON p.id = w.product_id WHERE w.customer_id = :customer_id ORDER BY w.created_at DESC

-- timeline of an order
SELECT 'payment' AS kind, p.created_at AS happened_at, p.status AS detail FROM payments p WHERE p.order_id = :order_id
UNION ALL SELECT 'shipment', s.shipped_at, s.status FROM shipments s WHERE s.order_id = :order_id AND s.shipped_at IS NOT NULL
UNION ALL SELECT 'refund', r.created_at, r.reason FROM refunds r JOIN payments p ON p.id = r.payment_id WHERE p.order_id = :order_id ORDER BY happened_at
