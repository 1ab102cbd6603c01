"""The candidate of an accelerator: the suite's own Triton kernel, imported when it is asked for."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from bench_suite.contract import Case, Role
from bench_suite.operators.base import Implementation, Origin, Runner, Unsupported
from bench_suite.operators.result import Result


def triton_candidate(
    module: str,
    function: str = "launch",
    *,
    settings: Callable[[Case], Mapping[str, float]] | None = None,
    why_not: Callable[[Any, Case, torch.device], str] | None = None,
) -> Implementation:
    """`bench_suite.kernels.<module>.<function>` as an implementation; it takes the contract's inputs in call order.

    `settings`: what of the case it takes beside them, by name. `why_not`: asked of the module, the case and the device;
    what the kernel does not take, or an empty text.
    """

    def prepare(case: Case, device: torch.device) -> Runner:
        try:
            from triton.runtime import driver

            driver.active.get_current_target()
        except ImportError as error:
            raise Unsupported(f"Triton is not installed ({error})") from error
        except RuntimeError as error:  # "0 active drivers ([])": no backend of this Triton drives the device
            raise Unsupported(f"Triton has no driver for {device.type} here: {error}") from error
        loaded = importlib.import_module(f"bench_suite.kernels.{module}")
        reason = why_not(loaded, case, device) if why_not is not None else ""
        if reason:
            raise Unsupported(reason)
        runner: Runner = getattr(loaded, function)
        if settings is None:
            return runner
        given = settings(case)

        @functools.wraps(runner)  # what is hashed as its code is the kernel's
        def configured(*inputs: torch.Tensor) -> Result:
            return runner(*inputs, **given)

        return configured

    return Implementation(
        role=Role.CANDIDATE, origin=Origin.HANDWRITTEN, name=f"triton {module}.{function}", prepare=prepare
    )
