"""SQL text to plans: the only package that imports the SQL parser."""

from dataflow.sql.lower import plan_view

__all__ = ["plan_view"]
