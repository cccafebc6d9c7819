"""Copy of a PostgreSQL schema in an embedded server, made by pg_dump: roles, owners, rights and settings, but no rows.

*Invariants*: on the copied database only pg_dump and pg_dumpall run, which lock tables as a SELECT does, for which they
wait for `_LOCK_WAIT` at most; passwords are in no argument list; the copy's files and server are removed at the end.

Not here: the server (`service.demo.postgres_server`).
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from service.demo.postgres_server import EmbeddedPostgres, ServerFailed

_LOCK_WAIT = "5s"
#: Nothing of the copy outlives the process.
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB", "autovacuum": "off"}
_HINT = "Make a copy of the schema yourself, and give its URL by --on-copy."


class CopyFailed(Exception):
    """The schema cannot be copied; the text has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class SchemaCopy:
    """Database of the embedded server. `url` connects as the copied URL's role."""

    url: str
    server: EmbeddedPostgres

    def as_role(self, role: str) -> str:
        """Returns the URL for a role, which can log in from now on. Raises `CopyFailed`."""
        try:
            with self._superuser() as connection:
                connection.execute(sql.SQL("ALTER ROLE {} LOGIN").format(sql.Identifier(role)))
        except psycopg.Error as error:
            raise CopyFailed(f"The migration cannot be run as {role}: {error.diag.message_primary or error}") from None
        return make_conninfo(self.url, user=role)

    def owner(self, table: str) -> str | None:
        """Returns the owner of a table, None if it does not exist."""
        with self._superuser() as connection:
            query = "SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = to_regclass(%s)"
            row = connection.execute(query, [table]).fetchone()
            return None if row is None else str(row[0])

    def _superuser(self) -> psycopg.Connection:
        return psycopg.connect(make_conninfo(self.url, user="postgres", options=""), autocommit=True)


@contextmanager
def schema_copy(url: str) -> Iterator[SchemaCopy]:
    """Copies the schema of the database at `url` (a connection string of libpq). Raises `CopyFailed`."""
    base = Path(tempfile.mkdtemp(prefix="upquery-copy-"))
    server = EmbeddedPostgres(base / "server", _SETTINGS)
    try:
        # The server's account may pass through.
        base.chmod(0o711)
        server.start()
        yield SchemaCopy(_copied(url, server, base), server)
    except ServerFailed as failed:
        raise CopyFailed(f"{failed} {_HINT}") from None
    finally:
        server.stop("immediate")
        shutil.rmtree(base, ignore_errors=True)


def _copied(url: str, server: EmbeddedPostgres, base: Path) -> str:
    """Copies roles and database; returns the URL of the copy."""
    given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    environment = {**os.environ, "PGCONNECT_TIMEOUT": "10"}
    if "password" in given:
        environment["PGPASSWORD"] = given.pop("password")
    user, database = _login(url)
    roles, schema = base / "roles.sql", base / "schema.sql"
    source = ("--lock-wait-timeout", _LOCK_WAIT, "-d", make_conninfo(**given))
    of_roles = (*source, "-l", database, "--roles-only", "--no-role-passwords", "-f", str(roles))
    parts = ("--schema-only", "--create", "--no-subscriptions", "--no-tablespaces", "--no-security-labels")
    _run(server, "pg_dumpall", *of_roles, environment=environment)
    _run(server, "pg_dump", *source, *parts, "-f", str(schema), environment=environment)
    with psycopg.connect(server.database_url("template1"), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(database)))
    target = ("-X", "-q", "-d", server.database_url("template1"))
    # A role of the server's own exists already.
    _run(server, "psql", *target, "-f", str(roles), environment=os.environ)
    _run(server, "psql", *target, "-v", "ON_ERROR_STOP=1", "-f", str(schema), environment=os.environ)
    address = {"host": "127.0.0.1", "port": str(server.port), "user": user, "dbname": database}
    return make_conninfo(**address, **({"options": given["options"]} if "options" in given else {}))


def _login(url: str) -> tuple[str, str]:
    """Returns the role and the database that a connection has, with all defaults of libpq."""
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            return connection.info.user, connection.info.dbname
    except psycopg.Error as error:
        raise CopyFailed(f"The database does not answer: {str(error).strip()}") from None


def _run(server: EmbeddedPostgres, program: str, *arguments: str, environment: Mapping[str, str]) -> None:
    """Runs a client program of the embedded server. Raises `CopyFailed`."""
    command = server.program(program) or shutil.which(program)
    if command is None:
        raise CopyFailed(f"{program} is not installed (Debian: apt install postgresql-client). {_HINT}")
    done = subprocess.run(
        [str(command), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=dict(environment),
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        reason = next((line for line in lines if "ERROR" in line or "error:" in line), lines[-1] if lines else "")
        raise CopyFailed(f"The schema cannot be copied: {program}: {reason} {_HINT}")
