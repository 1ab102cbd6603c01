"""Suite files: the shipped ones resolve, and every mistake is one line that names file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_suite.contract import DType
from bench_suite.contracts import CONTRACTS
from bench_suite.contracts.attention_decode import length_quantiles
from bench_suite.suite import Method, SuiteError, load_suite, suite_names

GOOD = """
[suite]
name = "mine"
summary = "my own"
version = 1
seed = 3
dtype = { cpu = "fp32", accelerator = "bf16" }

[method]
replicates = 2

[source]
trace = "azure2023_conv"
model = "llama-3.1-8b"
tp = 1
load = 0.5

[[case]]
operator = "gemm"
phase = "decode"
label = "qkv"
axes = { M = 1, N = 64, K = 32 }
weight = 0.25

[[case]]
operator = "attention_decode"
phase = "decode"
axes = { batch = 2, kv = [5, 9], heads = 4, kv_heads = 2, head_dim = 64 }
dtype = "fp16"
cache = "warm"
provenance = "mine"

[[candidate]]
operator = "gemm"
name = "mine"
file = "kernel.py"
function = "run"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernel.py").write_text(
        "import torch\nif torch:\n    def run(x, weight):\n        return x @ weight.T\n"
    )
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("device_kind", ["cpu", "cuda"])
@pytest.mark.parametrize("name", suite_names())
def test_shipped_suites_resolve(name: str, device_kind: str) -> None:
    """Every shipped suite loads for CPU and accelerator, is named like its file; its hash tells the dtypes apart."""
    suite = load_suite(name, device_kind)
    assert suite.name == name and suite.cases and suite.summary
    assert sum(entry.weight or 0.0 for entry in suite.cases) <= 1 + 1e-6
    usual = DType.FP32 if device_kind == "cpu" and name != "numerics" else DType.BF16
    assert {entry.case.dtype for entry in suite.cases if entry.case.operator != "adamw"} == {usual}
    assert load_suite(name, device_kind) == suite
    other = load_suite(name, "cuda" if device_kind == "cpu" else "cpu")
    assert (suite.hash == other.hash) is (name == "numerics")  # in 16 bits everywhere: that is what it is about


def test_quick_has_the_shapes_of_an_8b_model() -> None:
    """quick: 15 to 18 distinct cases, five and more GEMMs with the model's own N and K, every operator, two ranks."""
    cases = [entry.case for entry in load_suite("quick").cases]
    assert 15 <= len({case.case_id for case in cases}) == len(cases) <= 18
    model = {(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)}
    gemms = [(case["N"], case["K"]) for case in cases if case.operator == "gemm"]
    assert len(gemms) >= 5 and set(gemms) == model
    operators = {case.operator for case in cases}
    assert operators >= {"attention_prefill", "attention_decode", "rms_norm", "swiglu", "softmax", "all_reduce"}
    assert all(case["ranks"] == 2 for case in cases if case.operator == "all_reduce")


def test_a_good_file_resolves(folder: Path) -> None:
    """Fields, defaults, provenance and the user's candidate arrive as written."""
    suite = load_suite(write(folder, GOOD))
    assert suite.method == Method(replicates=2)
    gemm, decode = suite.cases
    assert gemm.case.case_id == "gemm[fp32,M=1,N=64,K=32]" and gemm.weight == 0.25 and gemm.label == "qkv"
    assert gemm.provenance == "azure2023_conv, llama-3.1-8b tp1, load 0.5"
    assert decode.case.case_id == "attention_decode[fp16,batch=2,kv=5/9,heads=4,kv_heads=2,head_dim=64,cache=warm]"
    assert decode.weight is None and decode.label == "Attention decode" and decode.provenance == "mine"
    (user,) = suite.candidates
    assert Path(user.file) == folder / "kernel.py" and user.function == "run" and not user.prepare


