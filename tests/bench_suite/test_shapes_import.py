"""Importing what runs recorded: every sample, and everything that is none."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench_suite.contract import DType, Phase
from bench_suite.contracts import CONTRACTS
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.importers.files import import_shapes
from bench_suite.shapes.importers.recording import RecordedShape, Recording
from bench_suite.shapes.importers.weigh import weigh
from bench_suite.shapes.listing import read_list, write_list

SAMPLES = Path(__file__).parents[1] / "data" / "recordings"


def sample(name: str, **options: Any) -> Recording:
    return import_shapes(next(SAMPLES.glob(f"{name}*")), **options)


def calls(recording: Recording, operator: str) -> int:
    return sum(shape.calls for shape in recording.shapes if shape.operator == operator)


def timed(recording: Recording, *operators: str) -> int:
    """Calls of shapes that have device time."""
    return sum(s.calls for s in recording.shapes if s.operator in operators and s.time_s is not None)


@pytest.mark.parametrize(
    ("name", "format_name", "found"),
    [
        ("kineto_dlrm_8xgpu_rank0_2023", "kineto", {"gemm": 20, "batched_gemm": 3, "all_to_all": 5, "all_reduce": 3}),
        (
            "kineto_sampled_rank0_mixed_2023",
            "kineto",
            {
                "gemm": 338,
                "batched_gemm": 40,
                "layer_norm": 29,
                "softmax": 2,
                "all_reduce": 4,
                "all_to_all": 4,
                "all_gather": 2,
            },
        ),
        ("kineto_mi250_rocm62_2024", "kineto", {"gemm": 2}),
        (
            "kineto_torch2.13",
            "kineto",
            {
                "gemm": 4,
                "batched_gemm": 2,
                "attention_prefill": 2,
                "attention_decode": 2,
                "all_reduce": 2,
                "all_gather": 2,
            },
        ),
        ("et_1.0.1_dlrm", "execution_trace", {"gemm": 20, "batched_gemm": 3}),
        ("et_1.1.0_hf_gpt2", "execution_trace", {"gemm": 435, "batched_gemm": 216, "softmax": 36}),
        ("et_1.1.0_resnet_2gpu", "execution_trace", {"gemm": 9, "all_reduce": 15, "broadcast": 6}),
        (
            "et_torch2.13",
            "execution_trace",
            {"gemm": 4, "batched_gemm": 2, "attention_prefill": 2, "attention_decode": 2},
        ),
        (
            "nccl_debug_coll",
            "nccl_log",
            {"all_reduce": 5, "all_gather": 1, "reduce_scatter": 1, "broadcast": 3, "send": 1, "recv": 1},
        ),
    ],
)
def test_samples_import(name: str, format_name: str, found: dict[str, int]) -> None:
    """Each sample's format is recognised and its leaf operators are counted once each."""
    recording = sample(name)

    assert recording.format == format_name
    assert {operator: calls(recording, operator) for operator in {s.operator for s in recording.shapes}} == found


def test_device_time_joins_by_launch_and_by_external_id() -> None:
    """CUDA of 2023 joins through the launching thread, 23 of 23 and 377 of 378 calls; ROCm by either rule."""
    assert timed(sample("kineto_dlrm_8xgpu_rank0_2023"), "gemm", "batched_gemm") == 23
    assert timed(sample("kineto_sampled_rank0_mixed_2023"), "gemm", "batched_gemm") >= 377
    assert timed(sample("kineto_mi250_rocm62_2024"), "gemm") == 2


def test_external_id_joins_where_no_launch_is_recorded(tmp_path: Path) -> None:
    """A kernel that carries its operator's External id needs no runtime event."""
    path = write(tmp_path / "t.json", events=[mm(1, 0.0, external=7), kernel(external=7, duration=3.0)])

    assert import_shapes(path).shapes[0].time_s == pytest.approx(3e-6)


