"""The torch side of one case: its arms, their check against the reference, their memory, their times."""

from __future__ import annotations

import gc
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from bench_suite.contract import Case, Role, parse_case_id
from bench_suite.operators.base import Inputs, Operator
from bench_suite.operators.compare import Comparison
from bench_suite.operators.registry import operator
from bench_suite.operators.result import Result
from bench_suite.suite import UserCandidate
from collector.node.arena import Arena
from collector.node.arms import BoundArm, Function, bound_arms
from collector.node.blackbox import Blackbox
from collector.node.clock import settle
from collector.node.code_identity import code_sha256, configuration
from collector.node.devices.base import Clocked, Device, EnergyUse, Replaying
from collector.node.failures import BrokenPromiseError, failure_kind, words
from collector.node.harness import CaseTimer, CaseTimes, Coordinator, Samples, TimedArm
from collector.node.planted import slowed, torch_filler
from collector.node.promises import checksum, compare_once, seen_by_one_thread, seen_by_the_stream, worst
from collector.node.protocol import (
    PART,
    ArmFailed,
    ArmPrepared,
    ArmsListed,
    CaseDone,
    CaseFailed,
    Measure,
    Message,
    PassSamples,
    Prepare,
    Step,
)
from collector.node.replay import ReplaySets
from store.bundle.schemas import InvalidReason

Check = tuple[Inputs, Result]
"""Inputs and their reference result."""
LARGE_INPUT_BYTES = 128 * 2**20
"""Inputs larger than this are checked on one input set before timing, not on two: making a set takes seconds."""
COMPILE_LIMIT_FACTOR = 3.0
"""A compiler, or a profiler that is started for the first time, may take so many times the limit of a step."""


