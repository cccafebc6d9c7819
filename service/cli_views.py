"""``upquery view …``: views of a running service, over HTTP."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import quote

import httpx
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

views_app = typer.Typer(help="Views of a running service.", no_args_is_help=True)
output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

USAGE = 2
TIMEOUT_S = 60.0

AdminOption = Annotated[str, typer.Option("--admin", help="The admin port of the service.", envvar="UPQUERY_ADMIN_URL")]
UrlOption = Annotated[str, typer.Option("--url", help="The data plane of the service.", envvar="UPQUERY_URL")]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", help="For a service with [auth]; better in the environment.", envvar="UPQUERY_TOKEN"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
NameArgument = Annotated[str, typer.Argument(help="The view's name.")]
ADMIN_URL = "http://127.0.0.1:8081"
URL = "http://127.0.0.1:8080"


class Remote:
    """A port of a running service. What goes wrong is printed, and ends the command."""

    def __init__(self, url: str, token: str | None = None, *, as_json: bool = False) -> None:
        self._url = url
        self._as_json = as_json
        self._headers = self._headers_of(token)

    def get(self, path: str, parameters: dict[str, list[str]] | None = None, accept: str = "application/json") -> Any:
        """The body: parsed JSON, or text for another `accept`."""
        response = self._request("GET", path, params=parameters, headers={"accept": accept})
        return response.json() if accept == "application/json" else response.text

    def _headers_of(self, token: str | None) -> dict[str, str]:
        if token is None:
            return {}
        # A file's last line end is not meant; what else no header takes, the client would print with the rest.
        token = token.strip()
        if not (token.isascii() and token.isprintable()):
            self._fail({"detail": "The token has characters that no token has."})
        return {"authorization": f"Bearer {token}"}

    def put(self, path: str, body: object, headers: dict[str, str]) -> httpx.Response:
        """The response."""
        return self._request("PUT", path, json=body, headers=headers)

    def post(self, path: str, body: object) -> Any:
        """The body of the response."""
        return self._request("POST", path, json=body).json()

    def delete(self, path: str) -> None:
        """Nothing."""
        self._request("DELETE", path)

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**options.pop("headers", {}), **self._headers}
        try:
            response = httpx.request(method, self._url + path, headers=headers, timeout=TIMEOUT_S, **options)
        except httpx.HTTPError as error:
            self.unreachable(error)
        if response.is_error:
            self.refuse(response)
        return response

    @contextmanager
    def stream(self, path: str, parameters: dict[str, list[str]], headers: dict[str, str]) -> Iterator[httpx.Response]:
        """A response that may not end, whatever its status. httpx.HTTPError."""
        headers = {**headers, **self._headers}
        with httpx.stream("GET", self._url + path, params=parameters, headers=headers, timeout=TIMEOUT_S) as response:
            yield response

    def unreachable(self, error: httpx.HTTPError) -> NoReturn:
        """Say that there is no service."""
        self._fail({"detail": f"No service answers at {self._url}: {error}.", "hint": "Start one: upquery serve."})

    def refuse(self, response: httpx.Response) -> NoReturn:
        """Say what a response says is wrong."""
        response.read()
        self._fail(_problem(response))

    def _fail(self, problem: dict[str, Any]) -> NoReturn:
        if self._as_json:
            print_json(problem)
        else:
            errors.print("[bold red]Error:[/]", escape(problem_text(problem)), soft_wrap=True)
        raise typer.Exit(1)


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"detail": f"HTTP status {response.status_code}."}


def problem_text(problem: dict[str, Any]) -> str:
    """A problem for people: what, where, what to do."""
    text = str(problem.get("detail", ""))
    if "line" in problem:
        text += f"\n  at line {problem['line']}, column {problem['column']}: {problem['excerpt']}"
    if problem.get("hint"):
        text += f"\n{problem['hint']}"
    return text


def print_json(value: object) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _path(name: str) -> str:
    return f"/v1/catalog/views/{quote(name, safe='')}"


@views_app.command("list")
def list_views(admin: AdminOption = ADMIN_URL, token: TokenOption = None, as_json: JsonOption = False) -> None:
    """All registered views."""
    views = Remote(admin, token, as_json=as_json).get("/v1/catalog/views")["views"]
    if as_json:
        print_json(views)
        return
    table = Table("view", "parameters", "kept", "status", "hits", "misses", "keys", "MB")
    for view in views:
        counters = view["counters"]
        table.add_row(
            view["name"],
            ", ".join(f"{p['name']} {p['type']}" for p in view["parameters"]),
            view["materialization"] or view["tier"] or "",
            view["status"] if view["status"] == "ready" else escape(f"{view['status']}: {view['reason']}"),
            *(str(counters[c]) for c in ("hits", "misses", "covered_keys")),
            f"{(counters['leaf_bytes'] + counters['inner_bytes']) / 1e6:.1f}",
        )
    output.print(table)


@views_app.command("put")
def put_view(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="A file with one SELECT; - is standard input.")],
    create: Annotated[bool, typer.Option("--create", help="Fail if there is such a view already.")] = False,
    tier: Annotated[str | None, typer.Option(help="incremental, refresh or ttl: keep it so, or refuse it.")] = None,
    ttl: Annotated[float | None, typer.Option(help="Seconds for which an answer is good, if it only expires.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Keep it whole.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="Any option as KEY=VALUE: on_miss=forward, say. Several.")
    ] = None,
    admin: AdminOption = ADMIN_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Register a view, or replace it."""
    headers = {"if-none-match": "*"} if create else {}
    options = {"tier": tier, "ttl": ttl, "materialization": "full" if full else None}
    for given in option or ():
        key, separator, value = given.partition("=")
        if not separator:
            raise typer.BadParameter(f"{given!r} is not KEY=VALUE.", param_hint="--option")
        options[key] = value
    response = Remote(admin, token, as_json=as_json).put(_path(name), {"sql": _sql(file), **options}, headers)
    if as_json:
        print_json(response.json())
        return
    done = {200: "is in place", 201: "is registered", 202: "is being built"}.get(response.status_code, "was put")
    output.print(f"View [bold]{name}[/] {done}.")


