"""What the parent and a worker say to each other: one JSON document a line, on pipes of their own.

The parent (the CLI) never imports torch. A worker announces each step before it takes it, so that the parent knows
which arm was at work when a worker dies, hangs or is killed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bench_suite.contract import Phase, Role
from bench_suite.suite import Method, UserCandidate

PART = "part:"
"""Before the label of samples that are no arm's, but of a piece of the operator's work."""


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One implementation in one case, under the label its series keeps."""

    label: str
    """naive, optimized, aa, candidate, candidate:NAME, planted"""
    role: Role
    implementation: str
    origin: str = ""
    """Who wrote it, as bench_suite.operators.base.Origin has it: vendor, handwritten or generic."""
    planted: float | None = None
    """Of a planted arm: the extra work as a share of the call."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """First word of a worker: what it runs on."""

    pid: int
    device: dict[str, Any]
    versions: dict[str, str]
    timer: str = "none"
    """The clock that a case of one process is timed by here."""
    ranks_timer: str = "wall"
    """The clock of a case of several ranks."""
    replays: bool = False
    """Whether calls can be captured in graphs and replayed."""


class Step(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """About to do this with this arm; `arm` is empty where the step concerns the case."""

    arm: str
    step: str
    limit_factor: float = 1.0
    """How many times the limit of a step it may take before the parent calls it hung."""


class ArmsListed(msgspec.Struct, frozen=True, kw_only=True, tag="arms"):
    """The arms that this case has on this device, in series order, and whether something is no candidate."""

    arms: list[Arm]
    unsupported: dict[str, str]
    """label -> why: an implementation that cannot run here."""


class ArmPrepared(msgspec.Struct, frozen=True, kw_only=True, tag="prepared"):
    """An arm compiled, checked and weighed, before any timing."""

    arm: str
    compile_s: float
    first_call_s: float
    ok: bool
    reason: str
    error_max_abs: float | None
    error_max_rel: float | None
    error_mismatch_share: float | None
    error_margin: float | None
    peak_memory_bytes: int | None
    workspace_bytes: int | None
    reserved_bytes: int | None
    memory_reason: str
    energy_j: float | None
    energy_reason: str
    error_max_ulp: float | None = None
    code_sha256: str | None = None
    configuration: str | None = None
    no_replay: str = ""
    """Why it cannot be captured in a graph; empty where it can, or where nobody asked."""


class ArmFailed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """An arm that raised. `kind` is a store.bundle.schemas.FailureKind, or `wrong` found after timing."""

    arm: str
    kind: str
    message: str
    step: str


class PassSamples(msgspec.Struct, frozen=True, kw_only=True, tag="samples"):
    """The raw samples of one arm in one pass of one replicate. All lists have the same length, or are empty."""

    arm: str
    passed: str
    calls_per_sample: int
    wall_s: list[float]
    thread_s: list[float]
    device_s: list[float]
    monotonic_s: list[float]
    round: list[int]
    position: list[int]
    mark: list[str]
    rank_spread: list[float]
    straggler: list[int]

    def by_clock(self, timer: str) -> list[float]:
        """Seconds of one call by a clock of the ratios: thread_time, wall or device_event."""
        return {"thread_time": self.thread_s, "wall": self.wall_s, "device_event": self.device_s}[timer]


class CaseDone(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """The task is finished; what failed was said before."""

    ratio_timer: str
    stop_reason: str
    arena_sets: int
    arena_bytes: int
    unsettled: str = ""
    """That the device's clock had not settled when timing began, in words; empty where it had."""


class CaseFailed(msgspec.Struct, frozen=True, kw_only=True, tag="case_failed"):
    """The case itself could not be set up: inputs, reference."""

    kind: str
    message: str


class CeilingSamples(msgspec.Struct, frozen=True, kw_only=True, tag="ceiling"):
    """All tries of one probe of the device's ceilings, in FLOP/s or bytes/s."""

    probe: str
    unit: str
    values: list[float]


Message = Hello | Step | ArmsListed | ArmPrepared | ArmFailed | PassSamples | CaseDone | CaseFailed | CeilingSamples


class Prepare(msgspec.Struct, frozen=True, kw_only=True, tag="prepare"):
    """Compile, check and weigh all arms of a case; nothing is timed."""

    case_id: str
    phase: Phase
    seed: int
    exclude: list[str]
    replay: bool = False
    """Also find out whether every arm can be captured in a graph."""


class Measure(msgspec.Struct, frozen=True, kw_only=True, tag="measure"):
    """Time the arms of a case, interleaved; check them again on fresh inputs."""

    case_id: str
    phase: Phase
    seed: int
    replicate: int
    exclude: list[str]
    method: Method
    recheck: bool
    replay: bool = False
    """Replay captured calls instead of making them: the arms of this case could all be captured."""


class Calibrate(msgspec.Struct, frozen=True, kw_only=True, tag="calibrate"):
    """Find the device's ceilings."""

    dtypes: list[str]
    tries: int
    threads: int


Task = Prepare | Measure | Calibrate


class WorkerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """First line to a worker."""

    device_kind: str
    device_index: int
    threads: int
    candidates: list[UserCandidate]
    memory_limit_bytes: int | None
    rank: int = 0
    world_size: int = 1
    rendezvous: str = ""
    planted: dict[str, float] = {}
    """case id -> size of its planted slow-down arm, 0.02 for 2 %; the others have none."""
    frozen: bool = False
    """Whether it runs in the sentinel's environment, which then tells all that is installed there."""


_ENCODER = msgspec.json.Encoder()


def encode(message: Message | Task | WorkerSetup) -> bytes:
    return _ENCODER.encode(message) + b"\n"


MESSAGES = msgspec.json.Decoder(Message)
TASKS = msgspec.json.Decoder(Task)
SETUP = msgspec.json.Decoder(WorkerSetup)
