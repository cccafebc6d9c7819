"""Choice of a dialect by `Catalog.dialect`."""

from dataflow.sql.expressions.dialect import Dialect
from dataflow.sql.mysql.dialect import MYSQL
from dataflow.sql.postgres.dialect import POSTGRES

_DIALECTS = {"postgres": POSTGRES, "mariadb": MYSQL, "mysql": MYSQL}


def dialect_of(name: str) -> Dialect:
    return _DIALECTS[name]
