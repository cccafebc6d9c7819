"""Leaf stores of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.leaf_store.writer import LeafWriter


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LeafWriter]:
    """A new leaf store."""
    leaf = LeafWriter(tmp_path / "leaf", map_bytes=1 << 22)
    yield leaf
    leaf.close()
