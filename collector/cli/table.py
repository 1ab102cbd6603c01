"""The verdict table: one line a case, the three arms beside each other, the verdict in words."""

from __future__ import annotations

import json
import shutil
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from collector.cli.words import NOTHING, change, duration, memory, percent, ratio, span

if TYPE_CHECKING:
    from collector.cli.night import Judgement
    from collector.node.run import RunOutcome

Row = dict[str, Any]
WIDTH_WITHOUT_TERMINAL = 200
STALE_CEILING = "roofline_fraction.ceiling"
"""Among a row's reasons: a time beyond a measured ceiling (collector.node.row_times, whose import costs numpy)."""
STYLES = {"regressed": "bold dark_orange3", "improved": "dodger_blue2", "inconclusive": "medium_purple3"}


def print_table(
    outcome: RunOutcome, judgement: Judgement | None, told: dict[str, Any] | None, *, wall_s: float, store: str | None
) -> None:
    """Print the table where somebody looks; under cron one line is enough, and a failure is in it."""
    interactive = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if interactive else WIDTH_WITHOUT_TERMINAL
    console = Console(width=width, highlight=False, soft_wrap=False)
    console.print(verdict_table(outcome, judgement))
    for line in closing_lines(outcome, judgement, told, wall_s=wall_s, store=store):
        console.print(line, soft_wrap=True, markup=False)


def verdict_table(outcome: RunOutcome, judgement: Judgement | None) -> Table:
    """Naive / optimized / candidate: p50, p99; ratio candidate ÷ optimized with its interval; verdict."""
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    table.add_column("case", no_wrap=False, ratio=3)
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("p50 naive / optimized / candidate", justify="right")
    table.add_column("p99 naive / optimized / candidate", justify="right")
    table.add_column("candidate ÷ optimized", justify="right", no_wrap=True)
    table.add_column("roof", justify="right", no_wrap=True)
    table.add_column("peak memory", justify="right", no_wrap=True)
    table.add_column("verdict", ratio=3)
    for case_id, arms in by_case(outcome.rows).items():
        for candidate in [label for label in arms if label.startswith("candidate")] or ["candidate"]:
            table.add_row(*_cells(case_id, arms, candidate, judgement))
    return table


def by_case(rows: list[Row]) -> dict[str, dict[str, Row]]:
    """Rows by case and arm, in the suite's order."""
    cases: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        cases[row["case_id"]][row["arm"]] = row
    return dict(cases)


def _cells(case_id: str, arms: dict[str, Row], candidate: str, judgement: Judgement | None) -> list[Text]:
    row = arms.get(candidate, {})
    any_row = next(iter(arms.values()))
    shown = [arms.get("naive", {}), arms.get("optimized", {}), row]
    name = case_id if candidate == "candidate" else f"{case_id} · {candidate.partition(':')[2]}"
    best = row if row.get("roofline_fraction") is not None else arms.get("optimized", {})
    verdict, style = verdict_words(case_id, candidate, row, judgement)
    weight = any_row["weight"]
    return [
        Text(name),
        Text(NOTHING if weight is None else f"{100 * weight:.1f} %"),
        Text(" / ".join(duration(r.get("latency_p50_s")) for r in shown)),
        Text(" / ".join(_tail(r) for r in shown)),
        Text(ratio(row.get("ratio_optimized"), row.get("ratio_optimized_low"), row.get("ratio_optimized_high"))),
        Text(_roof(best)),
        Text(
            memory(
                row.get("peak_memory_bytes")
                if row.get("peak_memory_bytes") is not None
                else best.get("peak_memory_bytes")
            )
        ),
        Text(verdict, style=style),
    ]


def _roof(row: Row) -> str:
    """The share of the roof, with a star where the row lies beyond a measured one."""
    stale = STALE_CEILING in (row.get("null_reasons") or "")
    return percent(row.get("roofline_fraction")) + ("*" if stale else "")


def _tail(row: Row) -> str:
    """The p99, with a tilde where fewer single calls stand behind it than support it."""
    value = row.get("latency_p99_s")
    if value is None:
        return NOTHING
    supported = "latency_p99_s.support" not in (row.get("null_reasons") or "")
    return duration(value) if supported else f"~{duration(value)}"