class Bench:
    """Carries out Prepare and Measure tasks on one device and tells what happens as it happens."""

    def __init__(
        self,
        device: Device,
        candidates: list[UserCandidate],
        send: Callable[[Message], None],
        box: Blackbox,
        ranks: Coordinator,
        *,
        rank: int,
        planted: dict[str, float] | None = None,
    ) -> None:
        """`planted`: case id -> size of the slow-down arm that it gets."""
        self.device = device
        self.candidates = candidates
        self.send = send
        self.box = box
        self.ranks = ranks
        self.rank = rank
        self.planted = planted or {}

    def prepare(self, task: Prepare) -> None:
        """Compile, check and weigh every arm; a failing arm costs itself only."""
        case, op = self._open(task)
        seed = input_seed(task.seed, case)
        arms = self._arms(case, op, task.exclude)
        checks = self._checks(case, op, [seed] if large(op, case) else [seed, seed + 1])
        if checks is None:
            return
        for bound in arms:
            if bound.arm.role not in (Role.AA, Role.PLANTED):
                with self._guard(bound.arm.label):
                    self._prepare_arm(bound, case, op, checks, replay=task.replay)
        self.send(CaseDone(ratio_timer="", stop_reason="", arena_sets=0, arena_bytes=0))

    def measure(self, task: Measure) -> None:
        """Time all arms together, then check each again on inputs that it has never seen."""
        case, op = self._open(task)
        seed = input_seed(task.seed, case)
        try:
            self._announce("", "inputs")
            inputs = op.make_inputs(case, seed, self.device.torch_device, self.rank)
            arena = Arena(inputs, cache_bytes=self.device.identity.cache_bytes, warm=case.cache == "warm")
        except Exception as error:
            self.send(CaseFailed(kind=failure_kind(error, "inputs"), message=words(error)))
            return
        functions = self._functions(case, op, task, arena)
        arms, calls_each = self._timed(functions, arena, replay=task.replay)
        arms += self._parts(op, arena)
        unsettled = self._settle(arms)
        before = [checksum(t) for t in op.kept(inputs)]
        timer = CaseTimer(
            arms,
            self.device,
            task.method,
            seed=zlib.crc32(f"{task.seed}:{task.replicate}:{case.case_id}".encode()),
            coordinator=self.ranks,
            announce=self._announce,
            touch=self.box.write,
        )
        times = self._time(timer)
        if times is None:
            return
        done = CaseDone(
            ratio_timer=times.ratio_timer,
            stop_reason=times.stop_reason,
            arena_sets=len(arena.sets),
            arena_bytes=arena.bytes,
            unsettled=unsettled,
        )
        mutated = [checksum(t) for t in op.kept(inputs)] != before
        del arena, inputs, arms
        self._find_hidden(times)
        self._recheck(case, op, functions, seed + 2 + task.replicate, mutated=mutated, fresh=task.recheck)
        self._send_samples(times, calls_each, InvalidReason.CLOCK_UNSETTLED.value if unsettled else "")
        self.send(done)

    # The steps.

    def _open(self, task: Prepare | Measure) -> tuple[Case, Operator]:
        case = parse_case_id(task.case_id, task.phase)
        return case, operator(case.operator)

    def _announce(self, arm: str, step: str, limit_factor: float = 1.0) -> None:
        self.box.write(arm)
        self.send(Step(arm=arm, step=step, limit_factor=limit_factor))

    @contextmanager
    def _guard(self, label: str, step: str = "prepare") -> Iterator[None]:
        """Turn what an arm raises into its row."""
        try:
            yield
        except Exception as error:
            self.send(ArmFailed(arm=label, kind=failure_kind(error, step), message=words(error), step=step))

    def _arms(self, case: Case, op: Operator, exclude: list[str]) -> list[BoundArm]:
        """The arms of the case but those left out; all of them are announced."""
        device = torch.device(self.device.torch_device)
        bound = bound_arms(case, op, device, self.candidates, self.planted.get(case.case_id))
        self.send(ArmsListed(arms=[b.arm for b in bound], unsupported={}))
        return [b for b in bound if b.arm.label not in exclude]

    def _checks(self, case: Case, op: Operator, seeds: list[int]) -> list[Check] | None:
        """Inputs with their reference result, one pair a seed; None, and said, where that fails."""
        self._announce("", "reference")
        try:
            return [self._check(case, op, seed) for seed in seeds]
        except Exception as error:
            self.send(CaseFailed(kind=failure_kind(error, "reference"), message=words(error)))
            return None

    def _check(self, case: Case, op: Operator, seed: int) -> Check:
        inputs = op.make_inputs(case, seed, self.device.torch_device, self.rank)
        if not op.contract.collective:
            return inputs, op.reference(case, inputs, 0)
        world = range(self.ranks.world_size)
        all_inputs = [op.make_inputs(case, seed, self.device.torch_device, rank) for rank in world]
        return inputs, op.reference(case, all_inputs, self.rank)

    def _prepare_arm(self, bound: BoundArm, case: Case, op: Operator, checks: list[Check], *, replay: bool) -> None:
        label = bound.arm.label
        self._announce(label, "compile", COMPILE_LIMIT_FACTOR)
        inputs = checks[0][0]
        begun = time.perf_counter()
        function = bound.prepare(case, self.device.torch_device)
        compiled = time.perf_counter()
        given = op.private(inputs)
        function(*given)
        self.device.synchronize()
        first = time.perf_counter()
        self._announce(label, "check")
        comparison = worst(self._compared(function, case, op, checks))
        if self.device.ratio_timer(torch.get_num_threads(), self.ranks.world_size) == "thread_time":
            seen_by_one_thread(function, given)
        comparison_failed = self.ranks.worst(float(not comparison.ok)) > 0
        no_replay = self._why_no_replay(function, case, op, checks[0]) if replay else ""
        self._announce(label, "memory", COMPILE_LIMIT_FACTOR)
        memory = self.device.measure_memory(lambda: function(*given))
        energy = self._energy(label, op, lambda: function(*given))
        self.send(
            ArmPrepared(
                arm=label,
                compile_s=compiled - begun,
                first_call_s=first - compiled,
                ok=not comparison_failed,
                reason=comparison.reason or ("another rank's result is wrong" if comparison_failed else ""),
                code_sha256=code_sha256(function) if bound.arm.role is Role.CANDIDATE else None,
                configuration=configuration(function) if bound.arm.role is Role.CANDIDATE else None,
                error_max_abs=comparison.max_abs,
                error_max_rel=comparison.max_rel,
                error_max_ulp=comparison.max_ulp,
                error_mismatch_share=comparison.mismatch_share,
                error_margin=comparison.margin,
                peak_memory_bytes=memory.peak_bytes,
                workspace_bytes=memory.workspace_bytes,
                reserved_bytes=memory.reserved_bytes,
                memory_reason=memory.reason,
                energy_j=energy.joules,
                energy_reason=energy.reason,
                no_replay=no_replay,
            )
        )

    def _compared(self, function: Function, case: Case, op: Operator, checks: list[Check]) -> list[Comparison]:
        """One call a check, compared. What raises on any rank raises on all: none may wait for one that went on."""
        found: list[Comparison] = []
        raised: Exception | None = None
        try:
            found = [compare_once(function, case, op, self.device, i, r) for i, r in checks]
        except Exception as error:
            raised = error
        if self.ranks.worst(float(raised is not None)) > 0:
            raise raised or BrokenPromiseError("it broke its promise on another rank")
        return found

    def _why_no_replay(self, function: Function, case: Case, op: Operator, check: Check) -> str:
        """Why the arm's call cannot be recorded and replayed; empty where that gives the right result."""
        inputs, reference = check
        results: list[Result] = []
        assert isinstance(self.device, Replaying)
        try:
            [launch] = self.device.capture([lambda: results.append(function(*inputs))])
            launch()
            self.device.synchronize()
        except Exception as error:
            return words(error)
        comparison = op.check(case, inputs, results[-1], reference)
        return "" if comparison.ok else f"what is replayed is wrong: {comparison.reason}"

    def _energy(self, label: str, op: Operator, call: Callable[[], object]) -> EnergyUse:
        """Of one device: ranks that each call for a second, and not equally often, would wait for each other."""
        if op.contract.collective:
            return EnergyUse(joules=None, reason="energy is measured on one device; this call takes several")
        self._announce(label, "energy", COMPILE_LIMIT_FACTOR)
        return self.device.measure_energy(call)

    def _functions(self, case: Case, op: Operator, task: Measure, arena: Arena) -> list[tuple[BoundArm, Function]]:
        """The calls of all arms that can be made, each called once."""
        made: list[tuple[BoundArm, Function]] = []
        for bound in self._arms(case, op, task.exclude):
            with self._guard(bound.arm.label):
                self._announce(bound.arm.label, "compile", COMPILE_LIMIT_FACTOR)
                function = bound.prepare(case, self.device.torch_device)
                function(*arena.sets[0])
                self.device.synchronize()
                if bound.arm.planted is not None:
                    timer = self.device.ratio_timer(task.method.threads, self.ranks.world_size)
                    filler = torch_filler(self.device.torch_device)
                    call = _call(function, arena)
                    function = slowed(function, call, self.device, timer, bound.arm.planted, filler)
                made.append((bound, function))
        return made

    def _timed(
        self, functions: list[tuple[BoundArm, Function]], arena: Arena, *, replay: bool
    ) -> tuple[list[TimedArm], int]:
        """The arms as the harness calls them, and how many calls of an implementation one of those makes."""
        if not replay:
            return [TimedArm(label=b.arm.label, role=b.arm.role, call=_call(f, arena)) for b, f in functions], 1
        assert isinstance(self.device, Replaying)
        sets = ReplaySets(arena.sets)
        arms = []
        for bound, function in functions:
            with self._guard(bound.arm.label):
                self._announce(bound.arm.label, "capture", COMPILE_LIMIT_FACTOR)
                call = sets.capture(function, self.device)
                arms.append(TimedArm(label=bound.arm.label, role=bound.arm.role, call=call))
        return arms, sets.calls_each

    def _parts(self, op: Operator, arena: Arena) -> list[TimedArm]:
        """The pieces of an operator's work, in every round beside the arms; as audits, they decide no stopping."""
        return [
            TimedArm(label=f"{PART}{name}", role=Role.PLANTED, call=_call(function, arena))
            for name, function in op.parts.items()
        ]

    def _settle(self, arms: list[TimedArm]) -> str:
        """Make calls until the device's clock has settled; in words where it has not, or nothing tells."""
        if not arms or not isinstance(self.device, Clocked):
            return ""
        base = next((arm for arm in arms if arm.role is Role.OPTIMIZED), arms[0])
        self._announce(base.label, "warm-up")
        return settle(self.device, base.call, self.device.sample)

    def _time(self, timer: CaseTimer) -> CaseTimes | None:
        """Run the timer without garbage collection; None, and said, where an arm raises."""
        gc.collect()
        gc.disable()
        try:
            return timer.run()
        except Exception as error:
            label = self.box.read()
            self.send(ArmFailed(arm=label, kind=failure_kind(error, "timing"), message=words(error), step="timing"))
            self.send(CaseFailed(kind="arm_failed", message=f"{label} failed while being timed"))
            return None
        finally:
            gc.enable()

    def _find_hidden(self, times: CaseTimes) -> None:
        """An arm whose work its clock does not see is wrong: a stream of its own, which nothing waits for."""
        if times.ratio_timer == "device_event":
            for label in times.rounds:
                with self._guard(label, "recheck"):
                    seen_by_the_stream(label, times.rounds, Role.OPTIMIZED.value)

    def _recheck(
        self,
        case: Case,
        op: Operator,
        functions: list[tuple[BoundArm, Function]],
        seed: int,
        *,
        mutated: bool,
        fresh: bool,
    ) -> None:
        """After timing: an arm that has learnt its inputs by heart, or that changed them, is wrong."""
        checks = self._checks(case, op, [seed]) if fresh else []
        for bound, function in functions:
            with self._guard(bound.arm.label, "recheck"):
                self._announce(bound.arm.label, "recheck")
                results = self._compared(function, case, op, checks or [])
                bad = next((r for r in results if not r.ok), None)
                failed = self.ranks.worst(float(bad is not None)) > 0
                if failed:
                    why = bad.reason if bad else "another rank's result is wrong"
                    raise BrokenPromiseError(f"wrong on fresh inputs after timing: {why}")
        if mutated:
            self.send(
                ArmFailed(arm="", kind="wrong", message="inputs changed while the arms were timed", step="recheck")
            )

    def _send_samples(self, times: CaseTimes, calls_each: int, mark: str) -> None:
        if self.rank != 0:
            return
        for passed, by_arm in (("rounds", times.rounds), ("single", times.single)):
            for label, samples in by_arm.items():
                self.send(pass_samples(label, passed, samples, calls_each=calls_each, mark=mark))


