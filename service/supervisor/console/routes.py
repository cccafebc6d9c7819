"""Serves the console's page and its parts from this folder."""

from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import Response

from service.ground.errors import ApiError

_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_PAGE = "index.html"
_PARTS = ("console.css", "console.js", "graph.js", "page.js")
_HEADERS = {
    "content-security-policy": "default-src 'none'; connect-src 'self'; img-src data:; script-src 'self'; "
    "style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
#: These hold nothing of the service's own: anyone who reaches the port may see them.
CONSOLE_PATHS = frozenset({"/", *(f"/console/{name}" for name in _PARTS)})


def add_console(app: FastAPI) -> None:
    """The page at ``/``, its parts below ``/console``."""

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return _file(_PAGE)

    @app.get("/console/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in _PARTS:
            raise ApiError("not_found", "The console has no such file.")
        return _file(name)


def _file(name: str) -> Response:
    body = files(__package__).joinpath(name).read_bytes()
    return Response(body, media_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)
