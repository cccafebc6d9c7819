"""Choice of the source database, by a dialect's name or by a snapshot."""

from cdc.debezium.history import StartSnapshot
from cdc.debezium.mysql import MYSQL
from cdc.debezium.postgres import POSTGRES
from cdc.debezium.source_database import SourceDatabase
from cdc.postgres.position import PostgresSnapshot

_DATABASES = {"postgres": POSTGRES, "mariadb": MYSQL, "mysql": MYSQL}


def database_of(dialect: str) -> SourceDatabase:
    return _DATABASES[dialect]


def database_at(snapshot: StartSnapshot) -> SourceDatabase:
    return POSTGRES if isinstance(snapshot, PostgresSnapshot) else MYSQL