def test_a_launch_outside_every_call_joins_none(tmp_path: Path) -> None:
    """A launch on another thread, or after the call has ended, is not the call's."""
    launches = [launch(correlation=5, tid=1, ts=99.0), launch(correlation=6, tid=2, ts=1.0)]
    kernels = [kernel(correlation=5, duration=3.0), kernel(correlation=6, duration=3.0)]

    recording = import_shapes(write(tmp_path / "t.json", events=[mm(1, 0.0), *launches, *kernels]))

    assert recording.shapes[0].time_s is None


def mm(tid: int, ts: float, external: int = 1) -> dict[str, Any]:
    args = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["c10::Half", "c10::Half"], "External id": external}
    return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": tid, "ts": ts, "dur": 10.0, "args": args}


def launch(*, correlation: int, tid: int, ts: float) -> dict[str, Any]:
    args = {"correlation": correlation}
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "tid": tid,
        "ts": ts,
        "dur": 1.0,
        "args": args,
    }


def kernel(*, duration: float, correlation: int = 0, external: int = 0) -> dict[str, Any]:
    args = {"correlation": correlation, "External id": external}
    return {"ph": "X", "cat": "kernel", "name": "sm90_gemm", "tid": 7, "ts": 50.0, "dur": duration, "args": args}


def write(path: Path, *, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_messages_of_a_log_are_total_buffers() -> None:
    """Gathers and scatters log the part of one rank; a line of two processes holds one message; one rank sends none."""
    recording = sample("nccl_debug_coll")
    sizes = {(s.operator, dict(s.axes)["ranks"], dict(s.axes)["elements"]) for s in recording.shapes}

    assert ("all_gather", 2, 2 * 2581304) in sizes
    assert ("reduce_scatter", 2, 2 * 2444880) in sizes
    assert ("all_reduce", 128, 6654032) in sizes
    assert ("broadcast", 8, 72) in sizes
    assert ("broadcast", 8, 20433352) in sizes
    assert recording.skipped == (("all_reduce: one rank, nothing is sent", 1),)


def test_ranks_can_be_given_where_none_are_recorded() -> None:
    """Schema 1.0 of execution traces names no group size: collectives are skipped for it, or take the option."""
    without, with_ranks = sample("et_1.0.1_dlrm"), sample("et_1.0.1_dlrm", ranks=8)

    assert ("all_reduce: number of ranks not recorded, give it", 3) in without.skipped
    assert calls(with_ranks, "all_reduce") == 3
    assert all(dict(s.axes)["ranks"] == 8 for s in with_ranks.shapes if s.operator.startswith("all_"))


def test_a_trace_without_sizes_says_how_to_record_them() -> None:
    """Nine GEMMs without sizes are an error, unless what there is was asked for."""
    with pytest.raises(ShapeError, match=r"9 of 9 operator calls have no sizes; record with .*record_shapes=True"):
        sample("kineto_nccl_meta")

    partial = sample("kineto_nccl_meta", partial=True)

    assert partial.skipped == (("gemm: no sizes recorded", 9),)
    assert calls(partial, "all_reduce") == 15


def test_input_logs_are_read(tmp_path: Path) -> None:
    """Counts, types and strides of an operator input log; operators without a contract are passed over."""
    path = tmp_path / "model_training.txt"
    path.write_text(
        "Operator: aten.addmm.default\n"
        "cnt: 24, ((T([768], bf16), T([512, 3072], bf16), T([3072, 768], bf16, stride=(1, 3072))), {})\n"
        "Operator: aten.bmm.default\ncnt: 3, ((T([12, 64, 32], f16), T([12, 32, 64], f16)), {})\n"
        "Operator: aten.convolution.default\ncnt: 9, ((T([1, 3, 8, 8], f16),), {})\n"
    )

    assert import_shapes(path).shapes == (
        RecordedShape(operator="gemm", dtype="bf16", axes=(("M", 512), ("N", 768), ("K", 3072)), calls=24),
        RecordedShape(
            operator="batched_gemm", dtype="fp16", axes=(("batch", 12), ("M", 64), ("N", 64), ("K", 32)), calls=3
        ),
    )


def test_names_of_people_and_machines_stay_behind(tmp_path: Path) -> None:
    """What a trace says of host, user and job is in no field of the recording and in no list made of it."""
    secret = "alice-workstation"
    events = [mm(1, 0.0)]
    events[0]["args"]["Call stack"] = f"/home/{secret}/train.py"
    path = tmp_path / f"{secret}.json"
    path.write_text(
        json.dumps(
            {"hostname": secret, "traceEvents": [*events, {"ph": "M", "name": secret, "args": {"name": secret}}]}
        )
    )

    recording = import_shapes(path)

    assert secret not in repr(recording)
    assert secret not in write_list(weigh(recording, 5))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"hello", "format not recognised, must be one of kineto, execution_trace, nccl_log, input_log"),
        (b'{"traceEvents": [', "kineto trace: Input data was truncated"),
        (b'{"traceEvents": []}', "no operator of known shape in it"),
        (b'{"schema": "0.9", "nodes": []}', "schema is '0.9', must be 1.0.x or 1.1.x"),
        (b'{"schema": "1.1.0", "nodes": []}', "no operator of known shape in it"),
        (b"NCCL INFO AllReduce: opCount", "set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL"),
        (b"Operator: aten.mm.default\ncount: 3\n", "line 2 is 'count: 3', must be"),
        (gzip.compress(b"hello" * 99, mtime=0)[:-9], "cannot be read"),
    ],
)
def test_what_is_no_recording_gets_one_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    """The message names the file, what is wrong and what would be right, on one line."""
    path = tmp_path / "recorded"
    path.write_bytes(content)

    with pytest.raises(ShapeError) as caught:
        import_shapes(path)

    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["kineto_sampled_rank0_mixed_2023", "kineto_torch2.13", "et_1.1.0_hf_gpt2"])
