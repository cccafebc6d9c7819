"""``upquery workload …``: a model of what is read, from the access log; and what a service is to do with it.

Not here: the model (`dataflow.spark.workload`), what a service does with it (`service.workload`).
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

workload_app = typer.Typer(help="What is read, what memory is worth, which keys are hot.", no_args_is_help=True)
output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

#: What a service said of itself, as it is kept beside the model.
MEASURED = "measured.json"
#: Of a model, what a service takes.
_TAKEN = ("budget_bytes", "prewarm", "pin")


@workload_app.command("report")
def report_workload(
    log: Annotated[Path, typer.Option("--log", help="The folder of the access log: [access_log] path.")],
    service: Annotated[
        str | None, typer.Option("--service", help="The admin port of the service: sizes, changes and lookups.")
    ] = None,
    measured: Annotated[Path | None, typer.Option(help="What a service said before: a measured.json.")] = None,
    out: Annotated[Path, typer.Option("--out", help="The folder for model.json and report.html.")] = Path("workload"),
    last: Annotated[Path | None, typer.Option(help="The last model.json, to see what has changed.")] = None,
    budget: Annotated[
        str | None, typer.Option(help="Figures for another budget than the service's, 512MiB say.")
    ] = None,
    policy: Annotated[str, typer.Option(help="The eviction policy, as in [engine] eviction.")] = "s3-fifo",
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
    memory: Annotated[str, typer.Option(help="Heap of Spark's driver.")] = "1g",
    reads: Annotated[int, typer.Option(min=1_000, help="Reads that are looked at one by one, at most.")] = 200_000,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Model an access log: skew, what memory is worth, hot keys; a page for people and a file for the service."""
    if service is not None and measured is not None:
        raise typer.BadParameter("give --service or --measured, not both", param_hint="--measured")
    documents = _documents(service, measured, token, as_json=as_json)
    try:
        model = _report(log, out, documents, last, budget, policy, master, memory, reads)
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
        f"{model.lines:,} reads of {len(model.views)} views. {escape(str(out / 'report.html'))} is for people;"
        f" upquery workload apply {escape(str(out / 'model.json'))} is for the service.",
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
    policy: str,
    master: str,
    memory: str,
    reads: int,
) -> Any:
    from pydantic import ByteSize, TypeAdapter

    from dataflow.eviction.policies import POLICIES
    from dataflow.spark.session import check_packages, session
    from dataflow.spark.workload.log import Bounds
    from dataflow.spark.workload.report import Wanted, check, report

    if policy not in POLICIES:
        raise typer.BadParameter(f"{policy!r} is none of {', '.join(POLICIES)}", param_hint="--policy")
    try:
        budget_bytes = None if budget is None else int(TypeAdapter(ByteSize).validate_python(budget))
    except ValueError:
        raise typer.BadParameter(f"{budget!r} is no number of bytes", param_hint="--budget") from None
    bounds = Bounds(reads=reads, keys=max(1_000, reads // 3))
    wanted = Wanted(log, out, documents, last, policy, budget_bytes, bounds)
    # What can be seen without Spark need not wait for it.
    check(wanted)
    check_packages()
    spark = session("upquery workload", master, memory=memory)
    try:
        return report(spark, wanted)
    finally:
        spark.stop()


@workload_app.command("apply")
def apply_workload(
    model: Annotated[Path, typer.Argument(help="A model.json of upquery workload report.")],
    admin: AdminOption = ADMIN_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a service pin and fill the hot keys of a model, now and after each restart."""
    document = _read_json(model, as_json=as_json)
    if not isinstance(document, dict) or not isinstance(document.get("views"), dict) or "kind" not in document:
        _fail(f"{model} is no workload model.", "upquery workload report writes one.", as_json=as_json)
    views = {name: _taken(view) for name, view in document["views"].items()}
    body = {"kind": document["kind"], "format": document.get("format"), "views": views}
    response = Remote(admin, token, as_json=as_json).put("/v1/workload", body, {})
    state = response.json()
    if as_json:
        print_json(state)
        return
    pins, prewarm = (sum(view[what] for view in state["views"]) for what in ("pins", "prewarm"))
    refused = sum(view["refused"] for view in state["views"])
    output.print(f"{pins:,} keys of {len(state['views'])} views stay in memory, and {prewarm:,} are being filled.")
    if refused:
        output.print(f"{refused:,} keys are none of their views: the model may be old.")


def _taken(view: Any) -> Any:
    return {name: view[name] for name in _TAKEN if name in view} if isinstance(view, dict) else view


def _read_json(path: Path, *, as_json: bool) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        _fail(f"{path} cannot be read: {error.strerror}.", "", as_json=as_json)
    except ValueError as error:
        _fail(f"{path} is no JSON: {error}.", "", as_json=as_json)


def _fail(detail: str, hint: str, *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"detail": detail, "hint": hint})
    else:
        errors.print("[bold red]Error:[/]", escape(f"{detail} {hint}".strip()), soft_wrap=True)
    raise typer.Exit(1)
