"""Public keys that verify JWTs: a JSON Web Key Set (RFC 7517), from a file or from the issuer.

*Invariants*: only public signature keys are used, each for the algorithms of its own kind, whatever a token claims. If
a reload fails, the previous keys remain in use.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import structlog
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from service.ground.errors import ApiError
from service.settings.auth import JwtSettings

log = structlog.get_logger()

#: Algorithms by a key's type and curve.
_ALGORITHMS: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_MIN_RSA_BITS = 2048
_MAX_KEYS = 100
_MAX_BYTES = 1 << 20
_FETCH_S = 5.0
#: Reload intervals of a file and of an issuer's URL; minimum interval of reloads because of an unknown key id.
_FILE_S = 5.0
_URL_S = 300.0
_AGAIN_S = 10.0
Load = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A public key, its id if it has one, and its algorithms."""

    name: str | None
    key: Any
    algorithms: tuple[str, ...]


def keys_of(document: bytes) -> list[VerifyingKey]:
    """Return the usable keys of a set. Raises ValueError if it is not a key set or has none."""
    parsed = orjson.loads(document)
    listed = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(listed, list) or len(listed) > _MAX_KEYS:
        raise ValueError("not a JSON Web Key Set")
    found = [key for one in listed if isinstance(one, dict) and (key := _key_of(one)) is not None]
    if not found:
        raise ValueError("no usable public signature key")
    return found


def _key_of(parsed: dict[str, Any]) -> VerifyingKey | None:
    kind, curve, algorithm = parsed.get("kty"), parsed.get("crv"), parsed.get("alg")
    algorithms = _ALGORITHMS.get((kind, curve)) if isinstance(kind, str) and isinstance(curve, str | None) else None
    if algorithms is None or parsed.get("use", "sig") != "sig" or "d" in parsed:
        return None
    if algorithm is not None:
        algorithms = tuple(known for known in algorithms if known == algorithm)
    if not algorithms:
        return None
    try:
        key = PyJWK(parsed, algorithms[0]).key
    except (PyJWTError, ValueError):
        return None
    name = parsed.get("kid")
    small = kind == "RSA" and key.key_size < _MIN_RSA_BITS
    return None if small else VerifyingKey(name if isinstance(name, str) else None, key, algorithms)


class KeySet:
    """The keys that were loaded last. *State*: `_loaded_at` is the time of the last attempt, by the monotonic clock."""

    def __init__(self, load: Load, where: str, every_s: float, again_s: float = _AGAIN_S) -> None:
        self._load = load
        self._where = where
        self._every_s = every_s
        self._again_s = min(again_s, every_s)
        self._keys: list[VerifyingKey] = []
        self._loaded_at: float | None = None
        self._loading = asyncio.Lock()

    @classmethod
    def of(cls, settings: JwtSettings) -> "KeySet":
        if settings.jwks_file is not None:
            return cls(_of_file(settings.jwks_file), str(settings.jwks_file), _FILE_S)
        assert settings.jwks_url is not None
        return cls(_of_url(settings.jwks_url), settings.jwks_url, _URL_S)

    async def named(self, name: str | None, algorithm: str) -> list[VerifyingKey]:
        """Return the keys that match a token's header. Raises ApiError(auth_unavailable)."""
        await self._refresh(self._every_s)
        if name is not None and all(key.name != name for key in self._keys):
            await self._refresh(self._again_s)
        if not self._keys:
            raise ApiError("auth_unavailable", "The keys for the verification of tokens cannot be fetched.")
        fitting = [key for key in self._keys if algorithm in key.algorithms]
        return [key for key in fitting if name is None or key.name in (name, None)]

    async def _refresh(self, age_s: float) -> None:
        if not self._is_older(age_s):
            return
        async with self._loading:
            if not self._is_older(age_s):
                return
            self._loaded_at = time.monotonic()
            try:
                self._keys = keys_of(await self._load())
            except (OSError, ValueError, httpx.HTTPError) as error:
                log.error(
                    "keys of tokens cannot be loaded", where=self._where, reason=str(error) or type(error).__name__
                )

    def _is_older(self, age_s: float) -> bool:
        # Without keys every token is refused: retry at the shortest interval.
        limit_s = age_s if self._keys else self._again_s
        return self._loaded_at is None or time.monotonic() - self._loaded_at >= limit_s


def _of_file(path: Path) -> Load:
    async def load() -> bytes:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES)

    return load


def _of_url(url: str) -> Load:
    async def load() -> bytes:
        async with (
            asyncio.timeout(_FETCH_S),
            httpx.AsyncClient(follow_redirects=False) as client,
            client.stream("GET", url, headers={"accept": "application/json"}) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise ValueError(f"HTTP status {response.status_code}")
            return await _bounded(response)

    return load


async def _bounded(response: httpx.Response) -> bytes:
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > _MAX_BYTES:
            raise ValueError(f"more than {_MAX_BYTES} bytes")
    return bytes(content)
