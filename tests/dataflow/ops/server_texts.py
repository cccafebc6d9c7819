"""Rows as the server prints them."""

from collections.abc import Sequence
from typing import Any

import psycopg

from dataflow.types import Row, Value


def texts(connection: psycopg.Connection[Any], sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
    """A statement's rows, in the text format of the wire protocol."""
    result = connection.pgconn.exec_params(sql.encode(), [None if p is None else p.encode() for p in parameters])
    assert result.status == psycopg.pq.ExecStatus.TUPLES_OK, (sql, result.error_message.decode())
    return [
        tuple(None if (v := result.get_value(i, j)) is None else v.decode() for j in range(result.nfields))
        for i in range(result.ntuples)
    ]
