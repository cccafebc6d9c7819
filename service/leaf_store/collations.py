"""Collations of the catalog's types, which the leaf store carries to every worker.

*Invariants*: a collation's record is named by the digest of its contents, which the catalog contains, and is
committed with the catalog or before. Each process loads a collation once. The records are pickles: only the service
can write the store's file.

Not here: the catalog's own record (`catalog`).
"""

import pickle
from collections.abc import Mapping
from hashlib import blake2b

from dataflow.collations import Collation
from service.leaf_store.layout import COLLATION_HEAD
from service.leaf_store.transaction import LeafTransaction

_DIGEST_BYTES = 16


class StoredCollations:
    """The collations that a writer has stored."""

    def __init__(self) -> None:
        #: By name: the collation and its digest.
        self._digests: dict[str, tuple[Collation, str]] = {}
        #: By digest: records that are not committed yet. Making one takes a tenth of a second.
        self._records: dict[str, bytes] = {}
        #: Digests of committed records.
        self._stored: set[str] = set()

    def reset(self) -> None:
        """Forget the committed records: the store is empty."""
        self._stored.clear()

    def put(self, txn: LeafTransaction, collations: Mapping[str, Collation]) -> set[str]:
        """Put the missing records of collations, by their digests; return all of these."""
        for digest in collations.keys() - self._stored:
            record = self._records.get(digest) or _record(collations[digest])
            txn.put(COLLATION_HEAD + digest.encode(), record)
        return set(collations)

    def stored(self, digests: set[str]) -> None:
        """Note that records of `put` are committed."""
        self._stored |= digests
        for digest in digests:
            self._records.pop(digest, None)

    def digest(self, collation: Collation) -> str:
        """Return the catalog's name of a collation."""
        known = self._digests.get(collation.name)
        if known is None or known[0] is not collation:
            record = _record(collation)
            digest = blake2b(record, digest_size=_DIGEST_BYTES).hexdigest()
            self._records[digest] = record
            known = self._digests[collation.name] = collation, digest
        return known[1]


class LoadedCollations:
    """The collations that a reader has loaded."""

    def __init__(self) -> None:
        self._found: dict[str, Collation] = {}

    def find(self, txn: LeafTransaction, digest: str) -> Collation:
        """Return the collation of a digest. Raises KeyError if the store has no record of it."""
        found = self._found.get(digest)
        if found is None:
            record = txn.get(COLLATION_HEAD + digest.encode())
            if record is None:
                raise KeyError(digest)
            found = self._found[digest] = pickle.loads(record)
        return found


def _record(collation: Collation) -> bytes:
    return pickle.dumps(collation, pickle.HIGHEST_PROTOCOL)
