"""`--lock-clocks` against the stub NVML: clocks are given back however a run ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import nvml_stub
import pytest

from collector.node.clocks import FILE, ClockError, is_choice, locked_clocks

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed: the stub cannot be built")

HOLD = """
import sys, pathlib, time
from collector.node.clocks import ClockError, locked_clocks
from collector.node.interrupt import interruptible
state, wanted, then = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
try:
    with interruptible(), locked_clocks("cuda", "GPU-2", wanted if wanted != "none" else None, state) as lock:
        print("held" if lock else "free", flush=True)
        if then == "wait":
            time.sleep(120)
        if then == "raise":
            raise RuntimeError("the run failed")
except ClockError as error:
    print(error)
except (RuntimeError, KeyboardInterrupt) as error:
    print(type(error).__name__)
"""


@pytest.fixture
def stub(tmp_path: Path) -> nvml_stub.NvmlStub:
    return nvml_stub.build(tmp_path)


@pytest.mark.parametrize(("wanted", "clock"), [("base", 1410), ("max", 1980), ("900", 900)])
@pytest.mark.parametrize("then", ["end", "raise"])
def test_clocks_are_given_back_at_every_orderly_end(
    stub: nvml_stub.NvmlStub, tmp_path: Path, wanted: str, clock: int, then: str
) -> None:
    """The card's SM clock is locked where asked, and let go, whether the block ends well or raises."""
    stub.python(HOLD, str(tmp_path / "state"), wanted, then)

    assert stub.calls() == [f"lock 2 {clock} {clock}", "reset 2 0 0"]
    assert not (tmp_path / "state" / FILE).exists()


def test_sigterm_gives_them_back_and_a_kill_leaves_that_to_the_next_run(
    stub: nvml_stub.NvmlStub, tmp_path: Path
) -> None:
    """SIGTERM is an orderly end; after SIGKILL the file is there, and the next run, locking or not, resets first."""
    for number, calls in ((signal.SIGTERM, ["lock 2 900 900", "reset 2 0 0"]), (signal.SIGKILL, ["lock 2 900 900"])):
        log = Path(f"{stub.answers}.log")
        log.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path / "state"), "900", "wait"],
            env=os.environ | stub.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        process.send_signal(number)
        process.communicate(timeout=60)
        assert stub.calls() == calls
    assert (tmp_path / "state" / FILE).exists()
    printed = stub.python(HOLD, str(tmp_path / "state"), "none", "end")

    assert (printed, stub.calls()[-1]) == ("free\n", "reset 2 0 0")
    assert not (tmp_path / "state" / FILE).exists()


def test_without_permission_it_says_so_and_leaves_nothing(stub: nvml_stub.NvmlStub, tmp_path: Path) -> None:
    """A refusal is one line with the way out; there is nothing to give back."""
    stub.say(error__nvmlDeviceSetGpuLockedClocks=4)
    printed = stub.python(HOLD, str(tmp_path / "state"), "base", "end")

    assert printed == (
        "the clocks of GPU-2 cannot be locked at 1410 MHz: NVML: Insufficient Permissions; "
        "run as root, or leave --lock-clocks out\n"
    )
    assert not (tmp_path / "state" / FILE).exists()


def test_clocks_that_cannot_be_given_back_are_not_forgotten(stub: nvml_stub.NvmlStub, tmp_path: Path) -> None:
    """While a reset is refused the file stays, and every run says what to do."""
    stub.say(error__nvmlDeviceResetGpuLockedClocks=4)
    first = stub.python(HOLD, str(tmp_path / "state"), "base", "end")
    second = stub.python(HOLD, str(tmp_path / "state"), "none", "end")

    assert "nvidia-smi --reset-gpu-clocks" in first and "nvidia-smi --reset-gpu-clocks" in second
    assert "free" not in second
    assert (tmp_path / "state" / FILE).exists()


def test_only_what_can_be_locked_is_taken(tmp_path: Path) -> None:
    """base, max and a clock in MHz are choices; a CPU has no clock that this locks."""
    assert [is_choice(text) for text in ("base", "max", "1410", "0", "-5", "fast", "")] == [True] * 3 + [False] * 4
    with (
        pytest.raises(ClockError, match="on a cpu device: only NVIDIA's"),
        locked_clocks("cpu", "cpu-1", "base", tmp_path),
    ):
        pass
