"""The change stream of MariaDB and MySQL: the binary log."""
