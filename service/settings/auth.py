"""The table ``[auth]``: access control (docs/security.md)."""

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from service.settings.sections import Section

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class JwtSettings(Section):
    """Signed tokens of one issuer (RFC 7519). They must have the claims `iss`, `aud` and `exp`."""

    #: File of the issuer's keys, reread every few seconds. Set this or `jwks_url`.
    jwks_file: Path | None = None
    #: URL of the issuer's keys, refetched every few minutes.
    jwks_url: str | None = None
    #: Required claim `iss`.
    issuer: str = Field(min_length=1)
    #: Required claim `aud`.
    audience: str = Field(min_length=1)
    #: Tolerated difference of the issuer's clock in seconds.
    leeway_s: float = Field(default=30.0, ge=0, le=300)
    #: Claim with the rights, as words in a string or a list: ``upquery:read``, ``upquery:read:<view>``,
    #: ``upquery:query``, ``upquery:admin``.
    rights_claim: str = Field(default="scope", min_length=1)
    #: Whether every valid token may read all views, for issuers that cannot add such words.
    every_token_reads: bool = False

    @field_validator("jwks_url")
    @classmethod
    def _is_safe(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "")
        local = parts.scheme == "http" and parts.hostname in _LOOPBACK
        if url is not None and not (local or (parts.scheme == "https" and parts.hostname)):
            raise ValueError("it must be https, since anyone who can change the keys can create tokens")
        if parts.username is not None or parts.password is not None:
            raise ValueError("it must not contain a password")
        return url

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.jwks_file is None) == (self.jwks_url is None):
            raise ValueError("set one of jwks_file and jwks_url")
        return self


class AuthSettings(Section):
    """Every request needs a token. Without this table none is needed, and only this machine has access."""

    #: File of tokens' SHA-256 hashes and rights; reloaded when it changes.
    tokens_file: Path | None = None
    #: Signed tokens.
    jwt: JwtSettings | None = None
    #: Whether ``/metrics`` answers without a token.
    open_metrics: bool = False

    @model_validator(mode="after")
    def _some_tokens(self) -> Self:
        if self.tokens_file is None and self.jwt is None:
            raise ValueError("set tokens_file, or the table [auth.jwt]")
        return self
