"""Verification of JSON Web Tokens (RFC 7519) of one issuer, for one audience.

*Invariants*: the signature is verified before any claim is used, with algorithms that the key allows, whatever the
token claims (RFC 8725); a token without expiry, issuer or audience is refused.
"""

import re
from collections.abc import Mapping
from typing import Any

import jwt
from jwt.exceptions import ExpiredSignatureError, ImmatureSignatureError, InvalidSignatureError, PyJWTError

from service.ground.errors import ApiError
from service.settings.auth import JwtSettings
from service.web.auth.jwks import KeySet, VerifyingKey
from service.web.auth.tokens import VIEW_PATTERN
from service.web.principal import ALL_VIEWS, Principal, Right

#: Maximum keys without an id that are tried.
_MAX_TRIED = 4
_MAX_NAME = 100
_MAX_VIEWS = 100
_ADMIN, _READ, _QUERY = "upquery:admin", "upquery:read", "upquery:query"
_view_pattern = re.compile(VIEW_PATTERN)


class JwtVerifier:
    """The `service.web.auth.authority.Verifier` of JWTs."""

    holds_s = 60.0

    def __init__(self, settings: JwtSettings, keys: KeySet) -> None:
        self._settings = settings
        self._keys = keys

    def takes(self, token: str) -> bool:
        return token.count(".") == 2

    async def verify(self, token: str) -> Principal:
        name, algorithm = _header(token)
        for key in (await self._keys.named(name, algorithm))[:_MAX_TRIED]:
            principal = self._signed_with(key, token)
            if principal is not None:
                return principal
        raise ApiError("unauthenticated", "The token is not signed with a key of its issuer.")

    def _signed_with(self, key: VerifyingKey, token: str) -> Principal | None:
        """Return the principal; None if the token was not signed with that key. Raises ApiError(unauthenticated)."""
        try:
            return self._principal(self._claims(key, token))
        except InvalidSignatureError:
            return None
        except ExpiredSignatureError:
            raise ApiError("unauthenticated", "The token has expired.", "Request a new one.") from None
        except ImmatureSignatureError:
            raise ApiError("unauthenticated", "The token is not valid yet.") from None
        except (PyJWTError, ValueError, TypeError, OverflowError):
            raise ApiError("unauthenticated", "The token is not valid for this service.") from None

    def _claims(self, key: VerifyingKey, token: str) -> dict[str, Any]:
        settings = self._settings
        return jwt.decode(
            token,
            key.key,
            algorithms=list(key.algorithms),
            issuer=settings.issuer,
            audience=settings.audience,
            leeway=settings.leeway_s,
            options={"require": ["exp", "iss", "aud"]},
        )

    def _principal(self, claims: dict[str, Any]) -> Principal:
        rights, views = self._rights(claims)
        name = str(claims.get("sub", ""))[:_MAX_NAME]
        return Principal(name, rights, views, claims, float(claims["exp"]) + self._settings.leeway_s)

    def _rights(self, claims: dict[str, Any]) -> tuple[frozenset[Right], tuple[str, ...]]:
        words = _words(_found(claims, self._settings.rights_claim))
        rights, views = set(), []
        if _ADMIN in words:
            rights.add(Right.ADMIN)
        if _QUERY in words:
            rights.add(Right.QUERY)
        if _READ in words or self._settings.every_token_reads:
            views.append(ALL_VIEWS)
        patterns = (word.removeprefix(_READ + ":") for word in words if word.startswith(_READ + ":"))
        views += [pattern for pattern in patterns if _view_pattern.fullmatch(pattern)][:_MAX_VIEWS]
        if views:
            rights.add(Right.READ)
        return frozenset(rights), tuple(views)


def _header(token: str) -> tuple[str | None, str]:
    """Return the key id and the algorithm of a token's header. Raises ApiError(unauthenticated)."""
    try:
        header = jwt.get_unverified_header(token)
    except (PyJWTError, ValueError):
        raise ApiError("unauthenticated", "The token is malformed.") from None
    name, algorithm = header.get("kid"), header.get("alg")
    # Critical extensions are not supported (RFC 7515, 4.1.11).
    if not isinstance(algorithm, str) or not isinstance(name, str | None) or "crit" in header:
        raise ApiError("unauthenticated", "The token is not valid for this service.")
    return name, algorithm


def _found(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its whole name, which may contain dots, or a member of a claim."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _words(claim: Any) -> list[str]:
    """Return a claim's words: separated by spaces, or a list."""
    listed = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return [word for word in listed if isinstance(word, str)]
