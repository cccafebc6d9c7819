"""Settings in docs/subscriptions.md have the documented defaults."""

import tomllib
from pathlib import Path

import service
from service.settings.sections import SubscriptionSettings

DOCUMENT = Path(service.__file__).parents[1] / "docs" / "subscriptions.md"


def test_the_documented_settings_are_all_of_them_with_their_defaults() -> None:
    block = DOCUMENT.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    documented = tomllib.loads(block)["subscriptions"]
    assert set(documented) == set(SubscriptionSettings.model_fields)
    assert SubscriptionSettings(**documented) == SubscriptionSettings()
