"""How long a text may become here, and how many parts are read: what is beyond is answered by the upstream."""

from collections.abc import Sequence

from dataflow.errors import EvaluationError

#: Characters. The upstream's own limit is a gigabyte: a row could then fill the memory of the engine.
MAX_CHARACTERS = 16 << 20
#: Elements of an array, or fields and elements of a document, that are read one by one: some 50 ms. The upstream has
#: them in binary form.
MAX_PARTS = 20_000
#: As many of a document that is taken to pieces.
MAX_DECODED_PARTS = 10_000


def bounded(length: int) -> int:
    """`length`, if a text may become that long; else EvaluationError."""
    if length > MAX_CHARACTERS:
        raise EvaluationError(f"not computed: a text of more than {MAX_CHARACTERS} characters")
    return length


def bounded_parts(text: str, most: int = MAX_PARTS) -> str:
    """`text`, if it has few enough commas to be read part by part; else EvaluationError."""
    if len(text) > most and text.count(",") > most:
        raise EvaluationError(f"not computed: a value of more than {most} parts")
    return text


def joined(separator: str, parts: Sequence[str]) -> str:
    """`separator.join(parts)`, bounded."""
    bounded(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)
