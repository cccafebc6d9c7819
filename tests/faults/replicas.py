"""Two replicas behind a gateway, under the load of a `Bed`: while one of them is away, the other one answers."""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.faults.bed import Bed, configured_service, loaded, proxy_of
from tests.faults.sides import Side
from tests.fixtures.service import HTTP, RunningService, alive, processes_of, running_gateway, until
from tests.integration.consistency import RECOVERY_S

REPLICAS = 2


@dataclass(frozen=True, slots=True)
class ReplicaBed(Bed):
    """A bed whose `service` is the gateway of `pods`."""

    pods: tuple[RunningService, ...]

    @property
    def services(self) -> tuple[RunningService, ...]:
        return self.pods

    def is_whole(self) -> bool:
        with suppress(httpx.HTTPError):
            probed = [HTTP.get(f"{pod.admin}/readyz?strict=1") for pod in self.pods]
            return all(said.status_code == 200 for said in probed) and self.service.ready()
        return False


@contextmanager
def running_replicas(make_side: Callable[[], Side]) -> Iterator[ReplicaBed]:
    """The site, two services with a worker each, their gateway, the load and the probers, for the length of a block."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        side = make_side()
        stack.callback(side.discard)
        proxy = stack.enter_context(proxy_of(side))
        pods = []
        for number in range(REPLICAS):
            state = directory / str(number) / "state"
            pod = configured_service(directory / str(number), side, proxy, state, http={"workers": 1})
            stack.callback(pod.discard)
            pod.start()
            pod.keep_ports()
            pods.append(pod)
        gateway = stack.enter_context(running_gateway(directory / "gateway", [pods]))
        load, probers = stack.enter_context(loaded(side, gateway))
        yield ReplicaBed(side, gateway, proxy, load, *probers, state, REPLICAS, None, tuple(pods))


@contextmanager
def rolled(bed: Bed) -> Iterator[None]:
    """Restart the database's servers and each replica in order, each when all others are whole."""
    assert isinstance(bed, ReplicaBed)
    for restart in bed.side.restarts():
        restart()
        until(bed.is_whole, RECOVERY_S)
    for pod in bed.pods:
        assert pod.stop() == 0
        pod.start()
        until(bed.is_whole, RECOVERY_S)
    yield


@contextmanager
def bereft(bed: Bed) -> Iterator[None]:
    """Kill all of one replica at once; it is started again."""
    assert isinstance(bed, ReplicaBed)
    pod = bed.pods[0]
    children = processes_of(pod.pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    pod.stop(signal.SIGKILL)
    until(lambda: not any(map(alive, children)))
    yield
    pod.start()
