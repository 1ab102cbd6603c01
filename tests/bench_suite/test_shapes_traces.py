"""Reading length traces: the shipped ones, public column names, and everything that is no trace."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.traces import TraceColumns, read_trace, shipped_trace, trace_named


@pytest.mark.parametrize(
    ("name", "requests", "mean_input", "mean_output"),
    [
        ("azure2023_conv", 19366, 1155, 211),
        ("azure2023_code", 8819, 2048, 28),
        ("mooncake_conversation", 12031, 12035, 343),
    ],
)
def test_shipped_traces_are_whole(name: str, requests: int, mean_input: int, mean_output: int) -> None:
    """Each shipped trace has all rows of its source, with the means that were published of it, and its provenance."""
    trace = shipped_trace(name)

    assert len(trace) == requests
    assert round(float(trace.input_tokens.mean())) == mean_input
    assert round(float(trace.output_tokens.mean())) == mean_output
    assert bool((np.diff(trace.arrival_s) >= 0).all())
    assert "@" in trace.source
    assert trace.licence.startswith(("CC-BY-4.0", "Apache-2.0"))


@pytest.mark.parametrize("name", ["azure2023_conv", "azure2023_code", "mooncake_conversation"])
def test_shipped_files_have_the_stated_sha256(name: str) -> None:
    """The index states the hash of the file that is there."""
    folder = resources.files("configs") / "traces"

    content = (folder / f"{name}.csv").read_bytes()

    assert shipped_trace(name).sha256 == hashlib.sha256(content).hexdigest()
    assert hashlib.sha256(content).hexdigest() in (folder / "traces.toml").read_text()


def test_azure_columns_are_recognised(tmp_path: Path) -> None:
    """A file as Azure publishes it needs no option; its dates become seconds since the first request."""
    path = tmp_path / "azure.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319569,3180,8\n"
    )

    trace = read_trace(path)

    assert trace.arrival_s.tolist() == pytest.approx([0.0, 0.0519969], abs=1e-6)
    assert trace.input_tokens.tolist() == [4808, 3180]
    assert trace.output_tokens.tolist() == [10, 8]


def test_mooncake_lines_are_recognised(tmp_path: Path) -> None:
    """JSON lines in milliseconds are read in seconds, sorted by arrival."""
    path = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": 3000, "input_length": 7, "output_length": 2},
        {"timestamp": 0, "input_length": 9, "output_length": 4},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows))

    trace = read_trace(path)

    assert trace.arrival_s.tolist() == [0.0, 3.0]
    assert trace.input_tokens.tolist() == [9, 7]


def test_columns_by_option_and_a_rate_instead_of_arrivals(tmp_path: Path) -> None:
    """Any column names will do; without arrival times a seeded Poisson process of the given rate stands in."""
    path = tmp_path / "mine.csv"
    path.write_text("prompt,answer\n" + "10,2\n" * 4000)
    columns = TraceColumns(arrival=None, input_tokens="prompt", output_tokens="answer")

    trace = read_trace(path, columns, requests_per_s=5.0, seed=3)

    assert len(trace) == 4000
    assert trace.arrival_s[-1] == pytest.approx(800, rel=0.1)
    assert np.array_equal(trace.arrival_s, read_trace(path, columns, requests_per_s=5.0, seed=3).arrival_s)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no requests in it"),
        ("arrival_s,input_tokens,output_tokens\n", "no requests in it"),
        ("a,b\n1,2\n", "columns are a, b; name those"),
        (
            "arrival_s,input_tokens,output_tokens\n0,0,5\n",
            "request 1: input_tokens is '0', must be a whole number >= 1",
        ),
        ("arrival_s,input_tokens,output_tokens\n0,9,5\n1,9,x\n", "request 2: output_tokens is 'x', must be"),
        ("arrival_s,input_tokens,output_tokens\nnan,9,5\n", "request 1: arrival_s is 'nan', is no time"),
        ("arrival_s,input_tokens,output_tokens\n0,9\n", "request 1: output_tokens is None, must be"),
    ],
)
def test_what_is_no_trace_gets_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    """The message names the file, the request, the value and the rule, on one line."""
    path = tmp_path / "bad.csv"
    path.write_text(text)

    with pytest.raises(ShapeError) as caught:
        read_trace(path)

    assert complaint in str(caught.value)
    assert "bad.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_names_list_the_known(tmp_path: Path) -> None:
    """A name that is not shipped lists those that are; a path that is not there says so."""
    with pytest.raises(ShapeError, match="must be one of azure2023_code, azure2023_conv, mooncake_conversation"):
        trace_named("azure2024")
    with pytest.raises(ShapeError, match="cannot be read"):
        trace_named(str(tmp_path / "none.csv"))


def test_a_slice_starts_at_zero() -> None:
    """Part of a trace counts time from its own first request and keeps its provenance; an empty part is refused."""
    trace = shipped_trace("azure2023_code")

    part = trace.slice(100, 200)

    assert len(part) == 100
    assert part.arrival_s[0] == 0.0
    assert part.source == trace.source
    with pytest.raises(ShapeError, match="must be a part that is not empty"):
        trace.slice(5, 5)
