"""Settings: one file, the environment over it, and no key that nobody knows."""

import re
from pathlib import Path

import pytest

from service.settings import SettingsError, connection_url, load_settings

URL = '[upstream]\nurl = "postgresql://app@db/app"\n'


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "upquery.toml"
    path.write_text(text)
    return path


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPQUERY_HTTP__PORT", "9000")
    settings = load_settings(config(tmp_path, URL + "[http]\nport = 7000\nworkers = 2\n"))
    assert (settings.http.port, settings.http.workers) == (9000, 2)


def test_everything_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPQUERY_UPSTREAM__URL", "postgresql://app@db/app")
    monkeypatch.setenv("UPQUERY_ENGINE__MEMORY", "2GiB")
    settings = load_settings(None)
    assert settings.engine.memory == 2 << 30


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "No upstream database is configured"),
        (URL + "[htp]\nport = 1\n", "Did you mean 'http'"),
        (URL + "[http]\nprot = 1\n", "Did you mean 'port'"),
        (URL + '[[views]]\nname = "a"\nsqll = "SELECT 1"\n', "Did you mean 'sql'"),
        (URL + "[http]\nport = 70000\n", "'http.port'"),
        (URL + '[engine]\neviction = "mru"\n', "'engine.eviction'"),
        (URL + f'[engine]\ndirectory = "/{"x" * 80}"\n', "longer than 70 bytes"),
        (URL + '[http]\nhost = "0.0.0.0"\n', "not authenticated"),
        ('[upstream]\nurl = "mysql://app@db/app"\n', "postgresql://"),
        (URL + '[[views]]\nname = "a"\nsql = "x"\n[[views]]\nname = "a"\nsql = "y"\n', "two views named 'a'"),
        (URL + '[[views]]\nname = "a b"\nsql = "x"\n', "views.0.name"),
        ("[upstream\n", "not valid TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        load_settings(config(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere"):
        load_settings(tmp_path / "nowhere.toml")


def test_an_unknown_section_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPQUERY_UPSTREM__URL", "x")
    with pytest.raises(SettingsError, match="UPQUERY_UPSTREAM__URL"):
        load_settings(None)


def test_a_password_comes_from_a_file_and_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hush hush\n")
    settings = load_settings(config(tmp_path, URL + f'password_file = "{secret}"\n'))
    assert "password='hush hush'" in connection_url(settings.upstream.url, settings.upstream)
    open_one = load_settings(config(tmp_path, URL + 'password = "hush"\n'))
    assert "hush" not in repr(open_one)
    assert "hush" in connection_url(open_one.upstream.url, open_one.upstream)
