"""MariaDB's own answers, in the JSON form of the HTTP contract."""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

from cdc.mysql.position import position_of
from dataflow.functions import arrays
from dataflow.schema import SqlType
from dataflow.sql.expressions.scope import schema_and_name
from dataflow.sql.mysql.parameter_values import fill
from dataflow.sql.statement import statement_of
from dataflow.sql.templates import template
from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.catalog import load_catalog
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.describe import output_type
from service.engine.databases.mysql.row_decoder import answer_rows
from service.engine.databases.mysql.wire import ServerReply
from service.ground.version import version_text
from service.leaf_store.render import compile_row
from tests.sql.comparison import Answer, parse
from tests.sql.corpus_file import Arguments

#: Statements end with a line, or the text.
_END = re.compile(r";\s*(?:\n|\Z)")


class MariaDbOracle:
    """A connection as lookups have one. *State*: the types of the tables' columns, once they were asked for."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._pool = MySqlPool(Address.parse(url), 1)
        self._lent = self._pool.connection()
        self._wire = self._runner.run(self._lent.__aenter__())
        self._columns: Mapping[tuple[str, str, str], SqlType] | None = None

    def close(self) -> None:
        """Disconnects."""
        self._runner.run(self._lent.__aexit__(None, None, None))
        self._runner.run(self._pool.close())
        self._runner.close()

    def execute(self, sql: str) -> str | None:
        """Runs statements as one transaction; the message of what failed."""
        if "CREATE TABLE" in sql:
            self._columns = None
        for statement in ("START TRANSACTION", *_END.split(sql), "COMMIT"):
            error = self._ask(statement).error if statement.strip() else None
            if error is not None:
                self._ask("ROLLBACK")
                return str(error)
        return None

    def position(self) -> str:
        """Return the version that a read needs to see everything committed now."""
        file, offset, *_ = self._ask("SHOW MASTER STATUS").rows[0]
        return version_text(position_of(str(file), int(str(offset))))

    def written(self, sql: str, arguments: Arguments) -> str:
        """The statement with its parameters written in, as texts but where only numbers can stand."""
        statement = statement_of(sql, "mariadb")
        values = [arguments[name] for name in statement.names]
        texts = [arrays.render(list(value)) if isinstance(value, tuple) else value for value in values]
        return fill(template(statement), texts)

    def answer(self, sql: str) -> Answer | str:
        """Return a statement's rows, or the message of its failure."""
        reply = self._ask(sql)
        if reply.error is not None:
            return str(reply.error)
        columns = [(c.name, i, output_type(c, self._known())) for i, c in enumerate(reply.columns)]
        encode: Callable[[Any], bytes] = compile_row(columns)
        singles = frozenset(name for name, _, sql_type in columns if sql_type.name == "float4")
        return Answer([parse(encode(row)) for row in answer_rows(reply)], singles)

    def _ask(self, statement: str) -> ServerReply:
        return self._runner.run(self._wire.ask(statement))[0]

    def _known(self) -> Mapping[tuple[str, str, str], SqlType]:
        if self._columns is None:
            catalog = self._runner.run(load_catalog(self._wire, "mariadb"))
            self._columns = {
                (*schema_and_name(table.name), column.name.lower()): column.type
                for table in catalog.tables.values()
                for column in table.columns
            }
        return self._columns
