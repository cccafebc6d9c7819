"""Build hook: with UPQUERY_COMPILE=1 a wheel also has extension modules, which mypyc compiles from the sources.

The sources are in the wheel either way; Python imports an extension module rather than the source beside it. Needs a C
compiler and Python's headers. Without the variable, and for editable installations, nothing is compiled.

Extension modules are built in a temporary folder, never among the sources.
"""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Exact, so that a release is always compiled alike.
REQUIREMENTS = ["mypy==2.4.1", "setuptools>=77"]
#: Modules that are compiled: those on the path of a change, from the stream through the engine.
COMPILED = [
    "cdc/postgres/pgoutput.py",
    "dataflow/engine/*.py",
    "dataflow/evaluate.py",
    "dataflow/functions/comparison.py",
    "dataflow/functions/logic.py",
    "dataflow/ops/*.py",
    "dataflow/sizing.py",
    "dataflow/state/*.py",
]
#: Modules of these that stay interpreted.
INTERPRETED = {
    # A Protocol that classes elsewhere, also of tests, implement.
    "dataflow/engine/redo_log.py",
    # Dataclasses under a generic base class, which mypyc does not compile.
    "dataflow/engine/outstanding.py",
    "dataflow/engine/flights.py",
    "dataflow/engine/forwarded_reads.py",
    "dataflow/engine/refresh_leaf.py",
    # Rows that are known in part have values that are not texts.
    "dataflow/engine/invalidation.py",
    "dataflow/engine/partial_images.py",
    # Large, and for reports only.
    "dataflow/engine/explain.py",
}
#: Name of the shared library that the extension modules load.
LIBRARY = "upquery"


class CompiledModules(BuildHookInterface[Any]):
    """Adds extension modules to a wheel."""

    def dependencies(self) -> list[str]:
        """Packages that the build needs."""
        return REQUIREMENTS if _is_requested() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, if it is requested and the wheel is a whole one."""
        if version == "editable" or not _is_requested():
            return
        self._folder = tempfile.TemporaryDirectory(prefix="upquery-compile-")
        built = _compile(Path(self.root), Path(self._folder.name))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(path): name for name, path in built.items()})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Removes the temporary folder."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _is_requested() -> bool:
    return os.environ.get("UPQUERY_COMPILE", "") not in ("", "0")


def _compile(root: Path, folder: Path) -> dict[str, Path]:
    """Returns the extension modules by their places in the wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    with contextlib.chdir(root):
        found = sorted({path.as_posix() for pattern in COMPILED for path in Path().glob(pattern)} - INTERPRETED)
        # mypy's own options first. Packages that are not installed here are of any type.
        options = ["--config-file=", f"--cache-dir={folder / 'mypy'}", "--ignore-missing-imports"]
        modules = [name for name in found if not name.endswith("__init__.py")]
        extensions = mypycify(
            options + modules,
            opt_level="2",
            debug_level="0",
            multi_file=True,
            target_dir=str(folder / "c"),
            group_name=LIBRARY,
        )
        command = Distribution({"name": "upquery", "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "objects")
        command.ensure_finalized()
        command.run()
    library = folder / "lib"
    return {path.relative_to(library).as_posix(): path for path in library.rglob("*") if path.is_file()}
