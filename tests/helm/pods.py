"""Rendered pods as local processes: what a node would do with them.

Files, environment, arguments, ports and probes are those of the rendered objects. Volumes are folders below one root;
each pod binds to a loopback address of its own; names of pods are replaced by these addresses where files have them.

Not here: which pods there are, and when they start and end (`test_process`, `test_gateway_process`).
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from pathlib import Path

import httpx

from tests.fixtures.forks import start
from tests.fixtures.service import HTTP, command
from tests.helm.charts import Object, Rendered
from tests.tidy.sources import ROOT

LIMIT_S = 120.0


class Cluster:
    """Environment of a release's pods: its objects, and the namespace's other Secrets. `claims`: a folder for volumes
    that outlive pods."""

    def __init__(
        self, release: Rendered, secrets: MutableMapping[str, dict[str, str]], claims: Path = Path("nowhere")
    ) -> None:
        self.release = release
        self.claims = claims
        self.secrets = ChainMap(_data(release, "Secret", "stringData"), secrets)
        self.configs = _data(release, "ConfigMap", "data")

    def upgrade(self, release: Rendered) -> None:
        """The release is another one. Its Secrets stay, as they do where Helm finds them in a cluster."""
        self.release = release
        self.configs = _data(release, "ConfigMap", "data")

    def environment(self, template: Object, name: str) -> dict[str, str]:
        """The environment of a pod's container, as the kubelet makes it."""
        found: dict[str, str] = {}
        (container,) = template["spec"]["containers"]
        for variable in container["env"]:
            given = self._value(variable, template, name)
            found[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda named: found.get(named[1], named[0]), given)
        return found

    def _value(self, variable: Object, template: Object, name: str) -> str:
        match variable:
            case {"value": value}:
                return str(value)
            case {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}:
                return name
            case {"valueFrom": {"fieldRef": {"fieldPath": path}}}:
                (key,) = re.findall(r"^metadata\.annotations\['([^']+)'\]$", path)
                return str(template["metadata"]["annotations"][key])
            case {"valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}:
                return self.secrets[secret][key]
            case {"valueFrom": {"configMapKeyRef": {"name": config, "key": key}}}:
                return self.configs[config][key]
        raise AssertionError(variable, template)

    def files(self, volume: Object) -> dict[str, str]:
        """Return a volume's files at the start of a pod, or after a later change."""
        if "configMap" in volume:
            return dict(self.configs[volume["configMap"]["name"]])
        if "secret" in volume:
            known = self.secrets[volume["secret"]["secretName"]]
            return {item["path"]: known[item["key"]] for item in volume["secret"]["items"]}
        assert "emptyDir" in volume
        return {}


def _data(release: Rendered, kind: str, field: str) -> dict[str, dict[str, str]]:
    return {each["metadata"]["name"]: each[field] for each in release.of_kind(kind)}


class Pod:
    """A pod of a rendered object (`owner`) as a process. Its folders stay when it is started again."""

    def __init__(
        self,
        cluster: Cluster,
        owner: Object,
        name: str,
        address: str = "127.0.0.1",
        hosts: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self.template = owner["spec"]["template"]
        (self.container,) = self.template["spec"]["containers"]
        # Short: sockets are below it.
        self.root = Path(tempfile.mkdtemp(prefix="pod-"))
        self.log = self.root / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.cluster = cluster
        self._hosts = hosts or {}
        self._volumes = {volume["name"]: volume for volume in self.template["spec"]["volumes"]}

    def start(self) -> None:
        """Mounts what is mounted, and starts the container's process as the image's entry point does."""
        for mount in self.container["volumeMounts"]:
            folder = self.root / mount["mountPath"][1:]
            if mount["name"] not in self._volumes:
                self._claim(folder, mount["name"])
                continue
            folder.mkdir(parents=True, exist_ok=True)
            self._fill(folder, self.cluster.files(self._volumes[mount["name"]]))
        with self.log.open("ab") as log:
            self.process = start(
                command(*(self._here(word) for word in self.container["args"])),
                env=self._environment(),
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def follow(self) -> None:
        """Update mounted files to the objects' present contents, as happens a while later in a running pod."""
        for mount in self.container["volumeMounts"]:
            if "configMap" in self._volumes.get(mount["name"], {}):
                files = self.cluster.files(self._volumes[mount["name"]])
                self._fill(self.root / mount["mountPath"][1:], files)

    def _fill(self, folder: Path, files: Mapping[str, str]) -> None:
        """Write all files of a volume at once, like the kubelet: by one link to a folder of theirs."""
        if not files:
            return
        current = Path(tempfile.mkdtemp(prefix="..", dir=folder))
        for name, text in files.items():
            (current / name).write_text(self._here(text))
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(Path("..data") / name)
        (folder / "..new").symlink_to(current.name)
        (folder / "..new").rename(folder / "..data")

    def _claim(self, folder: Path, volume: str) -> None:
        """Mount the volume of a StatefulSet's pod of this name, which outlives the pod."""
        claim = self.cluster.claims / f"{volume}-{self.name}"
        claim.mkdir(exist_ok=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not folder.is_symlink():
            folder.symlink_to(claim)

    def _environment(self) -> dict[str, str]:
        """The container's, and what makes it run here: nothing else of this process's environment."""
        here = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "UPQUERY_HTTP__HOST": self.address}
        given = self.cluster.environment(self.template, self.name)
        return here | {name: self._here(value) for name, value in given.items()}

    def _here(self, text: str) -> str:
        """With the paths that are mounted, and the hosts, as they are here."""
        for host, address in self._hosts.items():
            text = text.replace(host, address)
        mounted = "|".join(re.escape(mount["mountPath"]) for mount in self.container["volumeMounts"])
        return re.sub(rf"(?<![\w/])({mounted})\b", rf"{self.root}\1", text)

    def port(self, name: str) -> int:
        """Its number."""
        (number,) = (each["containerPort"] for each in self.container["ports"] if each["name"] == name)
        return int(number)

    def url(self, port: str) -> str:
        """Return the URL of a named port."""
        return f"http://{self.address}:{self.port(port)}"

    def probe(self, name: str) -> bool:
        """Return the kubelet's result."""
        asked = self.container[f"{name}Probe"]["httpGet"]
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return HTTP.get(self.url(asked["port"]) + asked["path"]).is_success
        except httpx.TransportError:
            return False

    @property
    def sleep_s(self) -> float:
        """How long it is left alone before it is told to stop."""
        return float(self.container["lifecycle"]["preStop"]["sleep"]["seconds"])

    def stop(self) -> int:
        """Tells it to stop; its exit code, if it ends in the time that is left to it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(self.template["spec"]["terminationGracePeriodSeconds"] - self.sleep_s)

    def kill(self) -> None:
        """Ends it and what it has started, at once, as a node that fails."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)

    def discard(self) -> None:
        """Ends it, and removes what it left."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.root, ignore_errors=True)
