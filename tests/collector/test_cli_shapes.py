"""`collector shapes`: from traces and recordings to lists, and lists shown, in one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bench_suite.shapes.listing import read_list, write_list
from bench_suite.shapes.shipped import ALL_RECIPES, shipped_list, shipped_text
from bench_suite.suite import load_suite
from collector.cli.main import app
from collector.errors import exit_code

QUICK = "llama-3.1-8b_tp1_azure2023-conv_load1_budget2048"
RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "kineto_torch2.13_cpu_gloo_attention.json.gz"
COLUMNS = ("--input-tokens", "prompt", "--output-tokens", "answer")
TINY_MODEL = """
[tiny]
layers = 2
hidden = 256
heads = 4
kv_heads = 2
head_dim = 64
ffn = 512
vocab = 1024
"""


def shapes(*arguments: str | Path) -> Result:
    """`collector shapes ...`, in this process."""
    return CliRunner().invoke(app, ["shapes", *map(str, arguments)])


def document(result: Result) -> Any:
    """The one JSON document that a command printed, which was to succeed."""
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def refusal(result: Result) -> str:
    """The message of the error, of exit code 2; nothing was printed."""
    assert result.exception is not None
    assert exit_code(result.exception) == 2, repr(result.exception)
    assert result.stdout == ""
    return str(result.exception)


@pytest.fixture
def requests_file(tmp_path: Path) -> Path:
    """Forty requests with the column names of some other tool, and no times."""
    lines = ["prompt,answer", *[f"{100 + 7 * i},{5 + i % 9}" for i in range(40)]]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def models_file(tmp_path: Path) -> Path:
    """A model of one's own."""
    path = tmp_path / "models.toml"
    path.write_text(TINY_MODEL)
    return path


def test_names_are_listed() -> None:
    """Traces, models, chips and lists that ship, as JSON and for a person."""
    known = document(shapes("list", "--json"))

    assert "azure2023_conv" in known["traces"]
    assert "llama-3.1-8b" in known["models"]
    assert known["lists"] == list(ALL_RECIPES)
    assert f"  {QUICK}" in shapes("list").stdout.splitlines()


def test_a_trace_of_ones_own_with_a_model_of_ones_own(requests_file: Path, models_file: Path, tmp_path: Path) -> None:
    """Columns by option and a rate for the times: the list is written in canonical form, and derived again from the
    same arguments it has the same bytes."""
    mine: list[str | Path] = ["--trace", requests_file, *COLUMNS, "--rate", "3"]
    mine += ["--model", "tiny", "--models", models_file, "--tp", "2", "-k", "14"]
    out = tmp_path / "mine.toml"

    found = document(shapes("derive", *mine, "--out", out, "--json"))

    assert found["origin"]["trace"] == "log"
    assert (found["origin"]["model"], found["origin"]["tensor_parallel"]) == ("tiny", 2)
    assert len(found["shapes"]) <= 14
    assert write_list(read_list(out)) == out.read_text()
    again = tmp_path / "again.toml"
    lines = shapes("derive", *mine, "--out", again, "--most", "3").stdout.splitlines()
    assert again.read_bytes() == out.read_bytes()
    assert "log, tiny tp2, budget 2048, load 1, padding none" in lines[0]
    assert lines[-1].endswith(f"in {len(found['shapes']) - 3} more")


def test_other_arrivals_are_another_list(requests_file: Path, models_file: Path) -> None:
    """The seed of the arrivals and the load change what ran."""
    mine: list[str | Path] = ["--trace", requests_file, *COLUMNS, "--rate", "500"]
    mine += ["--model", "tiny", "--models", models_file, "-k", "14", "--json"]

    passes = [document(shapes("derive", *mine, *more))["origin"]["passes"] for more in ([], ["--load", "1000"])]

    assert passes[0] > passes[1]


def test_a_shipped_list_is_reproduced_byte_for_byte(tmp_path: Path) -> None:
    """`derive --shipped NAME` writes the shipped bytes and says so."""
    done = shapes("derive", "--shipped", QUICK, "--out", tmp_path / "list.toml")

    assert done.exit_code == 0, done.exception
    assert done.stdout.splitlines()[-1] == "equal to the shipped list, byte for byte"
    assert (tmp_path / "list.toml").read_bytes() == shipped_text(QUICK).encode()