def test_the_hash_follows_the_plan(folder: Path) -> None:
    """Comments and the folder leave the hash alone; a weight, a size or the seed changes it."""
    plain = load_suite(write(folder, GOOD)).hash
    assert load_suite(write(folder, "# words\n" + GOOD)).hash == plain
    for old, new in (("weight = 0.25", "weight = 0.26"), ("M = 1", "M = 2"), ("seed = 3", "seed = 4")):
        assert load_suite(write(folder, GOOD.replace(old, new))).hash != plain


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("replicates = 2", 'replicates = "2"', "method.replicates is '2', must be a whole number >= 1"),
        ("replicates = 2", "replicates = 0", "method.replicates is 0, must be a whole number >= 1"),
        ("replicates = 2", "replicates = true", "method.replicates is true, must be a whole number >= 1"),
        ("replicates = 2", "max_rounds = 5", "method.max_rounds is 5, must be at least min_rounds, 20"),
        ("replicates = 2", "target_half_width = 0", "method.target_half_width is 0, must be a number > 0"),
        (
            "replicates = 2",
            "reps = 2",
            "unknown key method.reps, must be one of replicates, target_half_width, min_rounds, max_rounds, "
            "case_budget_s, single_calls, threads",
        ),
        ("weight = 0.25", "weight = 0", "case 1.weight is 0, must be a number > 0 and <= 1"),
        ("weight = 0.25", "weight = 1.5", "case 1.weight is 1.5, must be a number > 0 and <= 1"),
        ("weight = 0.25", "weight = nan", "case 1.weight is nan, must be a number > 0 and <= 1"),
        (
            "weight = 0.25",
            "wieght = 0.25",
            "unknown key case 1.wieght, must be one of operator, phase, dtype, cache, axes, weight, label, provenance",
        ),
        ("M = 1,", "M = 0,", "case 1.axes: gemm[fp32]: axis M is 0, must be a whole number >= 1"),
        ("M = 1,", "M = -8,", "case 1.axes: gemm[fp32]: axis M is -8, must be a whole number >= 1"),
        ("M = 1,", "M = 1.5,", "case 1.axes.M is 1.5, must be a whole number or a list of them"),
        ("M = 1,", "", "case 1.axes: gemm[fp32]: axis M is missing (tokens of the step)"),
        ("kv = [5, 9]", "kv = []", "case 2.axes.kv is [], must be a whole number or a list of them"),
        (
            'dtype = "fp16"',
            'dtype = "fp31"',
            "case 2.dtype is 'fp31', must be one of fp64, fp32, bf16, fp16, int8, fp8_e4m3",
        ),
        (
            'dtype = "fp16"',
            'dtype = "int8"',
            "case 2.axes: attention_decode[int8]: dtype int8 is not in the contract, must be one of fp32, bf16, fp16",
        ),
        (
            'cpu = "fp32"',
            'cpu = "float"',
            "suite.dtype.cpu is 'float', must be one of fp64, fp32, bf16, fp16, int8, fp8_e4m3",
        ),
        (
            'operator = "gemm"\nphase',
            'operator = "conv"\nphase',
            f"case 1.operator: operator 'conv' is unknown, must be one of {', '.join(CONTRACTS)}",
        ),
        (
            'phase = "decode"\nlabel',
            'phase = "later"\nlabel',
            "case 1.phase is 'later', must be one of prefill, decode, mixed, training, post_training",
        ),
        (
            'cache = "warm"',
            'cache = "hot"',
            "case 2.axes: attention_decode[fp16]: cache is 'hot', must be cold or warm",
        ),
        ("seed = 3", "", "suite.seed is missing"),
        (
            'trace = "azure2023_conv"',
            'origin = "x"',
            "unknown key source.origin, must be one of trace, model, tp, budget, load, padding, commit, licence, note",
        ),
        ('file = "kernel.py"', 'file = "gone.py"', "candidate 1.file is 'gone.py', there is no such file in {folder}"),
        (
            'function = "run"',
            'function = "walk"',
            "candidate 1.function is 'walk', must be defined in kernel.py, which defines run, torch",
        ),
        ("[method]", "[methods]", "unknown key methods, must be one of suite, source, method, case, shapes, candidate"),
        ("[suite]", "[suite", "not TOML: Expected ']' at the end of a table declaration (at line 2, column 7)"),
    ],
)
def test_mistakes_have_one_line(folder: Path, old: str, new: str, message: str) -> None:
    """Each mistake is refused with file, key, value and rule."""
    assert old in GOOD
    path = write(folder, GOOD.replace(old, new, 1))
    with pytest.raises(SuiteError) as caught:
        load_suite(path)
    assert str(caught.value) == f"{path}: {message.replace('{folder}', str(folder))}"


