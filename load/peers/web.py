"""The peers' HTTP application, with FastAPI tuned for speed: requests and responses pass as bytes."""

from fastapi import FastAPI, Request
from fastapi import Response as HttpResponse

from load.peers.requests import Requests, Response

_HIT = {"cache-status": "peer; hit"}
_MISS = {"cache-status": "peer; fwd=miss; stored"}


def web_application(requests: Requests) -> FastAPI:
    """The routes of our contract that peers serve."""
    app = FastAPI(openapi_url=None)

    @app.get("/v1/views/{view}")
    async def get(request: Request) -> HttpResponse:
        return _http(await requests.get(request.path_params["view"], request.scope["query_string"]))

    @app.post("/v1/views/{view}/query")
    async def query(request: Request) -> HttpResponse:
        return _http(await requests.query(request.path_params["view"], await request.body()))

    @app.post("/v1/read")
    async def read(request: Request) -> HttpResponse:
        return _http(await requests.read(await request.body()))

    @app.post("/writes/{name}")
    async def write(request: Request) -> HttpResponse:
        return _http(await requests.write(request.path_params["name"], await request.body()))

    return app


def _http(response: Response) -> HttpResponse:
    headers = None if response.hit is None else _HIT if response.hit else _MISS
    return HttpResponse(response.body, response.status, headers, "application/json")
