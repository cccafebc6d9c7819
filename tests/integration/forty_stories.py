"""Forty stories in a database of the module's own, for services that only differ in how they divide them."""

import pytest

from tests.fixtures.postgres import Database


@pytest.fixture(scope="module")
def stories(module_database: Database) -> Database:
    """Their ids are 1 to 40."""
    module_database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 40) i",
    )
    return module_database
