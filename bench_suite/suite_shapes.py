"""The [[shapes]] tables of a suite file: derived shape lists as weighted cases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bench_suite.contract import AxisValue, ContractError, DType, Phase
from bench_suite.contracts import CONTRACTS, contract
from bench_suite.contracts.attention_decode import length_quantiles
from bench_suite.neighbours import neighbours
from bench_suite.plan import PlannedCase
from bench_suite.suite_file import Table

if TYPE_CHECKING:
    from bench_suite.shapes.representatives import Representative, ShapeList

HEAVY = 8
"""Shapes of a list, the heaviest first, that get neighbours where a suite asks for them."""

LONGEST_LIST = 16
"""Batches beyond this are named by the quantiles of their lengths: a case_id is read by people."""

_KEPT_IN_FP32 = ("adamw",)
"""Mixed-precision training keeps parameters and optimizer state so (Micikevicius et al. 2018, arXiv:1710.03740)."""

_COUNTED_IN_BYTES = DType.BF16
"""Lists count messages in bytes of this type; a contract counts elements."""


def read_shapes(root: Table, default_dtype: DType, folder: Path) -> tuple[PlannedCase, ...]:
    """The cases of all lists, heaviest first within each. Raises SuiteError."""
    planned: list[PlannedCase] = []
    for table in root.tables("shapes", optional=True):
        shapes = _list(table, folder)
        share = table.number("share", default=1.0, above=0.0, most=1.0)
        dtype = table.choice("dtype", DType, default=default_dtype)
        count = len(shapes.shapes)
        most = table.integer("most", default=count, minimum=1)
        around = table.integer("neighbours", default=0, minimum=0)
        around_of = table.integer("neighbours_of", default=HEAVY, minimum=1)
        table.done()
        provenance = _provenance(shapes)
        heaviest = sorted(shapes.shapes, key=lambda shape: -shape.weight_time)[:most]
        listed = [_planned(table, shape, share, dtype, provenance) for shape in heaviest]
        known = {entry.case.case_id for entry in listed}
        planned += listed
        for heavy in listed[:around_of] if around else ():
            beside = [entry for entry in neighbours(heavy, around) if entry.case.case_id not in known]
            known |= {entry.case.case_id for entry in beside}
            planned += beside
    return tuple(planned)


def _list(table: Table, folder: Path) -> ShapeList:
    from bench_suite.shapes.errors import ShapeError
    from bench_suite.shapes.listing import read_list
    from bench_suite.shapes.shipped import shipped_list

    name = table.text("list")
    try:
        return read_list(folder / name) if name.endswith(".toml") else shipped_list(name)
    except ShapeError as error:
        raise table.broken("list", str(error)) from None


def _planned(table: Table, shape: Representative, share: float, dtype: DType, provenance: str) -> PlannedCase:
    if shape.operator not in CONTRACTS:
        raise table.broken("list", f"operator {shape.operator!r} has no contract, known are {', '.join(CONTRACTS)}")
    sizes = (
        f"{shape.cover_low:,}"
        if shape.cover_low == shape.cover_high
        else f"{shape.cover_low:,} to {shape.cover_high:,}"
    )
    try:
        kept = DType.FP32 if shape.operator in _KEPT_IN_FP32 else dtype
        case = contract(shape.operator).case(_axes(dict(shape.axes)), kept, Phase(shape.phase))
    except ContractError as error:
        raise table.broken("list", str(error)) from None
    return PlannedCase(
        case=case, weight=share * shape.weight_time, label=f"{shape.family}, {sizes}", provenance=provenance
    )


def _axes(sizes: Mapping[str, AxisValue]) -> dict[str, AxisValue]:
    axes = dict(sizes)
    lengths = axes.get("kv")
    if isinstance(lengths, tuple) and len(lengths) > LONGEST_LIST:
        axes["kv"] = length_quantiles(lengths)
    if "size_bytes" in axes:
        size_bytes = axes.pop("size_bytes")
        assert isinstance(size_bytes, int)
        axes["elements"] = size_bytes // _COUNTED_IN_BYTES.size_bytes
    return axes


def _provenance(shapes: ShapeList) -> str:
    return shapes.origin.summary


def merged(cases: tuple[PlannedCase, ...]) -> tuple[PlannedCase, ...]:
    """One entry for each case_id: weights add up, labels and provenances are joined. Order of first appearance."""
    kept: dict[str, PlannedCase] = {}
    for entry in cases:
        known = kept.get(entry.case.case_id)
        kept[entry.case.case_id] = entry if known is None else _joined(known, entry)
    return tuple(kept.values())


def _joined(one: PlannedCase, other: PlannedCase) -> PlannedCase:
    weights = [entry.weight for entry in (one, other) if entry.weight is not None]
    return PlannedCase(
        case=one.case,
        weight=sum(weights) if weights else None,
        label=_words(one.label, other.label),
        provenance=_words(one.provenance, other.provenance),
    )


def _words(one: str, other: str) -> str:
    return one if other in one.split("; ") else f"{one}; {other}"
