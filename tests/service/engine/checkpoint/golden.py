"""``python -m tests.service.engine.checkpoint.golden``: writes the golden file of the present format.

To be done when `FORMAT` has been raised, or if a view's plan is another one. The file's views have nodes of all kinds,
accumulators that store different things, keys in part, keys with limits.
"""

import marshal
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from dataflow.engine.chunks import CoveredKeys, NodeBegun
from dataflow.engine.events import Ahead
from service.engine.checkpoint.frames import FORMAT, FrameKind, read_frames
from service.engine.checkpoint.writing import CHUNKS
from tests.service.engine.checkpoint.filled import KEYS, SQL, Filled

GOLDEN = Path(__file__).parent / f"format-{FORMAT}.checkpoint"
STATEMENTS = (
    *SQL,
    "SELECT s.id, SUM(v.value) AS a, AVG(v.value) AS b, BOOL_OR(v.value > 0) AS c, COUNT(DISTINCT v.user_id) AS n"
    " FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id",
    "SELECT s.id, STRING_AGG(c.text, ', ' ORDER BY c.at) AS texts, MIN(c.id) AS least FROM stories s"
    " LEFT JOIN comments c ON c.story_id = s.id WHERE s.id = :id GROUP BY s.id",
    "SELECT t.text, t.n, u.name FROM (SELECT story_id, author, text, ROW_NUMBER() OVER (PARTITION BY story_id"
    " ORDER BY at) AS n FROM comments) t JOIN users u ON u.id = t.author WHERE t.story_id = :s",
    "SELECT s.id, c.text FROM stories s LEFT JOIN LATERAL (SELECT text FROM comments WHERE"
    " comments.story_id = s.id ORDER BY at DESC LIMIT 3) c ON TRUE WHERE s.id = :id",
    "SELECT id, title AS t FROM stories WHERE id = :id UNION ALL"
    " SELECT story_id, text FROM comments WHERE story_id = :id",
    "SELECT c.text, u.name FROM comments c JOIN users u ON u.id = c.author WHERE c.story_id = :story"
    " ORDER BY c.at, c.id LIMIT :n",
)


def written() -> bytes:
    """Return a checkpoint of the present program."""
    with tempfile.TemporaryDirectory() as directory:
        filled = Filled(Path(directory), STATEMENTS, KEYS[:6], Ahead(2), limited=True)
        filled.leaf.close()
    return filled.content


def contents(content: bytes) -> list[Any]:
    """Return the frames of a checkpoint as plain values, without digests, which change with plans only."""
    return [(kind.name, _value(kind, body or b"")) for kind, body in read_frames(BytesIO(content))]


def _value(kind: FrameKind, body: bytes) -> Any:
    if kind is FrameKind.RECORDS:
        return marshal.loads(body)
    if kind is not FrameKind.STATE:
        return body
    number, *fields = marshal.loads(body)
    chunk = CHUNKS[number](*fields)
    if isinstance(chunk, NodeBegun):
        chunk = chunk._replace(digest=b"")
    elif isinstance(chunk, CoveredKeys):
        chunk = chunk._replace(routes=None)
    return number, chunk


if __name__ == "__main__":
    GOLDEN.write_bytes(written())