def test_cases_must_differ_and_weights_must_fit(folder: Path) -> None:
    """Two equal cases, weights above 1 in sum, and no case at all are refused."""
    case = '[[case]]\noperator = "softmax"\nphase = "decode"\naxes = { rows = 1, columns = 9 }\nweight = 0.9\n'
    with pytest.raises(SuiteError, match=r"case 4.axes is 'softmax\[fp32,rows=1,columns=9\]', must differ from case 3"):
        load_suite(write(folder, GOOD + case + case))
    with pytest.raises(SuiteError, match=r"case: weights are 1.15 in sum, must not exceed 1"):
        load_suite(write(folder, GOOD + case))
    head = GOOD.split("[[case]]")[0]
    with pytest.raises(SuiteError, match=r"case: there is none, must have at least one \[\[case\]\] or \[\[shapes\]\]"):
        load_suite(write(folder, head))


def test_a_candidate_that_is_no_python_is_refused(folder: Path) -> None:
    """A candidate file with a syntax error is refused when the suite is read, not when it is measured."""
    (folder / "kernel.py").write_text("def run(:\n")
    with pytest.raises(SuiteError, match=r"candidate 1.file is 'kernel.py', is not Python: .*line 1"):
        load_suite(write(folder, GOOD))


def test_unknown_suites_list_the_known(tmp_path: Path) -> None:
    """An unknown name lists what ships; a path that is no file says so."""
    with pytest.raises(
        SuiteError, match=r"suite 'nope' is unknown, must be one of .*quick, smoke, training or a .toml file"
    ):
        load_suite("nope")
    with pytest.raises(SuiteError, match=r"suite file .*gone.toml: there is no such file"):
        load_suite(tmp_path / "gone.toml")


LISTS = """
[suite]
name = "mine"
summary = "lists"
version = 1
seed = 3
dtype = { cpu = "fp32", accelerator = "bf16" }

[[shapes]]
list = "llama-3.1-8b_tp1_azure2023-conv_load1_budget2048"
share = 0.5
most = 5

[[shapes]]
list = "llama-3.1-8b_tp1_azure2023-conv_load1_budget2048"
share = 0.25
most = 2
"""


def test_shape_lists_become_weighted_cases(folder: Path) -> None:
    """A list gives its heaviest shapes with their share of the weights; a shape of two lists is one case."""
    suite = load_suite(write(folder, LISTS), "cuda")
    assert len(suite.cases) == 5
    once = load_suite(write(folder, LISTS.rsplit("[[shapes]]", 1)[0]), "cuda")
    ratios = [a.weight / b.weight for a, b in zip(suite.cases, once.cases, strict=True) if a.weight and b.weight]
    assert ratios == pytest.approx([1.5, 1.5, 1, 1, 1])
    assert suite.cases[0].provenance == "azure2023_conv, llama-3.1-8b tp1, budget 2048, load 1, padding none"
    assert suite.cases[0].case.dtype is DType.BF16


def test_long_batches_are_named_by_quantiles() -> None:
    """No case of the nightly suite carries more than sixteen lengths, and the longest context stays exact."""
    decodes = [entry.case for entry in load_suite("nightly", "cuda").cases if entry.case.operator == "attention_decode"]
    assert decodes and all(len(case.ragged("kv")) <= 16 for case in decodes)
    assert all(len(case.case_id) < 200 for case in decodes)
    assert length_quantiles(tuple(range(101, 0, -1))) == (1, 26, 51, 76, 91, 101)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "_load1_budget2048",
            "_load9",
            "shapes 1.list: shape list 'llama-3.1-8b_tp1_azure2023-conv_load9': not shipped",
        ),
        ('list = "llama-3.1-8b_tp1_azure2023-conv_load1_budget2048"', 'list = "a.toml"', "shapes 1.list: shapes "),
        ("share = 0.5", "share = 2", "shapes 1.share is 2, must be a number > 0 and <= 1"),
        ("most = 5", "most = 0", "shapes 1.most is 0, must be a whole number >= 1"),
        ("most = 5", "least = 5", "unknown key shapes 1.least, must be one of list, share, dtype, most"),
    ],
)
def test_mistakes_in_shape_lists_have_one_line(folder: Path, old: str, new: str, message: str) -> None:
    """An unknown list, a missing file, a bad share: refused with file, key and rule."""
    path = write(folder, LISTS.replace(old, new, 1))
    with pytest.raises(SuiteError) as caught:
        load_suite(path)
    assert str(caught.value).startswith(f"{path}: {message}") and "\n" not in str(caught.value)
