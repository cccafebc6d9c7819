"""Lobsters: a news site's real queries at the size and with the visitors that the site had. See README.md."""
