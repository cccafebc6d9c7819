"""Fixtures live in modules named by what they provide."""

pytest_plugins = ["tests.fixtures.postgres", "tests.fixtures.mariadb", "tests.fixtures.kafka", "tests.fixtures.corpus"]
