"""The records of a resolved suite: what is to be measured, and how."""

from __future__ import annotations

from dataclasses import dataclass

from bench_suite.contract import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How the cases of a suite are measured."""

    replicates: int = 3
    """Fresh processes that walk the whole suite."""
    target_half_width: float = 0.03
    """Stop a case when the 95 % half-width of its log-ratio is below this."""
    min_rounds: int = 20
    max_rounds: int = 300
    case_budget_s: float = 4.0
    """Timed seconds per case and replicate."""
    single_calls: int = 100
    """Single calls per case and replicate behind the tails; 0 leaves them out."""
    threads: int = 1
    """Of the CPU: intra-operator threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCase:
    """A case with what the suite knows about it."""

    case: Case
    weight: float | None
    """Share of production time within the suite, in (0, 1]; None where the suite claims none."""
    label: str
    provenance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCandidate:
    """A kernel of the user's own that joins the cases of one operator."""

    operator: str
    name: str
    file: str
    """Absolute path of the Python file."""
    function: str
    """`function(*inputs) -> output`, or with `prepare` `function(case, device)` that returns such a function."""
    prepare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A resolved plan: the same file and device kind give the same plan and hash."""

    name: str
    hash: str
    """First 16 hex digits of the SHA-256 over everything below except where the user's files lie."""
    summary: str
    version: int
    seed: int
    source: tuple[tuple[str, str], ...]
    method: Method
    cases: tuple[PlannedCase, ...]
    candidates: tuple[UserCandidate, ...] = ()
