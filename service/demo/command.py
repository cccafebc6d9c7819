"""``upquery demo``: an embedded PostgreSQL with a news site, the service, a live write load, and what to type.

Everything lives in one temporary directory and in processes that this one started. However the demo ends (Ctrl-C, a
closed terminal, ``kill``, an error), they are stopped and the directory is removed.

Not here: the data (`dataset`), the views (`views`), what is printed (`screen`).
"""

import asyncio
import json
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import psycopg
import typer
from rich.console import Console
from rich.live import Live

from service.demo import screen
from service.demo.check import Checker
from service.demo.client import Client, ReadError
from service.demo.dataset import DatasetSize
from service.demo.loading import create_tables, load
from service.demo.postgres_server import EmbeddedPostgres, ServerFailed
from service.demo.service_process import ServiceConfig, ServiceError, ServiceProcess
from service.demo.views import VIEWS
from service.demo.visitors import Visitors
from service.demo.write_load import WriteLoad
from service.web.auth.tokens import new_token

#: Durability of a database that is thrown away is not worth waiting for, but the order of commits stays real.
_POSTGRES_SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "shared_buffers": "128MB",
    "max_wal_size": "256MB",
    "fsync": "off",
}
_REFRESH_S = 0.5


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the command line."""

    port: int | None = None
    admin_port: int | None = None
    workers: int = 1
    load: bool = True
    rate: float = 50.0
    check: bool = False
    rounds: int = 5
    as_json: bool = False
    guarded: bool = False
    size: DatasetSize = field(default_factory=DatasetSize)


class UsageError(Exception):
    """An option that cannot be used; the message says why."""


def demo(
    port: Annotated[int | None, typer.Option(help="Data port. Default: 8080, or a free port if it is in use.")] = None,
    admin_port: Annotated[
        int | None, typer.Option(help="Admin port. Default: 8081, or a free port if it is in use.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="API worker processes.")] = 1,
    load: Annotated[bool, typer.Option(help="Run the write load.")] = True,
    rate: Annotated[float, typer.Option(min=0.1, max=5000, help="Transactions per second of the write load.")] = 50.0,
    check: Annotated[
        bool, typer.Option("--check", help="Compare answers with the database under the write load, then exit.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of --check.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines instead of tables.")] = False,
    guarded: Annotated[bool, typer.Option("--guarded", help="Require a token, and print one.")] = False,
) -> None:
    """Run a news site on an embedded PostgreSQL, its views and a write load. Ctrl-C stops all of it."""
    options = DemoOptions(port, admin_port, workers, load, rate, check, rounds, as_json, guarded)
    raise typer.Exit(run(options))


def run(options: DemoOptions) -> int:
    """Run the demo until it is interrupted or its check is done. Returns the exit code."""
    console = Console(stderr=options.as_json)
    try:
        with _terminated_like_interrupted():
            stack = ExitStack()
            try:
                return _Demo(options, console, stack).run()
            finally:
                _stop_uninterrupted(stack)
    except KeyboardInterrupt:
        console.print("Stopped. No process is left running.")
        return 0
    except UsageError as error:
        console.print(f"[red]{error}[/]")
        return 2
    except (ServerFailed, ServiceError, ReadError, psycopg.Error) as error:
        console.print("[red]The demo failed:[/]", str(error), soft_wrap=True, markup=True, highlight=False)
        return 1


class _Demo:
    """One run of the demo. What is started goes onto `stack`, which stops it in the opposite order."""

    def __init__(self, options: DemoOptions, console: Console, stack: ExitStack) -> None:
        self._options = options
        self._console = console
        self._stack = stack

    def run(self) -> int:
        port = _port(self._options.port, 8080, "--port")
        admin_port = _port(self._options.admin_port, 8081, "--admin-port", taken=port)
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="upquery-demo-")))
        # As root the database server runs under another account, which must get to its own directory.
        directory.chmod(0o711)
        database = self._start_database(directory / "postgres")
        self._load_data(database)
        token = new_token() if self._options.guarded else None
        config = ServiceConfig(database, port, admin_port, self._options.workers, token)
        return asyncio.run(self._serve(self._start_service(directory / "service", config), config))

    def _start_database(self, directory: Path) -> str:
        with screen.step(self._console, "embedded PostgreSQL"):
            server = EmbeddedPostgres(directory, _POSTGRES_SETTINGS)
            self._stack.callback(server.stop)
            server.start()
        return server.url

    def _load_data(self, database: str) -> None:
        size = self._options.size
        rows = size.users + size.stories * 3 + size.votes + size.comments
        with psycopg.connect(database, autocommit=True) as connection:
            create_tables(connection)
            with screen.loading(self._console, rows) as progress:
                load(connection, size, progress)

    def _start_service(self, directory: Path, config: ServiceConfig) -> ServiceProcess:
        service = ServiceProcess(directory, config)
        self._stack.callback(service.stop)
        with screen.step(self._console, "upquery serve"):
            service.start()
        return service

    async def _serve(self, service: ServiceProcess, config: ServiceConfig) -> int:
        options, database = self._options, config.upstream_url
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(service.url, service.admin_url, config.headers))
            answers = await _first_answers(client)
            self._announce(service, config, answers)
            writes = None
            if options.load:
                writes = WriteLoad(database, options.size, options.rate)
                stack.push_async_callback(writes.stop)
                await writes.start()
            if options.check:
                return await self._check(client, database, writes)
            return await self._watch(client, service, writes, stack)

    def _announce(self, service: ServiceProcess, config: ServiceConfig, answers: list[screen.FirstAnswers]) -> None:
        if self._options.as_json:
            _print_json(
                {
                    "api": service.url,
                    "admin": service.admin_url,
                    "database": config.upstream_url,
                    "token": config.token,
                    "pid": service.pid,
                    "config": str(service.config_path),
                    "reads": [screen.view_url(service.url, view) for view in VIEWS],
                }
            )
        else:
            screen.welcome(
                self._console, service.url, service.admin_url, config.upstream_url, answers, token=config.token
            )

    async def _check(self, client: Client, database: str, writes: WriteLoad | None) -> int:
        options = self._options
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            checker = Checker(client, connection, writes, options.size)
            for number in range(1, options.rounds + 1):
                await _let_write(writes, options.rate)
                await checker.compare_round(new_keys=4)
                written = writes.transactions if writes else 0
                self._console.print(
                    f"round {number}: compared at one version, after {written:,} transactions of the write load"
                )
        if options.as_json:
            _print_json({"differences": [str(d) for d in checker.differences]})
        else:
            screen.comparisons(self._console, checker.comparisons)
        for difference in checker.differences[:5]:
            self._console.print(str(difference), markup=False, soft_wrap=True)
        return 1 if checker.differences else 0

    async def _watch(
        self, client: Client, service: ServiceProcess, writes: WriteLoad | None, stack: AsyncExitStack
    ) -> int:
        visitors = Visitors(client, self._options.size)
        if not self._options.as_json:
            visitors.start()
            stack.push_async_callback(visitors.stop)
        loop = asyncio.get_running_loop()
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            before, since = 0, loop.time()
            while True:
                await asyncio.sleep(_REFRESH_S)
                service.check_alive()
                if writes and writes.failure:
                    raise writes.failure
                written, now = writes.transactions if writes else 0, loop.time()
                if self._console.is_terminal:
                    rate = (written - before) / (now - since)
                    activity = screen.Activity(await client.totals(), visitors.failures, rate)
                    live.update(screen.status_line(activity), refresh=True)
                before, since = written, now


async def _let_write(writes: WriteLoad | None, rate: float) -> None:
    """Return when the load has written for about a second more."""
    if writes is None:
        return
    until = writes.transactions + max(1, round(rate))
    while writes.transactions < until:
        if writes.failure:
            raise writes.failure
        await asyncio.sleep(0.02)


async def _first_answers(client: Client) -> list[screen.FirstAnswers]:
    answers = []
    for view in VIEWS:
        first = await client.read(view.name, view.example_parameters)
        second = await client.read(view.name, view.example_parameters)
        answers.append(screen.FirstAnswers(view, first, second))
    return answers


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _port(wanted: int | None, usual: int, option: str, taken: int | None = None) -> int:
    """The port that was asked for, which must be free; else the usual one, or any free one."""
    if wanted is not None:
        if wanted == taken or not _is_free(wanted):
            raise UsageError(f"Port {wanted} is in use: choose another {option}.")
        return wanted
    return usual if usual != taken and _is_free(usual) else free_port()


def free_port() -> int:
    """A TCP port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do, or a port would count as taken for a minute after its server ended.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _stop_uninterrupted(stack: ExitStack) -> None:
    """Stop everything, in bounded time; a second Ctrl-C must not leave half of it running."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    stack.close()


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Inside, ``kill`` and a closed terminal are a Ctrl-C."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
