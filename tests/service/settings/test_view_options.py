"""The options of a view: what is accepted, and that what was given is what is kept and shown."""

from dataclasses import asdict, fields
from typing import Any

import pytest
from pydantic import ValidationError

from service.engine.views.registry import ViewOptions
from service.protocol.admin_models import PutView
from service.settings.sections import ViewSettings
from service.settings.view_options import MOST, OptionFields

GIVEN: dict[str, Any] = {
    "tier": "ttl",
    "ttl": 60.0,
    "cache_control": 'private, max-age=5, no-cache="set-cookie"',
    "on_miss": "forward",
    "limit_rows": 10,
    "limit_bytes": 1000,
    "bigint": "string",
    "max_lag_ms": 3000,
    "on_lag": "wait",
    "stale_while_refresh": 0.5,
}


def test_options_are_the_same_in_the_file_and_in_a_put() -> None:
    configured = ViewOptions(**ViewSettings(name="v", sql="SELECT 1", **GIVEN).options())
    assert configured == ViewOptions(**PutView(sql="SELECT 1", **GIVEN).options())
    assert OptionFields.of(asdict(configured)).model_dump(exclude_none=True) == GIVEN
    assert ViewOptions(**OptionFields().options()) == ViewOptions()


def test_every_option_has_a_key() -> None:
    assert set(OptionFields().options()) == {field.name for field in fields(ViewOptions)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cache_control", "public\r\nset-cookie: a=b"),
        ("cache_control", "öffentlich"),
        ("cache_control", ""),
        ("cache_control", "x" * 201),
        ("on_miss", "fail"),
        ("limit_rows", 0),
        ("on_lag", "forward"),
    ],
)
def test_values_that_cannot_be_meant(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        OptionFields(**{name: value})


@pytest.mark.parametrize("key", ["limit_rows", "limit_bytes", "max_lag_ms"])
def test_numbers_that_others_would_not_understand_are_refused(key: str) -> None:
    """Found by random requests: the engine's socket carries integers of 64 bits."""
    assert OptionFields(**{key: MOST})
    with pytest.raises(ValidationError, match="less than or equal"):
        OptionFields(**{key: 1 << 64})
