"""Questions to MariaDB and MySQL beside their change stream."""