def test_recordings_become_lists_that_a_suite_can_take(tmp_path: Path, name: str) -> None:
    """The heaviest shapes with shares and coverage survive writing and reading; known operators are valid cases."""
    shapes = weigh(sample(name), 6)
    path = tmp_path / "list.toml"
    path.write_text(write_list(shapes))

    assert write_list(read_list(path)) == path.read_text()
    assert sum(shape.weight_time for shape in shapes.shapes) == pytest.approx(shapes.coverage_time)
    assert [s.weight_time for s in shapes.shapes] == sorted((s.weight_time for s in shapes.shapes), reverse=True)
    for shape in shapes.shapes:
        if shape.operator in CONTRACTS:
            case = CONTRACTS[shape.operator].case(dict(shape.axes), DType.FP32, Phase(shape.phase))
            assert case.axes == shape.axes


def test_an_unknown_dtype_lists_the_recorded() -> None:
    """A list is of one element type; one that was not recorded is refused."""
    assert weigh(sample("kineto_torch2.13"), 3, dtype="bf16").shapes[0].operator == "gemm"
    with pytest.raises(ShapeError, match="no shape of dtype 'fp16' in it, must be one of bf16, fp32"):
        weigh(sample("kineto_torch2.13"), 3, dtype="fp16")


@pytest.mark.long
def test_a_hundred_megabytes_fit_into_one_gigabyte(tmp_path: Path) -> None:
    """A trace of 100 MB imports in a process that may not grow beyond 1 GB."""
    path = tmp_path / "large.json"
    with path.open("w") as file:
        file.write('{"traceEvents": [')
        for i in range(220_000):
            args = {"External id": i, "Call stack": "x" * 150, "Input Dims": [[i % 97 + 1, 64], [64, 32]],
                    "Input type": ["float", "float"], "Concrete Inputs": ["", ""]}  # fmt: skip
            event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 20.0 * i, "dur": 9.0}
            file.write(json.dumps(event | {"args": args}) + ",")
        file.write(json.dumps(mm(1, 1e9)) + "]}")
    assert path.stat().st_size > 80e6
    script = (
        "import resource; from pathlib import Path; from bench_suite.shapes.importers.files import import_shapes\n"
        f"r = import_shapes(Path({str(path)!r})); assert r.calls == 220_001 and len(r.shapes) == 98\n"
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1e6, resource.getrusage(resource.RUSAGE_SELF)\n"
    )

    child = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )

    assert child.returncode == 0, child.stderr
