"""The [[case]] and [[candidate]] tables of a suite file, checked against the contracts."""

from __future__ import annotations

import ast
from pathlib import Path

from bench_suite.contract import AxisValue, Contract, ContractError, DType, Phase
from bench_suite.contracts import contract
from bench_suite.plan import PlannedCase, UserCandidate
from bench_suite.suite_file import Table
from bench_suite.suite_shapes import merged, read_shapes

_WEIGHT_SLACK = 1e-6
"""Weights are written with a few digits: their sum may exceed 1 by this."""


def read_cases(root: Table, default_dtype: DType, provenance: str, folder: Path) -> tuple[PlannedCase, ...]:
    """All cases in file order, then those of the shape lists. Two [[case]] alike, or weights above 1, are refused."""
    planned: list[PlannedCase] = []
    seen: dict[str, int] = {}
    for number, table in enumerate(root.tables("case", optional=True), 1):
        entry = _read_case(table, default_dtype, provenance)
        case_id = entry.case.case_id
        if case_id in seen:
            raise table.error("axes", case_id, f"must differ from case {seen[case_id]}")
        seen[case_id] = number
        planned.append(entry)
    resolved = merged((*planned, *read_shapes(root, default_dtype, folder)))
    if not resolved:
        raise root.broken("case", "there is none, must have at least one [[case]] or [[shapes]]")
    total = sum(entry.weight or 0.0 for entry in resolved)
    if total > 1 + _WEIGHT_SLACK:
        raise root.broken("case", f"weights are {total:.6g} in sum, must not exceed 1")
    return resolved


def _read_case(table: Table, default_dtype: DType, provenance: str) -> PlannedCase:
    promise = _contract(table)
    phase = table.choice("phase", Phase)
    dtype = table.choice("dtype", DType, default=default_dtype)
    cache = table.text("cache", default="cold")
    axes = _axes(table.table("axes"))
    try:
        case = promise.case(axes, dtype, phase, cache=cache)
    except ContractError as error:
        raise table.broken("axes", str(error)) from None
    weight = table.number("weight", above=0.0, most=1.0) if table.has("weight") else None
    label = table.text("label", default=promise.title)
    own = table.text("provenance", default=provenance or "hand-written")
    table.done()
    return PlannedCase(case=case, weight=weight, label=label, provenance=own)


def _contract(table: Table) -> Contract:
    name = table.text("operator")
    try:
        return contract(name)
    except ContractError as error:
        raise table.broken("operator", str(error)) from None


def _axes(table: Table) -> dict[str, AxisValue]:
    """Sizes as written; a list becomes the tuple of a ragged axis. Ranges are the contract's to check."""
    axes: dict[str, AxisValue] = {}
    for name in table.names():
        value = table.raw(name)
        entries: list[object] = value if isinstance(value, list) else [value]
        sizes = tuple(entry for entry in entries if isinstance(entry, int) and not isinstance(entry, bool))
        if not sizes or len(sizes) < len(entries):
            raise table.error(name, value, "must be a whole number or a list of them")
        axes[name] = sizes if isinstance(value, list) else sizes[0]
    return axes


def read_candidates(root: Table, folder: Path) -> tuple[UserCandidate, ...]:
    """The user's own kernels. A missing file or function is found here, without running the file."""
    found: list[UserCandidate] = []
    for table in root.tables("candidate", optional=True):
        promise = _contract(table)
        name = table.text("name")
        if any(entry.name == name and entry.operator == promise.operator for entry in found):
            raise table.error("name", name, f"must differ from the other candidates of {promise.operator}")
        file, function = table.text("file"), table.text("function")
        path = (folder / file).resolve()
        if not path.is_file():
            raise table.error("file", file, f"there is no such file in {folder}")
        names = _top_level_names(path, table, file)
        if function not in names:
            known = ", ".join(sorted(names)) or "nothing"
            raise table.error("function", function, f"must be defined in {file}, which defines {known}")
        prepare = table.boolean("prepare", default=False)
        table.done()
        found.append(
            UserCandidate(operator=promise.operator, name=name, file=str(path), function=function, prepare=prepare)
        )
    return tuple(found)


def _top_level_names(path: Path, table: Table, file: str) -> set[str]:
    """What a Python file binds at its top level, by its syntax tree."""
    try:
        module = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise table.error("file", file, f"is not Python: {error}") from None
    names: set[str] = set()
    pending: list[ast.AST] = list(module.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names.update(alias.asname or alias.name for alias in node.names)
        else:  # if, try, with: what they bind is bound here
            pending.extend(ast.iter_child_nodes(node))
    return names
