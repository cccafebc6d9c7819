"""From a request's Authorization header to its principal.

*Theory*: most requests carry a token that was seen recently. Decisions are cached briefly by the header's bytes, so
that a hit costs one dictionary lookup; a revoked token is therefore valid for up to that time. Only accepted tokens are
cached: guessed ones use no memory.

*Invariants*: no token is accepted after its expiry; a refusal tells no more about a token than its owner can see in it.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from service.ground.errors import ApiError
from service.settings.auth import AuthSettings, JwtSettings
from service.settings.errors import SettingsError
from service.web.auth.tokens import TokensFile, read_tokens
from service.web.messages import Headers
from service.web.principal import Principal

#: Time for which a decision is cached.
RECHECK_S = 1.0
#: Maximum cached decisions.
_MAX_KNOWN = 10_000
#: Maximum length of a token.
_MAX_TOKEN = 16_384
_HINT = "Send it as the header Authorization: Bearer <token>."


@dataclass(frozen=True, slots=True)
class Decision:
    """The principal of a header, valid until `until` by the monotonic clock."""

    principal: Principal
    until: float


class Verifier(Protocol):
    """Interface of token kinds other than the tokens file."""

    #: Maximum time for which a decision is cached.
    holds_s: float

    def takes(self, token: str) -> bool:
        """Return whether a token has the form of this kind."""
        ...

    async def verify(self, token: str) -> Principal:
        """Return the token's principal. Raises ApiError(unauthenticated, auth_unavailable)."""
        ...


class Authority:
    """Authenticates requests. *State*: `_known` has the latest decisions by header."""

    def __init__(self, tokens: TokensFile | None, signed: Verifier | None = None) -> None:
        self._tokens = tokens
        self._signed = signed
        self._known: dict[bytes, Decision] = {}

    @classmethod
    def of(cls, settings: AuthSettings) -> "Authority":
        tokens = None if settings.tokens_file is None else TokensFile(settings.tokens_file)
        return cls(tokens, None if settings.jwt is None else _verifier(settings.jwt))

    def known(self, headers: Headers) -> Principal | None:
        """Return the principal of a cached decision, if it is still valid."""
        decision = self._known.get(authorization_of(headers))
        return None if decision is None or decision.until <= time.monotonic() else decision.principal

    async def principal(self, headers: Headers) -> Principal:
        """Return the principal. Raises ApiError(unauthenticated, auth_unavailable)."""
        header = authorization_of(headers)
        decision = self._known.get(header)
        if decision is None or decision.until <= time.monotonic():
            self._known.pop(header, None)
            decision = await self._decide(_bearer(header))
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[header] = decision
        return decision.principal

    async def _decide(self, token: str) -> Decision:
        holds_s = RECHECK_S
        principal = self._of_file(token)
        if principal is None:
            if self._signed is None or not self._signed.takes(token):
                raise ApiError("unauthenticated", "The token is unknown.", _HINT)
            principal, holds_s = await self._signed.verify(token), self._signed.holds_s
        left_s = holds_s if principal.expires_at is None else principal.expires_at - time.time()
        if left_s <= 0:
            raise ApiError("unauthenticated", "The token has expired.", "Request a new one.")
        return Decision(principal, time.monotonic() + min(holds_s, left_s))

    def _of_file(self, token: str) -> Principal | None:
        if self._tokens is None:
            return None
        self._tokens.refresh()
        return self._tokens.find(token)


def check_settings(settings: AuthSettings) -> None:
    """Check that the files and keys of the settings are usable. Raises `SettingsError`."""
    if settings.tokens_file is not None:
        read_tokens(settings.tokens_file)
    if settings.jwt is not None:
        try:
            _verifier(settings.jwt)
        except ImportError:
            raise SettingsError("[auth.jwt] needs PyJWT: pip install 'upquery[jwt]'.") from None
    if settings.jwt is not None and settings.jwt.jwks_file is not None:
        _check_keys(settings.jwt.jwks_file)


def _verifier(settings: JwtSettings) -> Verifier:
    from service.web.auth.jwks import KeySet
    from service.web.auth.jwt_verifier import JwtVerifier

    return JwtVerifier(settings, KeySet.of(settings))


def _check_keys(path: Path) -> None:
    from service.web.auth.jwks import keys_of

    try:
        keys_of(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SettingsError(f"[auth.jwt] jwks_file {path} cannot be used: {error}.") from None


def authorization_of(headers: Headers) -> bytes:
    """Return the Authorization header; empty if there is none or more than one, which no honest client sends."""
    found = [value for name, value in headers if name == b"authorization"]
    return found[0] if len(found) == 1 else b""


def _bearer(header: bytes) -> str:
    if not header:
        raise ApiError("unauthenticated", "The request has no token, or more than one.", _HINT)
    scheme, _, token = header.partition(b" ")
    token = token.strip(b" ")
    # The characters that RFC 6750 allows; tokens of the file and JWTs have no others.
    if scheme.lower() != b"bearer" or not token or len(token) > _MAX_TOKEN or token.strip(_TOKEN_BYTES):
        raise ApiError("unauthenticated", "The Authorization header is not a bearer token.", _HINT)
    return token.decode("ascii")


_TOKEN_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="
