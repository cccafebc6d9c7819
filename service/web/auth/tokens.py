"""Tokens of a file: their owners and rights. The file contains only the tokens' SHA-256.

A token is 256 random bits, so its hash needs no salt and no slow function.

*Invariants*: an unusable file changes nothing and is reported once; tokens are compared in constant time.
"""

import hashlib
import hmac
import json
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import structlog
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

from service.settings.errors import SettingsError
from service.web.principal import ALL_VIEWS, Principal, Right

log = structlog.get_logger()

#: Prefix of every token, by which scanners for leaked secrets recognize it.
PREFIX = "upq_"
MAX_TOKENS = 1000
_MAX_FILE_BYTES = 4 << 20
#: Inode, modification time and size: they identify a version of the file.
_Mark = tuple[int, int, int]
_NO_FILE: _Mark = (0, 0, 0)

VIEW_PATTERN = r"^[A-Za-z0-9_*?-]{1,63}$"
ViewPattern = Annotated[str, StringConstraints(pattern=VIEW_PATTERN)]


class _Entry(BaseModel):
    """One table ``[[tokens]]`` of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str = Field(min_length=1, max_length=100)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    rights: frozenset[Right] = frozenset({Right.READ})
    views: tuple[ViewPattern, ...] = (ALL_VIEWS,)
    claims: dict[str, JsonValue] = {}
    expires: AwareDatetime | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    tokens: tuple[_Entry, ...] = Field(default=(), max_length=MAX_TOKENS)


_KNOWN = {*_File.model_fields, *_Entry.model_fields}


@dataclass(frozen=True, slots=True)
class Token:
    """A token's digest, and its principal."""

    digest: bytes
    principal: Principal


def read_tokens(path: Path) -> list[Token]:
    """Read the tokens of a file. Raises `SettingsError`, which never shows the file's contents."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"[auth] tokens_file {path} cannot be read: {error.strerror}.") from None
    if len(content) > _MAX_FILE_BYTES:
        raise SettingsError(f"[auth] tokens_file {path} is larger than {_MAX_FILE_BYTES} bytes.")
    try:
        entries = _File(**tomllib.loads(content.decode())).tokens
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise SettingsError(f"[auth] tokens_file {path} is not valid TOML.") from None
    except (ValidationError, TypeError) as error:
        raise SettingsError(f"[auth] tokens_file {path}: {_mistake(error)}") from None
    _refuse_repeated(path, entries)
    return [_token(entry) for entry in entries]


def _mistake(error: ValidationError | TypeError) -> str:
    if isinstance(error, TypeError):
        return "only tables [[tokens]] are allowed."
    first = error.errors(include_input=False)[0]
    # An unknown key may be a misplaced token, and is not shown.
    where = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in _KNOWN)
    if first["loc"][-1] == "sha256":
        return f"{where} must be 64 lower-case hexadecimal digits (`upquery token create` prints them)."
    return f"{where or 'there'}: {first['msg']}."


def _refuse_repeated(path: Path, entries: tuple[_Entry, ...]) -> None:
    for values in ([entry.name for entry in entries], [entry.sha256 for entry in entries]):
        if len(set(values)) < len(values):
            raise SettingsError(f"[auth] tokens_file {path} has two tokens of one name, or the same token twice.")


def _token(entry: _Entry) -> Token:
    expires_at = None if entry.expires is None else entry.expires.timestamp()
    principal = Principal(entry.name, entry.rights, entry.views, entry.claims, expires_at)
    return Token(bytes.fromhex(entry.sha256), principal)


class TokensFile:
    """The tokens of a file, reloaded when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokens: list[Token] = []
        self._mark: _Mark | None = None
        self.refresh()

    def refresh(self) -> None:
        """Reload the file if it has changed."""
        mark = _mark_of(self._path)
        if mark == self._mark:
            return
        self._mark = mark
        try:
            self._tokens = read_tokens(self._path)
        except SettingsError as error:
            log.error("the tokens file cannot be used; its previous tokens remain valid", reason=str(error))

    def find(self, token: str) -> Principal | None:
        """Return the token's principal. All tokens are compared, in constant time."""
        digest = digest_of(token)
        found = None
        for known in self._tokens:
            if hmac.compare_digest(known.digest, digest):
                found = known.principal
        return found


def _mark_of(path: Path) -> _Mark:
    try:
        status = path.stat()
    except OSError:
        return _NO_FILE
    return status.st_ino, status.st_mtime_ns, status.st_size


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def entry_text(name: str, token: str, options: Mapping[str, str]) -> str:
    """Return the token's table for the file; `options` maps keys to TOML values."""
    # JSON strings are valid TOML strings.
    lines = ["[[tokens]]", f"name = {json.dumps(name)}", f'sha256 = "{digest_of(token).hex()}"']
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in options.items())]) + "\n"