def test_a_list_that_differs_exits_1(monkeypatch: pytest.MonkeyPatch, requests_file: Path) -> None:
    """Where deriving no longer gives the shipped bytes it is said, with exit code 1."""
    from bench_suite.shapes import shipped

    monkeypatch.setattr(shipped, "shipped_text", lambda name: "something older\n")
    monkeypatch.setattr(shipped.Recipe, "derive", lambda recipe: shipped_list(recipe.name))

    done = shapes("derive", "--shipped", QUICK)

    assert done.exit_code == 1
    assert "NOT equal" in done.stdout


def test_a_list_is_shown() -> None:
    """Provenance, coverage, error and the heaviest shapes; as JSON everything that the file has."""
    lines = shapes("show", QUICK, "--most", "2").stdout.splitlines()

    assert lines[0] == shipped_list(QUICK).origin.summary
    assert "32 shapes" in lines[1]
    assert "error" in lines[2]
    assert "M=6 N=28672 K=4096" in lines[4]
    assert lines[-1].endswith("in 30 more")
    assert len(document(shapes("show", QUICK, "--json"))["shapes"]) == 32


def test_lists_are_compared(tmp_path: Path) -> None:
    """A shipped list and a file; what differs in their making and in their time is said."""
    other = "llama-3.1-8b_tp1_azure2023-conv_load4_budget2048"
    file = tmp_path / "other.toml"
    file.write_text(shipped_text(other))

    found = document(shapes("compare", QUICK, file, "--json"))
    lines = shapes("compare", QUICK, file).stdout.splitlines()

    assert ["load", "1.0", "4.0"] in found["settings"]
    assert "  load: 1.0 | 4.0" in lines
    assert f"{100 * found['distance']:.1f} % of the time lies with other operators" in lines


def test_a_recording_becomes_a_list_that_a_suite_takes(tmp_path: Path) -> None:
    """The heaviest shapes of a profiler trace are written as a list, and a suite file can name it."""
    out = tmp_path / "recorded.toml"

    found = document(shapes("import", RECORDING, "-k", "3", "--out", out, "--json"))

    assert (found["origin"]["format"], len(found["shapes"])) == ("kineto", 3)
    assert write_list(read_list(out)) == out.read_text()
    suite = tmp_path / "mine.toml"
    head = '[suite]\nname = "mine"\nsummary = "s"\nversion = 1\nseed = 1\n'
    suite.write_text(f'{head}dtype = {{ cpu = "fp32", accelerator = "bf16" }}\n[[shapes]]\nlist = "recorded.toml"\n')
    operators = {planned.case.operator for planned in load_suite(str(suite)).cases}
    assert operators == {shape["operator"] for shape in found["shapes"]}
    assert "the rest is left out" in shapes("import", RECORDING, "-k", "3").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["derive"], "--trace and --model are needed"),
        (["derive", "--trace", "azure2023_conv"], "--trace and --model are needed"),
        (["derive", "--shipped", QUICK, "--model", "llama-3.1-8b"], "--shipped says trace and model already"),
        (["derive", "--shipped", "nonsense"], "shape list 'nonsense': not shipped, must be one of"),
        (["derive", "--trace", "nonsense", "--model", "qwen3-8b"], "trace 'nonsense': not shipped"),
        (["derive", "--trace", "{log}", "--model", "qwen3-8b"], "columns are prompt, answer; name those of"),
        (
            ["derive", "--trace", "{log}", "--input-tokens", "prompts", "--rate", "1", "--model", "qwen3-8b"],
            "'prompts'",
        ),
        (["derive", "--trace", "{log}", "--model", "tiny"], "columns are prompt, answer"),
        (["derive", "--trace", "{log}", "--rate", "1", "--model", "x", "--models", "{models}"], "columns are"),
        (["show", "nonsense"], "shape list 'nonsense': not shipped"),
        (["show", "/no/such.toml"], "shapes /no/such.toml: cannot be read"),
        (["show", "{models}"], "format is None, must be 1"),
        (["compare", QUICK, "nonsense"], "shape list 'nonsense': not shipped"),
        (["import", "{log}"], "format not recognised"),
        (["import", "{log}", "--format", "elf"], "format 'elf': must be one of kineto"),
        (["import", str(RECORDING), "-k", "0"], "0 shapes asked, must be >= 1"),
        (["import", str(RECORDING), "--dtype", "fp64"], "no shape of dtype 'fp64' in it"),
        (["import", str(RECORDING), "--out", "/no/such/folder/x.toml"], "--out is /no/such/folder/x.toml"),
    ],
)
def test_bad_input_is_one_line(requests_file: Path, models_file: Path, arguments: list[str], words: str) -> None:
    """What, value, rule, way out; exit code 2."""
    said = refusal(shapes(*[a.format(log=requests_file, models=models_file) for a in arguments]))

    assert words in said
    assert "\n" not in said


