"""The candidate of an accelerator: the suite's own Triton kernel, imported when it is asked for."""

from __future__ import annotations

import importlib

import torch

from bench_suite.contract import Case, Role
from bench_suite.operators.base import Implementation, Origin, Runner, Unsupported


def triton_candidate(module: str, function: str = "launch") -> Implementation:
    """`bench_suite.kernels.<module>.<function>` as an implementation; it takes the contract's inputs in call order."""

    def prepare(case: Case, device: torch.device) -> Runner:
        try:
            from triton.runtime import driver

            driver.active.get_current_target()
        except ImportError as error:
            raise Unsupported(f"Triton is not installed ({error})") from error
        except RuntimeError as error:  # "0 active drivers ([])": no backend of this Triton drives the device
            raise Unsupported(f"Triton has no driver for {device.type} here: {error}") from error
        runner: Runner = getattr(importlib.import_module(f"bench_suite.kernels.{module}"), function)
        return runner

    return Implementation(
        role=Role.CANDIDATE, origin=Origin.HANDWRITTEN, name=f"triton {module}.{function}", prepare=prepare
    )
