"""The chart, rendered by Helm's own engine, as objects.

Not here: which values (`matrix`); what must be true of the objects (the tests).
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml

from tests.tidy.sources import ROOT

CHART = ROOT / "helm" / "upquery"
#: The one in C is ten times as fast, and not everywhere.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Object = dict[str, Any]
#: Kinds of objects whose pods answer requests.
SERVING = ("StatefulSet", "Deployment")


@dataclass(frozen=True, slots=True)
class Rendered:
    """Objects of a release. `notes` is the text printed after its installation."""

    objects: list[Object]
    notes: str

    def of_kind(self, kind: str) -> list[Object]:
        """All objects of a kind."""
        return [each for each in self.objects if each["kind"] == kind]

    def only(self, kind: str) -> Object:
        """The one object of a kind."""
        (found,) = self.of_kind(kind)
        return found

    def named(self, kind: str, name: str) -> Object:
        """An object by its name behind the release's, as `-gateway`."""
        (found,) = (each for each in self.of_kind(kind) if each["metadata"]["name"] == f"demo-upquery{name}")
        return found

    @property
    def engines(self) -> Object:
        """The StatefulSet, with several shards that of the first."""
        return self.of_kind("StatefulSet")[0]

    @property
    def pod(self) -> Object:
        """The specification of its pods."""
        pod: Object = self.engines["spec"]["template"]["spec"]
        return pod

    @property
    def container(self) -> Object:
        """Their container."""
        (container,) = self.pod["containers"]
        return dict(container)

    @property
    def templates(self) -> list[Object]:
        """Templates of all kinds of pods."""
        found = [each["spec"]["template"] for kind in SERVING for each in self.of_kind(kind)]
        return found + self.job_templates

    @property
    def job_templates(self) -> list[Object]:
        """Those of pods that run now and then."""
        jobs = [each["spec"] for each in self.of_kind("Job")]
        jobs += [each["spec"]["jobTemplate"]["spec"] for each in self.of_kind("CronJob")]
        return [job["template"] for job in jobs]

    @property
    def toml(self) -> str:
        """The configuration file; a job's has the same content."""
        (text,) = {each["data"]["upquery.toml"] for each in self.of_kind("ConfigMap") if "upquery.toml" in each["data"]}
        return str(text)


@cache
def chart() -> helm_python.Chart:
    """The chart, loaded once."""
    return helm_python.Chart.load(CHART)


def render(values: Object, name: str = "demo", namespace: str = "shop") -> Rendered:
    """The objects of a release. HelmError."""
    files = chart().render(values, name=name, namespace=namespace)
    notes = files.pop("upquery/templates/NOTES.txt")
    objects = [each for path in sorted(files) for each in yaml.load_all(files[path], LOADER) if each]
    return Rendered(objects, notes)


def schema_of(name: str) -> Path:
    """The file of a custom resource's schema."""
    return Path(__file__).parent / "crds" / f"{name}.json"
