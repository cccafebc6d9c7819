"""Names of permanent slots: valid, readable, and different for different services."""

import re
from pathlib import Path

import pytest

from cdc.postgres.slot import slot_name

URL = "postgresql://app@db/shop"


@pytest.mark.parametrize("host", ["web-1", "Web-1.Example.COM", "x" * 300, "", "café", "127.0.0.1"])
def test_a_name_is_valid(host: str) -> None:
    assert re.fullmatch(r"upquery_[a-z0-9_]{1,40}_[0-9a-f]{12}", slot_name(host, Path("state"), URL))


def test_a_name_begins_with_the_host_and_stays() -> None:
    name = slot_name("web-1.example", Path("state"), URL)
    assert name.startswith("upquery_web_1_example_")
    assert slot_name("web-1.example", Path("state").resolve(), "dbname=shop host=db user=other") == name


def test_services_have_different_names() -> None:
    names = {
        slot_name("a", Path("state"), URL),
        slot_name("b", Path("state"), URL),
        slot_name("a", Path("other"), URL),
        slot_name("a", Path("state"), "postgresql://app@db/other"),
    }
    assert len(names) == 4


def test_a_connection_string_that_cannot_be_read_has_a_name() -> None:
    """The start of the stream reports it."""
    assert slot_name("a", Path("state"), "postgresql://%zz").startswith("upquery_a_")
