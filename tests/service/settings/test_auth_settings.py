"""The table ``[auth]``: what it opens, and what it needs."""

from pathlib import Path

import pytest

from service.settings.errors import SettingsError
from service.settings.stack import Settings, load_settings

OPEN = '[upstream]\nurl = "postgresql://app@db/app"\n[http]\nhost = "0.0.0.0"\n'
JWT = '[auth.jwt]\nissuer = "https://issuer.test/"\naudience = "upquery"\n'


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "upquery.toml"
    path.write_text(text)
    return load_settings(path)


@pytest.mark.parametrize(
    "auth",
    ['[auth]\ntokens_file = "tokens.toml"\n', JWT + 'jwks_url = "https://issuer.test/keys"\n'],
)
def test_with_tokens_other_machines_may_ask(tmp_path: Path, auth: str) -> None:
    settings = load(tmp_path, OPEN + auth)
    assert settings.http.host == "0.0.0.0"
    assert settings.auth is not None
    assert not settings.auth.open_metrics


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ("", "reachable from other machines"),
        ("[auth]\n", "set tokens_file"),
        ("[auth]\nopen_metrics = true\n", "set tokens_file"),
        (JWT, "one of jwks_file and jwks_url"),
        (JWT + 'jwks_file = "a"\njwks_url = "https://issuer.test/keys"\n', "one of jwks_file and jwks_url"),
        (JWT + 'jwks_url = "http://issuer.test/keys"\n', "must be https"),
        ('[auth.jwt]\njwks_file = "a"\naudience = "upquery"\n', "issuer"),
        ('[auth.jwt]\njwks_file = "a"\nissuer = "x"\n', "audience"),
        (JWT + 'jwks_file = "a"\nleeway_s = 3600\n', "leeway_s"),
        ('[auth]\ntoken_file = "a"\n', "Did you mean 'tokens_file'"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, auth: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(tmp_path, OPEN + auth)


def test_the_environment_says_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPQUERY_AUTH__TOKENS_FILE", "tokens.toml")
    # What the command line reads is no setting.
    monkeypatch.setenv("UPQUERY_TOKEN", "upq_x")
    monkeypatch.setenv("UPQUERY_URL", "http://127.0.0.1:8080")
    settings = load(tmp_path, OPEN)
    assert settings.auth is not None
    assert settings.auth.tokens_file == Path("tokens.toml")
