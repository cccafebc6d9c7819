from service.http.hot import HotRoute
from service.http.reads import Reads
from service.http.view_reads import ViewReads
def build_app(reader, engine, limits):
    reads = Reads(reader, engine, limits)
    async def doc(scope, receive, send): raise RuntimeError
    return HotRoute(reads, ViewReads(reads), doc)
