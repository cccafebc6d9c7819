"""HTTP client of the commands that use a running service, and the text form of its answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import httpx
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.command.options import USAGE, print_json

output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

TIMEOUT_S = 60.0


class Remote:
    """One port of a running service. Errors are printed and end the command."""

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
        # A file's final newline is not part of the token. httpx would print other illegal characters with the token.
        token = token.strip()
        if not (token.isascii() and token.isprintable()):
            self._fail({"detail": "The token contains characters that are not printable ASCII."})
        return {"authorization": f"Bearer {token}"}

    def put(self, path: str, body: object, headers: dict[str, str]) -> httpx.Response:
        """The response."""
        return self._request("PUT", path, json=body, headers=headers)

    def post(self, path: str, body: object) -> Any:
        """The body of the response."""
        return self._request("POST", path, json=body).json()

    def delete(self, path: str) -> None:
        """Send DELETE."""
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
        """Open a response that may not end, of any status. Raises httpx.HTTPError."""
        headers = {**headers, **self._headers}
        with httpx.stream("GET", self._url + path, params=parameters, headers=headers, timeout=TIMEOUT_S) as response:
            yield response

    def unreachable(self, error: httpx.HTTPError) -> NoReturn:
        """Print that no service answers, and end the command."""
        self._fail({"detail": f"No service answers at {self._url}: {error}.", "hint": "Start one: upquery serve."})

    def refuse(self, response: httpx.Response) -> NoReturn:
        """Print the problem of an error response, and end the command."""
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
    """Return a problem as text: error, position in the SQL, hint."""
    text = str(problem.get("detail", ""))
    if "line" in problem:
        text += f"\n  at line {problem['line']}, column {problem['column']}: {problem['excerpt']}"
    if problem.get("hint"):
        text += f"\n{problem['hint']}"
    return text


def parameters_of(arguments: list[str] | None) -> dict[str, list[str]]:
    """Parse ``key=value`` arguments; an argument of another form ends the command."""
    parameters: dict[str, list[str]] = {}
    for argument in arguments or ():
        key, equals, value = argument.partition("=")
        if not equals:
            errors.print(f"[bold red]Error:[/] Argument {argument!r} must have the form key=value.")
            raise typer.Exit(USAGE)
        parameters.setdefault(key, []).append(value)
    return parameters


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Print rows as a table on standard output."""
    if not rows:
        return
    table = Table(*map(escape, rows[0]))
    for row in rows:
        table.add_row(*("" if value is None else escape(str(value)) for value in row.values()))
    output.print(table)
