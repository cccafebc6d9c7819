"""Hostile values: every function that is computed here, against the database, by answer and by time."""