def _sql(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        errors.print(f"[bold red]Error:[/] {file} cannot be read: {error}")
        raise typer.Exit(USAGE) from None


@views_app.command("drop")
def drop_view(
    name: NameArgument, admin: AdminOption = ADMIN_URL, token: TokenOption = None, as_json: JsonOption = False
) -> None:
    """Forget a view."""
    Remote(admin, token, as_json=as_json).delete(_path(name))
    if as_json:
        print_json({"dropped": name})
    else:
        output.print(f"View [bold]{name}[/] is dropped.")


@views_app.command("explain")
def explain_view(
    name: NameArgument,
    dot: Annotated[bool, typer.Option("--dot", help="Print Graphviz.")] = False,
    admin: AdminOption = ADMIN_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how a view is kept: nodes, lookups, missing indexes."""
    remote = Remote(admin, token, as_json=as_json)
    if as_json:
        print_json(remote.get(f"{_path(name)}/plan"))
    else:
        accept = "text/vnd.graphviz" if dot else "text/plain"
        sys.stdout.write(remote.get(f"{_path(name)}/plan", accept=accept))


@views_app.command("get")
def get_view(
    name: NameArgument,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="key=value…", help="The view's parameters.")] = None,
    url: UrlOption = URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read a view."""
    parameters = parameters_of(arguments)
    answer = Remote(url, token, as_json=as_json).get(f"/v1/views/{quote(name, safe='')}", parameters)
    if as_json:
        print_json(answer)
        return
    print_rows(answer["rows"])
    output.print(f"[dim]{len(answer['rows'])} rows at {answer['version']}[/]")


def parameters_of(arguments: list[str] | None) -> dict[str, list[str]]:
    """What ``key=value`` says. Ends the command if one is not of that form."""
    parameters: dict[str, list[str]] = {}
    for argument in arguments or ():
        key, equals, value = argument.partition("=")
        if not equals:
            errors.print(f"[bold red]Error:[/] {argument!r} is not of the form key=value.")
            raise typer.Exit(USAGE)
        parameters.setdefault(key, []).append(value)
    return parameters


def print_rows(rows: list[dict[str, Any]]) -> None:
    """A table on standard output."""
    if not rows:
        return
    table = Table(*map(escape, rows[0]))
    for row in rows:
        table.add_row(*("" if value is None else escape(str(value)) for value in row.values()))
    output.print(table)
