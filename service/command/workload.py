"""``upquery workload …``: builds a workload model from the access log and applies it to a service.

Not here: the model (`dataflow.spark.workload`), its use in a service (`service.engine.workload`).
"""

import json
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from dataflow.spark.problems import SparkProblem
from service.command.options import ADMIN_URL, AdminOption, JsonOption, TokenOption, print_json
from service.command.remote import Remote

workload_app = typer.Typer(
    help="Model the workload from the access log, and apply the model to a service.", no_args_is_help=True
)
output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

#: File with a service's measurements, beside the model.
MEASURED = "measured.json"
#: Parts of a view's model that a service uses.
_TAKEN = ("budget_bytes", "prewarm", "pin")


@workload_app.command("report")
def report_workload(
    log: Annotated[Path, typer.Option("--log", help="Folder of the access log: \\[access_log] path.")],
    service: Annotated[
        str | None, typer.Option("--service", help="URL of the service's admin port, for sizes, changes and lookups.")
    ] = None,
    measured: Annotated[
        Path | None, typer.Option(help="Measurements of an earlier run (measured.json), instead of --service.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for model.json and report.html.")] = Path("workload"),
    last: Annotated[Path | None, typer.Option(help="The previous model.json, to report changes.")] = None,
    budget: Annotated[
        str | None, typer.Option(help="Memory budget to model instead of the service's, such as 512MiB.")
    ] = None,
    master: Annotated[str, typer.Option(help="Spark master URL.")] = "local[*]",
    memory: Annotated[str, typer.Option(help="Heap size of Spark's driver.")] = "1g",
    reads: Annotated[int, typer.Option(min=1_000, help="Maximum number of reads simulated one by one.")] = 200_000,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Model an access log: skew, hit rate by memory, hot keys. Writes a report and a model for the service."""
    if service is not None and measured is not None:
        raise typer.BadParameter("give --service or --measured, not both", param_hint="--measured")
    documents = _documents(service, measured, token, as_json=as_json)
    try:
        model = _report(log, out, documents, last, budget, master, memory, reads)
    except SparkProblem as problem:
        _fail(problem.detail, problem.hint, as_json=as_json)
    except ImportError as error:
        _fail(f"{error.name} is not installed.", "Install the extra: pip install 'upquery[spark]'.", as_json=as_json)
    if documents is not None and measured is None:
        (out / MEASURED).write_text(json.dumps(documents), encoding="utf-8")
    if as_json:
        print_json({"model": str(out / "model.json"), "report": str(out / "report.html"), "lines": model.lines})
        return
    output.print(
        f"{model.lines:,} reads of {len(model.views)} views. Report: {escape(str(out / 'report.html'))}."
        f" To apply the model: upquery workload apply {escape(str(out / 'model.json'))}",
        soft_wrap=True,
    )
    for advice in model.drift:
        output.print(f"Since the last model: {escape(advice.text)}", soft_wrap=True)


def _documents(service: str | None, measured: Path | None, token: str | None, *, as_json: bool) -> Any:
    if service is not None:
        remote = Remote(service, token, as_json=as_json)
        views = remote.get("/v1/catalog/views")["views"]
        return {"views": views} | {name: remote.get(f"/v1/{name}") for name in ("stats", "graph", "footprints")}
    return None if measured is None else _read_json(measured, as_json=as_json)


def _report(
    log: Path,
    out: Path,
    documents: Any,
    last: Path | None,
    budget: str | None,
    master: str,
    memory: str,
    reads: int,
) -> Any:
    from pydantic import ByteSize, TypeAdapter

    from dataflow.spark.session import check_packages, session
    from dataflow.spark.workload.log import Bounds
    from dataflow.spark.workload.report import ReportInput, check, report

    try:
        budget_bytes = None if budget is None else int(TypeAdapter(ByteSize).validate_python(budget))
    except ValueError:
        raise typer.BadParameter(
            f"{budget!r} must be a number of bytes, such as 512MiB", param_hint="--budget"
        ) from None
    bounds = Bounds(reads=reads, keys=max(1_000, reads // 3))
    wanted = ReportInput(log, out, documents, last, budget_bytes, bounds)
    # These checks do not need Spark, which starts slowly.
    check(wanted)
    check_packages()
    spark = session("upquery workload", master, memory=memory)
    try:
        return report(spark, wanted)
    finally:
        spark.stop()


@workload_app.command("apply")
def apply_workload(
    model: Annotated[Path, typer.Argument(help="A model.json written by upquery workload report.")],
    admin: AdminOption = ADMIN_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a service fill and pin the hot keys of a model, now and after each restart."""
    document = _read_json(model, as_json=as_json)
    if not isinstance(document, dict) or not isinstance(document.get("views"), dict) or "kind" not in document:
        _fail(f"{model} is not a workload model.", "Create one with upquery workload report.", as_json=as_json)
    views = {name: _taken(view) for name, view in document["views"].items()}
    body = {"kind": document["kind"], "format": document.get("format"), "views": views}
    response = Remote(admin, token, as_json=as_json).put("/v1/workload", body, {})
    state = response.json()
    if as_json:
        print_json(state)
        return
    pins, prewarm = (sum(view[what] for view in state["views"]) for what in ("pins", "prewarm"))
    refused = sum(view["refused"] for view in state["views"])
    output.print(f"{pins:,} keys of {len(state['views'])} views are pinned in memory; {prewarm:,} are being filled.")
    if refused:
        output.print(f"{refused:,} keys do not fit the parameters of their views: the model may be outdated.")


def _taken(view: Any) -> Any:
    return {name: view[name] for name in _TAKEN if name in view} if isinstance(view, dict) else view


def _read_json(path: Path, *, as_json: bool) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        _fail(f"{path} cannot be read: {error.strerror}.", "", as_json=as_json)
    except ValueError as error:
        _fail(f"{path} is not valid JSON: {error}.", "", as_json=as_json)


def _fail(detail: str, hint: str, *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"detail": detail, "hint": hint})
    else:
        errors.print("[bold red]Error:[/]", escape(f"{detail} {hint}".strip()), soft_wrap=True)
    raise typer.Exit(1)