def verdict_words(case_id: str, arm: str, row: Row, judgement: Judgement | None) -> tuple[str, str]:
    """What the table says of a case: its failure, else a finding, else tonight against history, else in this run."""
    levels = json.loads(row.get("null_reasons") or "{}").get("latency_p50_s.modes", "") if row else ""
    if row and row["status"] != "measured":
        kind = f": {row['status_kind']}" if row.get("status_kind") else ""
        return f"{row['status']}{kind} ({row['status_reason']})", "" if row["status"] == "skipped" else STYLES[
            "regressed"
        ]
    if judgement is None or judgement.reason:
        return "not judged", ""
    said = {(v["metric"], v["against"]): v for v in judgement.verdicts if v["case_id"] == case_id and v["arm"] == arm}
    finding = next((f for f in judgement.findings if case_id in f["case_ids"] and arm in f["arms"]), None)
    history, here = said.get(("latency_ratio", "history")), said.get(("latency_ratio", "optimized"))
    parts = []
    style = ""
    if finding is not None:
        word = "slower" if finding["direction"] > 0 else "faster"
        parts.append(f"{finding['state']} {change(finding['change'])} {word} than before ({finding['finding_id']})")
        style = (
            STYLES["regressed" if finding["direction"] > 0 else "improved"] if finding["state"] != "suspected" else ""
        )
    elif history is not None:
        parts.append(_against_history(history))
        style = STYLES.get(history["status"], "")
    if here is not None:
        words = {"regressed": "slower than", "improved": "faster than", "unchanged": "as fast as"}
        words["inconclusive"] = "undecided against"
        if here["status"] in words:
            parts.append(f"{words[here['status']]} optimized")
    if levels:
        parts.append(levels.partition(":")[0])
    return "; ".join(parts) or "not judged", style


def _against_history(verdict: Row) -> str:
    if verdict["status"] == "not_judged":
        return str(verdict["code"]).replace("_", " ")
    if verdict["status"] in ("regressed", "improved") and verdict["change"] is not None:
        word = "slower" if verdict["status"] == "regressed" else "faster"
        return f"{change(verdict['change'])}: {word} than before, not confirmed"
    return f"{verdict['status']} since before"


def one_line(outcome: RunOutcome, judgement: Judgement | None) -> str:
    """A night in one line: what was measured, what was not, what is slower."""
    bad = [
        f"{row['case_id']} {row['arm']} {row['status']}" for row in outcome.rows if row["status"] in ("wrong", "failed")
    ]
    rows = [row for row in outcome.rows if row["status"] == "measured"]
    parts = [f"{outcome.run_id}: {len(rows)} of {len(outcome.rows)} rows measured on {outcome.identity.model}"]
    if outcome.status == "partial":
        parts.append("PARTIAL: the run was interrupted")
    if outcome.beside.startswith("The sentinel took no part"):
        parts.append(outcome.beside.rstrip("."))
    if bad:
        parts.append(f"{len(bad)} wrong or failed, first {bad[0]}")
    if judgement is None or judgement.reason:
        parts.append(judgement.reason if judgement else "not judged")
    else:
        parts += [f"{f['finding_id']} {f['state']}: {f['sentence']}" for f in judgement.findings]
        parts += [] if judgement.findings else ["no open finding"]
    return "; ".join(parts)


def closing_lines(
    outcome: RunOutcome, judgement: Judgement | None, told: dict[str, Any] | None, *, wall_s: float, store: str | None
) -> list[str]:
    """The sums under the table: what was measured, what failed, how long it took, what was said.

    `store` is None where the run has not reached it.
    """
    counts: dict[str, int] = defaultdict(int)
    for row in outcome.rows:
        counts[row["status"]] += 1
    cases = by_case(outcome.rows)
    measured = sum(any(r["status"] == "measured" for r in arms.values()) for arms in cases.values())
    parts = ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
    partial = " PARTIAL: the run was interrupted" if outcome.status == "partial" else ""
    lines = [
        "",
        f"{outcome.run_id}: {measured} of {len(cases)} cases measured on {outcome.identity.model}{partial}",
        f"Rows: {parts}.",
        f"{span(wall_s)} in all: {span(outcome.prepare_s)} to check and compile, of them {span(outcome.compile_s)} in "
        f"compilers and first calls; {span(outcome.wall_s - outcome.prepare_s)} to measure.",
        "~ marks a p99 that has fewer than 300 single calls behind it.",
    ]
    if outcome.ceilings is not None and outcome.ceilings.stale:
        lines.append(f"* {outcome.ceilings.stale}; `collector calibrate` on a quiet machine replaces it.")
    lines += [outcome.beside] if outcome.beside else []
    if judgement is not None:
        lines += [judgement.reason] if judgement.reason else []
        lines += judgement.notices
        lines += [f"{f['finding_id']} {f['state']}: {f['sentence']}" for f in judgement.findings]
    if told:
        lines += told.get("lines", [])
    if store is not None:
        lines.append(f"Store {store}; dashboard: collector dashboard --store {store}")
    return lines
