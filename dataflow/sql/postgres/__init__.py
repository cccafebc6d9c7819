"""The SQL of PostgreSQL: grammar, and what its expressions mean."""
