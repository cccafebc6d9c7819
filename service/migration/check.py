"""Check of a migration: its file run on a copy of the database, all views planned before and after.

*Invariants*: the configured database is only read; of it and a copy given by the user, the copy is changed, and refused
if it is the configured database itself.

Not here: the effects (`prediction`), how they are printed (`command`).
"""

import re
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr

from service.engine.databases.drivers import open_upstream
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Upstream
from service.engine.views.registry import Definition, Origin, StateError, ViewOptions, ViewRegistry
from service.migration.execution import mysql_identity, postgres_identity, run_on_mysql, run_on_postgres
from service.migration.prediction import Forecast, Prediction
from service.migration.schema_copy import SchemaCopy, schema_copy
from service.migration.script import SYNTAXES, Script, ScriptError
from service.settings.database_url import is_mysql
from service.settings.secrets import connection_url, upstream_password
from service.settings.stack import Settings


class CheckRefused(Exception):
    """Check that cannot be made as requested; the text has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a check. `on_copy`: URL of a copy to use; `role`: the role that runs the migration."""

    on_copy: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a check; `notes` say how the file was run."""

    prediction: Prediction
    notes: list[str]


def definitions(settings: Settings) -> list[Definition]:
    """Returns the views of the configuration file and of the state directory. Raises `CheckRefused`."""
    registry = ViewRegistry(settings.state.directory, keeps=False)
    try:
        registry.load(Definition(v.name, v.sql, Origin.CONFIG, ViewOptions(**v.options())) for v in settings.views)
    except StateError as error:
        raise CheckRefused(str(error)) from None
    return [registered.definition for registered in registry.views.values()]


async def check(settings: Settings, text: str, views: Iterable[Definition], options: Options) -> Checked:
    """Predicts the effects of a migration's file. Raises `CheckRefused`, `ScriptError`, `MigrationFailed`,
    `CopyFailed`, `UpstreamError`, `SettingsError`."""
    mysql = is_mysql(settings.upstream.url)
    script = Script.parse(text, SYNTAXES["mysql" if mysql else "postgres"])
    if not script.statements:
        raise ScriptError("The file has no statements.")
    with ExitStack() as stack:
        copy: SchemaCopy | None = None
        if options.on_copy is not None:
            await _check_copy(settings, options.on_copy, script)
            url = options.on_copy
        elif mysql:
            raise CheckRefused(
                "MariaDB and MySQL commit each statement that alters a table, so a migration can only be checked on a "
                "copy. Make one (mysqldump --no-data --routines --triggers), and give its URL by --on-copy."
            )
        else:
            copy = stack.enter_context(
                schema_copy(connection_url(settings.upstream.url, upstream_password(settings.upstream)))
            )
            url = copy.url
        copied = _settings_of(settings, url)
        upstream = open_upstream(copied)
        try:
            unshared = settings.cdc.source == "direct" and settings.shard.of == settings.engine.shards == 1
            forecast = Forecast(settings, views, extends=unshared and upstream.describes_rows)
            async with upstream.session() as session:
                await forecast.begin(session)
            await _run(script, upstream, _role_url(copy, url, options, forecast), copied)
            async with upstream.session() as session:
                return Checked(await forecast.predict(session), _notes(script, mysql=mysql))
        finally:
            await upstream.close()


async def _run(script: Script, upstream: Upstream, url: str, settings: Settings) -> None:
    if is_mysql(settings.upstream.url):
        await run_on_mysql(script, upstream)
    else:
        run_on_postgres(script, connection_url(url, upstream_password(settings.upstream)))


def _role_url(copy: SchemaCopy | None, url: str, options: Options, forecast: Forecast) -> str:
    """Returns the URL for the migration: as the given role, or as the owner of the tables that views read."""
    if copy is None:
        return url
    owners = (copy.owner(table) for table in sorted(forecast.before.tables))
    role = options.role or next((owner for owner in owners if owner is not None), None)
    return url if role is None else copy.as_role(role)


def _settings_of(settings: Settings, url: str) -> Settings:
    """Returns the settings for a copy, whose stream is not read."""
    password: SecretStr | None = settings.upstream.password
    upstream = settings.upstream.model_copy(
        update={"url": url, "password": None if urlsplit(url).password else password}
    )
    return settings.model_copy(
        update={"upstream": upstream, "cdc": settings.cdc.model_copy(update={"kafka": None, "url": None})}
    )


def _notes(script: Script, *, mysql: bool) -> list[str]:
    if mysql or script.in_one_transaction:
        return []
    return [
        f"Line {script.line(statement.start)} cannot be run in a transaction; every statement was run on its own."
        for statement in script.statements
        if statement.alone
    ]


async def _check_copy(settings: Settings, url: str, script: Script) -> None:
    """Refuses a copy that is the configured database, or one whose migration names that database on the same server.
    Raises `CheckRefused`, `UpstreamError`."""
    copied = _settings_of(settings, url)
    if is_mysql(copied.upstream.url) != is_mysql(settings.upstream.url):
        raise CheckRefused("--on-copy must be a database of the same kind as [upstream] url.")
    copy = await _identity(copied)
    try:
        real = await _identity(settings)
    except UpstreamError as error:
        if error.code != "unavailable":
            raise
        return  # A database that cannot be reached is not changed, either.
    if real == copy:
        raise CheckRefused("--on-copy is the configured database, which a check must not change.")
    *real_server, name = real
    named = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", script.text, re.IGNORECASE)
    if is_mysql(settings.upstream.url) and real_server == [*copy[:-1]] and named is not None:
        raise CheckRefused(
            f"The file names the database {name}, and --on-copy is on the same server. Use a copy on another one."
        )


async def _identity(settings: Settings) -> tuple[str, ...]:
    """Returns the identity of a database's server, then the database's name. Raises `UpstreamError`."""
    upstream = open_upstream(settings)
    try:
        return await (mysql_identity(upstream) if is_mysql(settings.upstream.url) else postgres_identity(upstream))
    finally:
        await upstream.close()
