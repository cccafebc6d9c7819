"""Versions in the texts that clients send and get."""

import pytest

from cdc.mysql.position import position_of
from service.ground.errors import ApiError
from service.ground.version import parse_minimum, parse_version, refuse_foreign, version_text


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("pg:0/16B3748", "pg:0/16B3748"),
        ("0/16B3748", "pg:0/16B3748"),
        ("mysql:12:345", "mysql:12:345"),
        ("binlog.000012:345", "mysql:12:345"),
        ("mysql-bin.1000000:4", "mysql:1000000:4"),
    ],
)
def test_a_version_is_what_an_answer_had_or_the_upstream_printed(text: str, version: str) -> None:
    assert version_text(parse_version(text)) == version


@pytest.mark.parametrize("text", ["", "pg:", "mysql:", "12", "mysql:12", "x:y", "binlog:4", "mysql:5000000:4", "0/x"])
def test_what_is_no_version_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ApiError, match="not a version"):
        parse_version(text)


def test_a_version_of_another_kind_of_database_is_not_waited_for() -> None:
    lsn, place = parse_version("0/16B3748"), position_of("binlog.000001", 4)
    for asked, applied in ((lsn, place), (place, lsn)):
        with pytest.raises(ApiError, match="another kind of database"):
            refuse_foreign(asked, applied)
    refuse_foreign(lsn, 0)
    refuse_foreign(place, place)


def test_a_minimum_may_be_named_by_global_ids() -> None:
    assert parse_minimum("0/16B3748") == parse_version("0/16B3748")
    assert str(parse_minimum("0-1-42,1-1-7")) == "0-1-42,1-1-7"
    assert str(parse_minimum("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-7")) == "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
    with pytest.raises(ApiError, match="global transaction ids"):
        parse_minimum("0-1-99999999999999999999")
    with pytest.raises(ApiError, match="not a version"):
        parse_minimum("soon")


def test_global_ids_are_not_for_postgresql() -> None:
    with pytest.raises(ApiError, match="PostgreSQL"):
        refuse_foreign(parse_minimum("0-1-42"), parse_version("0/16B3748"))
    refuse_foreign(parse_minimum("0-1-42"), position_of("binlog.000001", 4))
    refuse_foreign(parse_minimum("0-1-42"), 0)