def test_an_unknown_model_of_ones_own_names_the_known(requests_file: Path, models_file: Path) -> None:
    """With --models the names are those of the file."""
    mine: list[str | Path] = ["--trace", requests_file, *COLUMNS, "--rate", "3"]

    assert "must be one of tiny" in refusal(shapes("derive", *mine, "--model", "huge", "--models", models_file))


def test_training_shapes_of_a_model_of_ones_own(tmp_path: Path) -> None:
    """Sizes and cuts from the command line give a list that a suite takes, with projections both ways and messages."""
    (tmp_path / "ours.toml").write_text(TINY_MODEL)
    cut = ("--sequence", "512", "--micro-batches", "3", "--tp", "2", "--dp", "4", "--sharding", "ddp")
    arguments = ("derive-training", "--models", tmp_path / "ours.toml", "--model", "tiny", *cut)
    printed = shapes(*arguments, "--out", tmp_path / "mine.toml")
    found = document(shapes(*arguments, "--json"))

    assert printed.exit_code == 0 and "tiny training, tp2 pp1 ddp4, sequence 512" in printed.stdout
    sizes = {(shape["operator"], shape["family"]): dict(shape["axes"]) for shape in found["shapes"]}
    assert sizes["gemm", "gate_up"] == sizes["gemm_wgrad", "gate_up"] == {"M": 512, "N": 512, "K": 256}
    assert sizes["all_gather", "tensor_parallel"] == {"ranks": 2, "elements": 512 * 256}
    assert sizes["all_reduce", "data_parallel"]["ranks"] == 4
    assert len(read_list(tmp_path / "mine.toml").shapes) == len(found["shapes"])
    suite = [
        '[suite]\nname = "s"\nsummary = "s"\nversion = 1\nseed = 1\ndtype = { cpu = "fp32", accelerator = "bf16" }',
        '[[shapes]]\nlist = "mine.toml"\n',
    ]
    (tmp_path / "suite.toml").write_text("\n".join(suite))
    distinct = {(shape["operator"], str(shape["axes"])) for shape in found["shapes"]}
    assert len(load_suite(str(tmp_path / "suite.toml")).cases) == len(distinct)


def test_a_shipped_training_list_is_what_the_command_derives(tmp_path: Path) -> None:
    """The bytes of llama-3.1-8b on 64 ranks."""
    result = shapes("derive-training", "--model", "llama-3.1-8b", "--dp", "64", "--out", tmp_path / "mine.toml")
    assert result.exit_code == 0, result.output
    name = "llama-3.1-8b_training_tp1_pp1_fsdp64_seq8192"
    assert (tmp_path / "mine.toml").read_text(encoding="utf-8") == shipped_text(name)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--model", "qwen3-30b-a3b"),
            "mixtures of experts are not derived, only dense ones; `collector shapes import`",
        ),
        (("--model", "llama-3.1-8b", "--sharding", "zero1"), "--sharding is 'zero1', must be one of ddp, fsdp"),
        (("--model", "llama-3.1-8b", "--pp", "0"), "pipeline_parallel is 0, must be a whole number >= 1"),
        (("--model", "nobody"), "model 'nobody': not known, must be one of"),
        (("--model", "llama-3.1-8b", "--chip", "abacus"), "abacus"),
    ],
)
def test_training_shapes_that_cannot_be_derived_get_one_line(arguments: tuple[str, ...], words: str) -> None:
    """What, value, rule, way out."""
    assert words in refusal(shapes("derive-training", *arguments))
