"""Collectives on real gloo ranks: two spawned processes that meet at a file."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TIME_LIMIT_S = 120

RANK = """
import datetime, json, sys
import torch, torch.distributed as dist
from bench_suite.contract import DType, Phase
from bench_suite.contracts import CONTRACTS
from bench_suite.operators.compare import verify
from bench_suite.operators.registry import operator

rank, ranks, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
limit = datetime.timedelta(seconds=60)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks, timeout=limit)
rows = []
for contract in CONTRACTS.values():
    if not contract.collective:
        continue
    op = operator(contract.operator)
    large = [{"ranks": 2, "elements": 1 << 18}] if contract.sensitivity.startswith("the order") else []
    for axes in (*contract.edge_cases, *large):
        sized = {**axes, "ranks": ranks, "elements": axes["elements"] * ranks // 2}
        for dtype in (DType.FP32, DType.BF16):
            case = contract.case(sized, dtype, Phase.DECODE)
            every = [op.make_inputs(case, 5, "cpu", rank=r) for r in range(ranks)]
            kept = [t.clone() for t in every[rank]]
            reference = op.reference(case, every, rank)
            for implementation in op.implementations("cpu"):
                output = implementation.prepare(case, torch.device("cpu"))(*every[rank])
                found = verify(contract, case, output, reference)
                unchanged = all(torch.equal(a, b) for a, b in zip(kept, every[rank], strict=True))
                outputs = output if isinstance(output, tuple) else (output,)
                shared = bool({t.data_ptr() for t in outputs} & {t.data_ptr() for t in every[rank]})
                rows.append([case.case_id, implementation.name, found.ok and unchanged and not shared, found.reason])
dist.barrier()
dist.destroy_process_group()
print(json.dumps(rows))
"""


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_agree_with_the_reference(tmp_path: Path, ranks: int) -> None:
    """Every implementation of every collective is right on real ranks, allocates its result, leaves its input alone.

    Those that add are asked for half a million sums as well, of which the worst is far out.
    """
    command = [sys.executable, "-c", textwrap.dedent(RANK)]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(ranks), str(tmp_path / "meeting")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for rank in range(ranks)
    ]
    try:
        ends = [process.communicate(timeout=TIME_LIMIT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (out, err) in zip(processes, ends, strict=True):
        assert process.returncode == 0, err
        rows = json.loads(out.splitlines()[-1])
        assert len(rows) == 98  # implementations x shapes x 2 dtypes, of six operators
        assert [row for row in rows if not row[2]] == []
