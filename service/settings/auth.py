"""The table ``[auth]``: who is let in (docs/security.md)."""

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from service.settings.sections import Section

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class JwtSettings(Section):
    """Signed tokens of one issuer (RFC 7519). They must say `issuer` and `audience`, and until when they are good."""

    #: Where the issuer's keys are: one of the two. A file is read again after seconds, a URL after minutes.
    jwks_file: Path | None = None
    jwks_url: str | None = None
    issuer: str = Field(min_length=1)
    audience: str = Field(min_length=1)
    #: How far the issuer's clock may be off.
    leeway_s: float = Field(default=30.0, ge=0, le=300)
    #: The claim with rights, words in a string or a list: ``upquery:read``, ``upquery:read:<view>``, ``upquery:query``,
    #: ``upquery:admin``.
    rights_claim: str = Field(default="scope", min_length=1)
    #: Whether every valid token may read all views, for issuers that cannot be taught such words.
    every_token_reads: bool = False

    @field_validator("jwks_url")
    @classmethod
    def _is_safe(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "")
        local = parts.scheme == "http" and parts.hostname in _LOOPBACK
        if url is not None and not (local or (parts.scheme == "https" and parts.hostname)):
            raise ValueError("it must be https: whoever can change the keys can make tokens")
        if parts.username is not None or parts.password is not None:
            raise ValueError("it must not have a password in it")
        return url

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.jwks_file is None) == (self.jwks_url is None):
            raise ValueError("set one of jwks_file and jwks_url")
        return self


class AuthSettings(Section):
    """Whoever asks must have a token. Without this table nobody needs one, and only this machine can ask."""

    #: Tokens by their SHA-256, with what each is good for; read again when it changes.
    tokens_file: Path | None = None
    jwt: JwtSettings | None = None
    #: Whether ``/metrics`` answers without a token.
    open_metrics: bool = False

    @model_validator(mode="after")
    def _some_tokens(self) -> Self:
        if self.tokens_file is None and self.jwt is None:
            raise ValueError("set tokens_file, or the table [auth.jwt]")
        return self
