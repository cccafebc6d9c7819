"""``make fuzz-api``: random requests to a live service, on both of its ports.

``ARGS='--cases 20000 --seed 7'``.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fixtures.postgres import discard_server, start_server
from tests.fuzz_api.running import fuzz
from tests.fuzz_api.site import site

#: Operations of both documents, about.
_OPERATIONS = 25


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz-api", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="requests at least (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default: %(default)s)")
    return parser.parse_args()


def main() -> int:
    """0 if nothing was found."""
    arguments = _arguments()
    cases, found, started = 0, 0, time.monotonic()
    server = start_server()
    try:
        with tempfile.TemporaryDirectory() as name, site(server, Path(name) / "service") as service:
            seed = arguments.seed
            while cases < arguments.cases:
                # In several runs, so that it can be seen how far it is.
                examples = max(10, min(100, (arguments.cases - cases) // _OPERATIONS))
                for port, url in (("views", service.http), ("admin", service.admin)):
                    report = fuzz(service, url, examples, seed, Path(name))
                    cases += report.cases
                    found += not report.clean
                    if not report.clean:
                        print(report.output)  # noqa: T201
                    seconds = time.monotonic() - started
                    print(f"seed {seed}, {port}: {cases:,} requests in {seconds:.0f} s", flush=True)  # noqa: T201
                seed += 1
    finally:
        discard_server(server)
    print(f"{cases:,} requests, {found} runs with findings")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
