"""Tokens from which subscribers resume: the version up to which they have all changes, and its epoch.

A token is ``<version>~<the epoch's first 8 digits>``. A version without an epoch is accepted if it is not from
before this epoch.
"""

from typing import NamedTuple

from dataflow.types import Position
from service.ground.errors import ApiError
from service.ground.version import parse_version, version_text

_EPOCH_DIGITS = 8
#: Epoch of a version that is in no other log: a fallback, between commits of this leaf store.
UNLISTED = "0" * _EPOCH_DIGITS


class Resume(NamedTuple):
    """A token's parts; `epoch` is empty if the token has none."""

    position: Position
    epoch: str


def write_token(position: Position, epoch: str) -> str:
    """Return the token of a version in an epoch."""
    return f"{version_text(position)}~{epoch[:_EPOCH_DIGITS]}"


def read_token(text: str) -> Resume:
    """Parse a token. Raises ApiError(bad_request)."""
    version, _, epoch = text.strip().partition("~")
    try:
        return Resume(parse_version(version), epoch)
    except ApiError:
        raise ApiError(
            "bad_request",
            f"{text[:80]!r} is not a resume token of a subscription.",
            "Send the id of the last event, or the version of an answer.",
        ) from None


def names(resume: Resume, epoch: str) -> bool:
    """Return whether a token may belong to this epoch."""
    return not resume.epoch or resume.epoch == epoch[:_EPOCH_DIGITS]
