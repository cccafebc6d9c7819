"""Questions to PostgreSQL."""
