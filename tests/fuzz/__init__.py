"""Random views over random changes, compared with PostgreSQL: see README.md."""
