"""What the compiler makes of every Triton kernel for every chip; how long that, and importing a long trace, take.

    python benchmarks/static.py            # writes benchmarks/results/static-DATE.md

Static metrics are exact on any machine. Times are not: the load beside them says what they are worth; CPU seconds of
the compiling process and its children say more than wall time on a machine that others use.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench_suite.static import CHIPS, StaticMetrics, measure_static

HERE = Path(__file__).parent
GOAL_S = 180.0
"""All kernels for all chips."""
TRACE_BYTES = 100_000_000
TRACE_GOAL_S, TRACE_GOAL_BYTES = 20.0, 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a piece of work took."""

    wall_s: float
    cpu_s: float
    """Of this process and of the children that it has waited for."""
    load: float
    """Processes that wanted a core, mean of the last minute, at the end."""


def spent(work: Callable[[], object]) -> Spent:
    begun_s, cpu_s = time.monotonic(), _cpu_s()
    work()
    return Spent(wall_s=time.monotonic() - begun_s, cpu_s=_cpu_s() - cpu_s, load=os.getloadavg()[0])


def _cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    found: list[StaticMetrics] = []
    taken = spent(lambda: found.extend(measure_static()))
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    lines = [*page_of(found, taken, today), *_imported()]
    text = "\n".join(lines) + "\n"
    (HERE / "results" / f"static-{today}.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


def page_of(found: Sequence[StaticMetrics], taken: Spent, today: str) -> Iterator[str]:
    """The lines of the result's page."""
    failed = [metrics for metrics in found if metrics.failure]
    yield f"# Static metrics of the Triton kernels, {today}"
    yield ""
    yield (
        f"`python benchmarks/static.py`: {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{found[0].compiler}, bf16. No GPU."
    )
    yield ""
    yield (
        f"{len(found)} binaries ({len(found) - len(failed)} compiled, {len(failed)} refused) for {len(CHIPS)} chips in "
        f"{taken.cpu_s:.0f} CPU seconds, {taken.wall_s:.0f} s of wall time at a load of {taken.load:.1f} on "
        f"{os.cpu_count()} cores; the goal is {GOAL_S:.0f} s. One process compiles one kernel after the other: on an "
        f"idle core the wall time is the CPU time."
    )
    yield ""
    yield "Registers a thread, shared memory of a block in KiB, `s`: spills, `m`: matrix instructions."
    yield ""
    yield f"| operator | kernel | {' | '.join(CHIPS)} |"
    yield "|---|---|" + "---|" * len(CHIPS)
    cells = {(metrics.variant, metrics.chip): metrics for metrics in found}
    for operator, variant in dict.fromkeys((m.operator, m.variant) for m in found):
        row = [_cell(cells.get((variant, chip))) for chip in CHIPS]
        yield f"| {operator} | {variant.replace('[', ' [')} | {' | '.join(row)} |"
    yield ""
    yield "– where a chip gets another configuration, or has no bulk copies. Not measured: how fast any of this runs."
    yield ""


def _cell(metrics: StaticMetrics | None) -> str:
    if metrics is None:
        return "–"
    if metrics.failure:
        return metrics.failure.split(":")[0]
    words = f"{metrics.registers} r, {metrics.shared_bytes / 1024:.0f} K"
    words += f", {metrics.spills} s" if metrics.spills else ""
    return words + (f", {metrics.matrix_instructions} m" if metrics.matrix_instructions else "")


def _imported() -> Iterator[str]:
    """A Kineto trace of 100 MB, made here, through `collector shapes import` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        trace, shapes = Path(folder) / "trace.json", Path(folder) / "shapes.toml"
        events = write_trace(trace)
        command = [sys.executable, "-m", "collector.cli.main", "shapes", "import", str(trace), "--out", str(shapes)]
        begun_s = time.monotonic()
        child = os.spawnve(os.P_NOWAIT, sys.executable, [*command, "--most", "0"], dict(os.environ))
        _, status, usage = os.wait4(child, 0)
        wall_s, size = time.monotonic() - begun_s, trace.stat().st_size
    yield f"## A Kineto trace of {size / 1e6:.0f} MB, {events:,} events"
    yield ""
    yield (
        f"`collector shapes import` ended with {os.waitstatus_to_exitcode(status)} after "
        f"{usage.ru_utime + usage.ru_stime:.1f} CPU seconds, {wall_s:.1f} s of wall time at a load of "
        f"{os.getloadavg()[0]:.1f}, with {usage.ru_maxrss / 2**10:,.0f} MiB at most; goals {TRACE_GOAL_S:.0f} s and "
        f"{TRACE_GOAL_BYTES / 2**20:,.0f} MiB."
    )


def write_trace(path: Path) -> int:
    """Operators with shapes, each with the kernel that it launched, until the file has TRACE_BYTES; how many events."""
    number = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        while file.tell() < TRACE_BYTES:
            file.write("".join(f"{json.dumps(event)},\n" for n in range(500) for event in _events(number // 3 + n)))
            number += 1500
        file.write('{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}\n]}\n')
    return number


def _events(n: int) -> Iterator[dict[str, object]]:
    """aten::mm of one of 97 sizes, the call that launched its kernel, and the kernel."""
    at_us, rows = 30.0 * n, 16 * (1 + n % 97)
    sizes = {"Input Dims": [[rows, 4096], [4096, 6144]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    common = {"ph": "X", "pid": 1, "tid": 1}
    arguments = {"External id": n + 1, "Record function id": 0, "Sequence number": n, "Fwd thread id": 0, **sizes}
    yield common | {"cat": "cpu_op", "name": "aten::mm", "ts": at_us, "dur": 12.0, "args": arguments}
    launch = {"External id": n + 1, "cbid": 211, "correlation": n + 1}
    yield common | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at_us + 2, "dur": 4.0, "args": launch}
    kernel = {"External id": n + 1, "correlation": n + 1, "device": 0, "stream": 7, "registers per thread": 128}
    yield {
        "ph": "X", "cat": "kernel", "name": "sm90_xmma_gemm_bf16bf16_bf16f32", "pid": 0, "tid": 7,
        "ts": at_us + 8, "dur": 10.0 + rows / 100, "args": kernel,
    }  # fmt: skip


if __name__ == "__main__":
    main()
