"""``python -m load.peers MODULE PORT``: a peer on uvicorn, set up exactly as the service's own worker is."""

import gc
import importlib
import sys

import uvicorn


def main() -> None:
    """Serve until told to stop."""
    module, port = sys.argv[1], int(sys.argv[2])
    app = importlib.import_module(f"load.peers.{module}").app
    # The same arguments, and the same care for the garbage collector, as in the service's worker.
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=75,
        backlog=2048,
    )
    gc.collect()
    gc.freeze()
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main()
