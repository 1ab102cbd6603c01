"""The arms of a case on a device: the operator's implementations, the user's, the A/A copy and a planted one."""

from __future__ import annotations

import importlib.util
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench_suite.contract import Case, Role
from bench_suite.operators.base import Operator, Origin
from bench_suite.operators.result import Result
from bench_suite.suite import UserCandidate
from collector.node.failures import CandidateError, words
from collector.node.protocol import Arm

Function = Callable[..., Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundArm:
    """An arm with the function that makes its call."""

    arm: Arm
    prepare: Callable[[Case, torch.device], Function]


def bound_arms(
    case: Case, op: Operator, device: torch.device, candidates: Sequence[UserCandidate], planted: float | None
) -> list[BoundArm]:
    """All arms of the case on this device, in series order; `planted` is the size of the slow-down arm, None: none."""
    bound: list[BoundArm] = []
    seen_candidate = False
    for i in op.implementations(device.type):
        label = i.role.value
        if i.role is Role.CANDIDATE:
            label = f"candidate:{i.name}" if seen_candidate else "candidate"
            seen_candidate = True
        bound.append(_bound(label, i.role, i.name, i.origin, i.prepare))
        if i.role is Role.OPTIMIZED:
            bound.append(_bound(Role.AA.value, Role.AA, i.name, i.origin, i.prepare))
            if planted is not None:
                name = f"{i.name}, {planted:.0%} more work"
                bound.append(_bound(Role.PLANTED.value, Role.PLANTED, name, i.origin, i.prepare, planted))
    for user in candidates:
        if user.operator == case.operator:
            code = f"{Path(user.file).name}:{user.function}"
            label = f"candidate:{user.name}"
            bound.append(_bound(label, Role.CANDIDATE, code, Origin.HANDWRITTEN, _user_prepare(user)))
    return bound


def _bound(
    label: str,
    role: Role,
    implementation: str,
    origin: Origin,
    prepare: Callable[[Case, torch.device], Function],
    planted: float | None = None,
) -> BoundArm:
    arm = Arm(label=label, role=role, implementation=implementation, origin=origin.value, planted=planted)
    return BoundArm(arm=arm, prepare=prepare)


def _user_prepare(user: UserCandidate) -> Callable[[Case, torch.device], Function]:
    def prepare(case: Case, device: torch.device) -> Function:
        found: Any = load_user_function(user)
        return found(case, device) if user.prepare else found  # type: ignore[no-any-return]

    return prepare


def load_user_function(user: UserCandidate) -> Any:
    """The function that a suite's [[candidate]] names; raises CandidateError with one line."""
    path = Path(user.file)
    name = f"kernel_observatory_candidate_{zlib.crc32(str(path).encode()):08x}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise CandidateError(f"candidate {user.name}: {path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            raise CandidateError(f"candidate {user.name}: {path.name} does not load: {words(error)}") from error
    function = getattr(sys.modules[name], user.function, None)
    if not callable(function):
        raise CandidateError(f"candidate {user.name}: {path.name} has no function {user.function}")
    return function