def _call(function: Function, arena: Arena) -> Callable[[], object]:
    def call() -> object:
        return function(*arena.next())

    return call


def pass_samples(label: str, passed: str, samples: Samples, *, calls_each: int = 1, mark: str = "") -> PassSamples:
    """The raw samples as they travel: seconds of one call. One call of the harness made `calls_each` of the arm's."""
    k = samples.calls * calls_each
    return PassSamples(
        arm=label,
        passed=passed,
        calls_per_sample=k,
        wall_s=[s.wall_s / k for s in samples.samples],
        thread_s=[s.thread_s / k for s in samples.samples if s.thread_s is not None],
        device_s=[s.device_s / k for s in samples.samples if s.device_s is not None],
        monotonic_s=[s.start_s for s in samples.samples],
        round=samples.round,
        position=samples.position,
        mark=[mark] * len(samples.samples),
        rank_spread=samples.rank_spread,
        straggler=samples.straggler,
    )


def input_seed(seed: int, case: Case) -> int:
    """The seed of a case's inputs: the same in every run of a suite, another for every case."""
    return (seed * 1_000_003 + zlib.crc32(case.case_id.encode())) % 2**31


def large(op: Operator, case: Case) -> bool:
    return op.contract.input_bytes(case) > LARGE_INPUT_BYTES
