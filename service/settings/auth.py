"""The table ``[auth]``: who is let in (docs/security.md)."""

from pathlib import Path
from typing import Self

from pydantic import model_validator

from service.settings.sections import Section


class AuthSettings(Section):
    """Whoever asks must have a token. Without this table nobody needs one, and only this machine can ask."""

    #: Tokens by their SHA-256, with what each is good for; read again when it changes.
    tokens_file: Path | None = None
    #: Whether ``/metrics`` answers without a token.
    open_metrics: bool = False

    @model_validator(mode="after")
    def _some_tokens(self) -> Self:
        if self.tokens_file is None:
            raise ValueError("set tokens_file")
        return self
