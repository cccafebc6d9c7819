"""What subscribers resume with: the version up to which they have everything, and of which continuity it is.

A token is ``<version>~<the epoch's first 8 digits>``. A version alone is taken, too: it is of this continuity if it is
not from before it.
"""

from typing import NamedTuple

from dataflow.types import Position
from service.ground.errors import ApiError
from service.ground.version import parse_version, version_text

_EPOCH_DIGITS = 8
#: Of a version that no other log of changes knows: the upstream's answer, in between of what was committed here.
UNLISTED = "0" * _EPOCH_DIGITS


class Resume(NamedTuple):
    """A token's parts; `epoch` is empty if it does not say one."""

    position: Position
    epoch: str


def write_token(position: Position, epoch: str) -> str:
    """The token of a version of a continuity."""
    return f"{version_text(position)}~{epoch[:_EPOCH_DIGITS]}"


def read_token(text: str) -> Resume:
    """A token's parts. ApiError ``bad_request``."""
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
    """Whether a token may be of this continuity."""
    return not resume.epoch or resume.epoch == epoch[:_EPOCH_DIGITS]
