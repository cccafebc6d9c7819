"""``upquery token create``: what it prints, and what it writes."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from service.command.cli import app
from service.web.auth.tokens import digest_of, read_tokens


def create(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["token", "create", *arguments])


def test_a_token_is_printed_once_and_its_hash_is_added(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    first = create("web", "--file", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    options = ["--right", "admin", "--view", "a*", "--claim", "sub=7", "--claim", "g=1", "--claim", 'g="}']
    second = create("ops", "--file", str(file), "--expires", "2030-01-01", *options)
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    tokens = read_tokens(file)
    assert [token.digest for token in tokens] == [digest_of(r.stdout.strip()) for r in (first, second)]
    assert tokens[0].principal.views == ("*",)
    assert tokens[1].principal.views == ("a*",)
    assert tokens[1].principal.claims == {"sub": "7", "g": ["1", '"}']}
    assert first.stdout.strip() not in file.read_text()
    assert list(tmp_path.iterdir()) == [file]


def test_without_a_file_the_entry_is_printed() -> None:
    said: dict[str, Any] = json.loads(create("web", "--json").stdout)
    assert digest_of(said["token"]).hex() in said["entry"]


@pytest.mark.parametrize("options", [["--view", "a[b]"], ["--claim", "sub"], ["--right", "write"], ["--expires", "x"]])
def test_what_cannot_be_is_refused_and_leaves_the_file_alone(tmp_path: Path, options: list[str]) -> None:
    file = tmp_path / "tokens.toml"
    assert create("web", "--file", str(file)).exit_code == 0
    before = file.read_text()
    assert create("other", "--file", str(file), *options).exit_code == 2
    assert create("web", "--file", str(file)).exit_code == 2
    assert file.read_text() == before
