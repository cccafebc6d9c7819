"""The SQL of MariaDB and MySQL: grammar, and what its expressions mean."""
