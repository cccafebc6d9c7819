"""The file of tokens: what is taken from it, what is refused, and that refusals do not show it."""

import os
from pathlib import Path

import pytest

from service.settings.errors import SettingsError
from service.web.auth.tokens import MAX_TOKENS, TokensFile, digest_of, entry_text, new_token, read_tokens
from service.web.principal import Right

SECRET = new_token()


def test_an_entry_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    options = {
        "rights": '["read", "admin"]',
        "views": '["story_*"]',
        "claims": '{sub = "42"}',
        "expires": "2030-01-01T00:00:00Z",
    }
    path.write_text(entry_text('a "name"', SECRET, options))
    (token,) = read_tokens(path)
    principal = token.principal
    assert (token.digest, principal.name) == (digest_of(SECRET), 'a "name"')
    assert principal.rights == {Right.READ, Right.ADMIN}
    assert (principal.views, principal.claims) == (("story_*",), {"sub": "42"})
    assert principal.expires_at == 1893456000.0
    assert SECRET not in path.read_text()


def test_tokens_differ_and_say_whose_they_are() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("upq_") and len(token) > 40 for token in tokens)


ENTRY = f'[[tokens]]\nname = "a"\nsha256 = "{digest_of(SECRET).hex()}"\n'


@pytest.mark.parametrize(
    "text",
    [
        f'[[tokens]]\nname = "a"\nsha256 = "{SECRET}"\n',
        f'[[tokens]]\nname = "a"\nsha256 = "{SECRET}\n',
        f'[[tokens]]\nname = "a"\ntoken = "{SECRET}"\n',
        f'"{SECRET}" = 1\n',
        ENTRY + 'rights = ["write"]\n',
        ENTRY + 'views = ["a[b]"]\n',
        ENTRY + "expires = 2030-01-01T00:00:00\n",
        ENTRY + "claims = {at = 2030-01-01T00:00:00Z}\n",
        ENTRY + ENTRY,
        ENTRY + ENTRY.replace('"a"', '"b"'),
        "\n".join(entry_text(str(n), new_token(), {}) for n in range(MAX_TOKENS + 1)),
    ],
    # Tokens are other ones in each process of the tests.
    ids=range(11),
)
def test_a_mistake_is_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as refused:
        read_tokens(path)
    assert str(path) in str(refused.value)
    assert SECRET not in str(refused.value)


def test_changes_are_followed_and_mistakes_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(ENTRY)
    file = TokensFile(path)
    assert file.find(SECRET) is not None
    assert file.find(SECRET + "x") is None
    for text in ("[[tokens]", None):
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        capsys.readouterr()
        file.refresh()
        file.refresh()
        assert file.find(SECRET) is not None
        assert "".join(capsys.readouterr()).count("cannot be used") == 1
    path.write_text(entry_text("b", other := new_token(), {}))
    os.utime(path, ns=(1, 1))
    file.refresh()
    assert file.find(SECRET) is None
    assert file.find(other) is not None
