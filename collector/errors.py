"""From an exception to one line and an exit code.

0 done (failed rows are data) · 1 regression, where asked to fail on it · 2 usage or configuration · 3 device or
environment · 4 undecided, where asked to decide · 75 another run holds the lock.

The classes are named, not imported: a command that never touches the store must not load it to print an error.
"""

from __future__ import annotations

import errno
import sys

REGRESSION, USAGE, ENVIRONMENT, UNDECIDED, LOCKED = 1, 2, 3, 4, 75

EXIT_CODES = {
    "bench_suite.contract.ContractError": USAGE,
    "bench_suite.suite_file.SuiteError": USAGE,
    "bench_suite.shapes.errors.ShapeError": USAGE,
    "bench_suite.static.StaticError": USAGE,
    "dashboard.launch.DashboardError": USAGE,
    "collector.node.options.RunError": USAGE,
    "collector.errors.UsageError": USAGE,
    "collector.host.notify.errors.AlertConfigError": USAGE,
    "collector.host.notify.errors.SecretError": USAGE,
    "collector.host.notify.errors.WebhookError": USAGE,
    "collector.host.schedule.errors.ScheduleError": USAGE,
    "detection.policy.PolicyError": USAGE,
    "store.bundle.errors.BundleError": USAGE,
    "store.bundle.errors.RowsError": USAGE,
    "store.bundle.errors.FullPlaceError": ENVIRONMENT,
    "store.exchange.errors.ImportRefused": USAGE,
    "store.lake.errors.StoreError": USAGE,
    "store.lake.errors.StoreBusyError": LOCKED,
    "store.lake.errors.StoreFullError": ENVIRONMENT,
    "collector.node.crew.CrewError": ENVIRONMENT,
    "collector.node.devices.DeviceError": ENVIRONMENT,
    "collector.errors.MissingExtraError": ENVIRONMENT,
    "collector.errors.HostFailedError": ENVIRONMENT,
    "collector.node.lock.LockHeldError": LOCKED,
    "collector.host.schedule.errors.ScheduleBusyError": LOCKED,
}


class UsageError(ValueError):
    """Something on the command line that cannot be done; one line: what, value, rule, way out."""


class MissingExtraError(RuntimeError):
    """A part of the installation that this command needs is not there."""


class HostFailedError(RuntimeError):
    """The judging process ended in a way it should not."""


def exit_code(error: BaseException) -> int | None:
    """The exit code of a known error, by its class or a base of it, or of a full disk; None: a bug of ours."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ENVIRONMENT
    for kind in type(error).__mro__:
        code = EXIT_CODES.get(f"{kind.__module__}.{kind.__qualname__}")
        if code is not None:
            return code
    return None


def report(error: Exception) -> int:
    """Say a known error in one line on stderr and give its exit code; raise it where it is a bug of ours."""
    known: Exception | None = error
    if isinstance(error, ModuleNotFoundError):
        known = missing_extra(error)
    code = exit_code(known) if known is not None else None
    if code is None:
        raise error
    sys.stderr.write(" ".join(str(known).split()) + "\n")
    return code


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError | None:
    """What to install for a module that is missing, where an extra of ours has it."""
    extras = {
        "node": {"torch", "triton", "pyarrow", "obstore", "pynvml", "psutil", "filelock"},
        "host": {
            *("deltalake", "duckdb", "pandas", "scipy", "numba", "streamlit", "plotly", "apscheduler", "httpx"),
            "prometheus_client",
        },
        "fleet": {"dask", "distributed"},
    }
    name = (error.name or "").split(".")[0]
    for extra, modules in extras.items():
        if name in modules:
            return MissingExtraError(f"{name} is not installed; pip install 'kernel-observatory[{extra}]'")
    return None
