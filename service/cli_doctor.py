"""What ``upquery doctor`` prints: a table of findings, each with what repairs it."""

from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.cli_views import print_json
from service.doctor import Examination
from service.upstream.words import Finding

output = Console(highlight=False)


def show(found: Examination, *, as_json: bool) -> None:
    """All findings, what is in the way first."""
    findings = sorted(found.findings, key=lambda finding: not finding.fatal)
    if as_json:
        fixed = [asdict(finding) for finding in found.fixed]
        print_json({"healthy": found.healthy, "findings": [asdict(f) for f in findings], "fixed": fixed})
        return
    for finding in found.fixed:
        output.print(f"[green]fixed[/]  {escape(finding.fix or finding.reason)}", soft_wrap=True)
    if findings:
        output.print(_table(findings))
    if found.healthy:
        output.print("[bold green]Nothing is in the way.[/]")
    else:
        count = sum(finding.fatal for finding in findings)
        output.print(f"[bold red]{count} {'thing is' if count == 1 else 'things are'} in the way.[/]")


def _table(findings: list[Finding]) -> Table:
    table = Table("", "what", "about", "finding, and what repairs it")
    for finding in findings:
        text = escape(finding.reason) + (f"\n[bold]{escape(finding.fix)}[/]" if finding.fix else "")
        mark = "[red]in the way[/]" if finding.fatal else "[yellow]warning[/]"
        table.add_row(mark, finding.code, escape(finding.table or "server"), text)
    return table
