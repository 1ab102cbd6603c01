"""The code behind a finding is asked of the store: sources and tuner of both runs, machine code of both revisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pytest

from collector.host.code_evidence import with_code
from collector.host.run_verdicts import RunVerdicts
from detection.classify import Difference, FindingClass
from detection.findings import EventKind, Facts, FindingEvent, make_event
from detection.verdict import Metric
from store.lake.lake import Lake

SOURCES, CODE = "5" * 64, "5eed" * 16


class Store:
    """Answers the two questions, as a lake does."""

    def __init__(self, sources: dict[str, str], binaries: dict[str, str]) -> None:
        self._rows = [{"run_id": r, "code_sha256": h, "configuration": None} for r, h in sources.items()]
        self._binaries = [
            {"revision": r, "case_id": "gemm[bf16]", "chip": "sm_90", "sha256": h} for r, h in binaries.items()
        ]

    def sql(self, query: str, parameters: dict[str, Any]) -> pa.Table:
        return pa.Table.from_pylist(self._binaries if "revisions" in parameters else self._rows)


class Run:
    device_kind = "cuda"


def suspected(**fields: object) -> FindingEvent:
    facts = Facts(
        group="H200 · gemm · candidate", finding_class=FindingClass.CODE, direction=1, metric=Metric.LATENCY_RATIO,
        operator="gemm", family="GEMM", title="GEMM", shape="", case_id="gemm[bf16]", arm="candidate",
        subject_id="s", subject_ids=("s",), device_model="H200", device_unit="u", host="h", change=0.1,
        change_low=0.08, change_high=0.12, price=None, since_run_id="bad", since_at=datetime(2026, 1, 2, tzinfo=UTC),
        last_good_run_id="good", revision_good="aaa", revision_bad="bbb",
        differing=(Difference(field="revision", good="aaa", bad="bbb"),), cause="1 of 5 operators moved.",
    )  # fmt: skip
    told = replace(facts, **fields)  # type: ignore[arg-type]
    return make_event(EventKind.SUSPECTED, told, at=told.since_at, as_of_seq=1, run_id="bad")


def caused(event: FindingEvent, sources: dict[str, str], binaries: dict[str, str] | None = None) -> Facts:
    judged = RunVerdicts(run=cast(Any, Run()), column=1, verdicts=(), shift=None)
    return with_code(cast(Lake, Store(sources, binaries or {})), event, judged).facts


def test_a_pair_whose_sources_are_the_same_is_not_the_host() -> None:
    """The optimized arm on the same device did not move: with another revision the code elsewhere is suspected."""
    facts = caused(suspected(), {"good": SOURCES, "bad": SOURCES})
    assert facts.finding_class is FindingClass.CODE
    assert "the sources are the same (555555555555)" in facts.cause
    assert "revision aaa → bbb changed something outside of them" in facts.cause


def test_a_time_alone_whose_sources_are_the_same_may_be_the_host() -> None:
    """Nothing else of the device speaks for the arm."""
    facts = caused(suspected(metric=Metric.LATENCY), {"good": SOURCES, "bad": SOURCES})
    assert facts.finding_class is FindingClass.HOST


@pytest.mark.parametrize(
    ("binaries", "expected"),
    [({"aaa": CODE, "bbb": CODE}, FindingClass.ENVIRONMENT), ({"aaa": CODE, "bbb": SOURCES}, FindingClass.CODE)],
)
def test_machine_code_speaks_before_sources(binaries: dict[str, str], expected: FindingClass) -> None:
    """Other sources that compile to the same binary are not to blame; another binary is."""
    facts = caused(suspected(), {"good": SOURCES, "bad": "6" * 64}, binaries)
    assert facts.finding_class is expected
    assert [d.field for d in facts.differing][-2:] == ["source", "revision"]
