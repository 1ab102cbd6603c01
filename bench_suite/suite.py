"""A suite file resolved to a plan: which cases, how heavy, how measured. Free of torch.

A suite is a TOML file, one of configs/suites by name or any file by path:

    [suite]      name, summary, version, seed, dtype = {cpu = "fp32", accelerator = "bf16"}
    [method]     any field of Method; what is left out keeps its default
    [source]     where the shapes come from: trace, model, tp, budget, load, padding, commit, licence, note
    [[case]]     operator, phase, axes = {...}; optional label, weight, dtype, cache, provenance
    [[shapes]]   list: a derived list, by shipped name or file; optional share (of the weights), most (heaviest), dtype,
                 neighbours (cases beside each heavy shape), neighbours_of (how many of the heaviest)
    [[candidate]] operator, name, file (relative to the suite file), function; optional prepare = true

Every mistake in it is one SuiteError line that names file and key.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path

from bench_suite.contract import DType
from bench_suite.plan import Method, PlannedCase, Suite, UserCandidate
from bench_suite.suite_cases import read_candidates, read_cases
from bench_suite.suite_file import SuiteError, Table, parse_toml

__all__ = ["Method", "PlannedCase", "Suite", "SuiteError", "UserCandidate", "load_suite", "suite_names"]

ACCELERATOR = "accelerator"
SOURCE_KEYS = ("trace", "model", "tp", "budget", "load", "padding", "commit", "licence", "note")


def suite_names() -> tuple[str, ...]:
    """The suites that ship with the package, sorted."""
    folder = resources.files("configs") / "suites"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_suite(name_or_path: str | Path, device_kind: str = "cpu") -> Suite:
    """The suite of that name, or in that file, for a device kind ("cpu", "cuda", ...). Raises SuiteError."""
    path = Path(name_or_path)
    text = str(name_or_path)
    if path.suffix == ".toml" or "/" in text:
        if not path.is_file():
            raise SuiteError(f"suite file {text}: there is no such file")
        return _resolve(parse_toml(path.read_text(encoding="utf-8"), text), path.resolve().parent, device_kind)
    if text not in suite_names():
        raise SuiteError(f"suite {text!r} is unknown, must be one of {', '.join(suite_names())} or a .toml file")
    entry = resources.files("configs") / "suites" / f"{text}.toml"
    folder = Path(str(entry)).parent
    return _resolve(parse_toml(entry.read_text(encoding="utf-8"), f"{text}.toml"), folder, device_kind)


def _resolve(root: Table, folder: Path, device_kind: str) -> Suite:
    head = root.table("suite")
    name, summary = head.text("name"), head.text("summary")
    version, seed = head.integer("version", minimum=1), head.integer("seed", minimum=0)
    dtypes = head.table("dtype")
    cpu, accelerator = dtypes.choice("cpu", DType), dtypes.choice(ACCELERATOR, DType)
    dtypes.done()
    head.done()
    source = root.table("source", optional=True)
    origin = tuple((key, source.scalar_text(key)) for key in SOURCE_KEYS if source.has(key))
    source.done()
    method = _method(root.table("method", optional=True))
    cases = read_cases(root, cpu if device_kind == "cpu" else accelerator, _provenance(dict(origin)), folder)
    candidates = read_candidates(root, folder)
    root.done()
    plan = Suite(
        name=name,
        hash="",
        summary=summary,
        version=version,
        seed=seed,
        source=origin,
        method=method,
        cases=cases,
        candidates=candidates,
    )
    return replace(plan, hash=_hash(plan))


def _method(table: Table) -> Method:
    default = Method()
    method = Method(
        replicates=table.integer("replicates", default=default.replicates, minimum=1),
        target_half_width=table.number("target_half_width", default=default.target_half_width, above=0.0),
        min_rounds=table.integer("min_rounds", default=default.min_rounds, minimum=1),
        max_rounds=table.integer("max_rounds", default=default.max_rounds, minimum=1),
        case_budget_s=table.number("case_budget_s", default=default.case_budget_s, above=0.0),
        single_calls=table.integer("single_calls", default=default.single_calls, minimum=0),
        threads=table.integer("threads", default=default.threads, minimum=1),
    )
    if method.max_rounds < method.min_rounds:
        raise table.error("max_rounds", method.max_rounds, f"must be at least min_rounds, {method.min_rounds}")
    table.done()
    return method


def _provenance(source: dict[str, str]) -> str:
    """`azure2023_conv, llama-3.1-8b tp1, load 0.2` from what [source] says; empty where it says nothing."""
    model = " ".join(part for part in (source.get("model", ""), f"tp{source['tp']}" if "tp" in source else "") if part)
    rest = (f"{key} {source[key]}" for key in ("budget", "load", "padding") if key in source)
    return ", ".join(part for part in (source.get("trace", ""), model, *rest) if part)


def _hash(plan: Suite) -> str:
    content = {
        "name": plan.name,
        "version": plan.version,
        "seed": plan.seed,
        "method": asdict(plan.method),
        "cases": [[c.case.case_id, c.case.phase.value, c.weight, c.label, c.provenance] for c in plan.cases],
        "candidates": [[u.operator, u.name, Path(u.file).name, u.function, u.prepare] for u in plan.candidates],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
