"""Engines that trust what they saw before the stream was resumed; see `table`."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from dataflow.engine.forwarded_reads import ForwardedReads
from dataflow.engine.lookup_results import LookupResults
from dataflow.engine.refreshed_views import RefreshedViews


def lookups_from_before() -> AbstractContextManager[Any]:
    """Answers of lookups wait for their positions, at which other transactions end now."""
    return patch.object(LookupResults, "resume", lambda _: None)


def forwarded_reads_from_before() -> AbstractContextManager[Any]:
    """Answers of forwarded reads do."""
    return patch.object(ForwardedReads, "resume", lambda _: None)


def fetches_from_before() -> AbstractContextManager[Any]:
    """Rows of refreshed views do."""
    return patch.object(RefreshedViews, "resume", lambda _: None)
