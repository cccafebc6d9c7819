"""One Spark session for all tests: starting Java takes longer than most of them."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two cores."""
    pytest.importorskip("pyspark")
    from dataflow.spark.session import session

    made = session("tests", "local[2]", {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"})
    yield made
    made.stop()
