"""A worker: one process that holds a device and walks through tasks. Started by collector.node.crew.

It speaks on the file descriptor it is given, never on stdout, which belongs to whatever the kernels print.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collector.node.blackbox import Blackbox
from collector.node.protocol import (
    SETUP,
    TASKS,
    Calibrate,
    Hello,
    Measure,
    Message,
    Prepare,
    WorkerSetup,
    encode,
)

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent ends, however it ends: no worker outlives a killed run.

    An orderly stop is the parent's to make: a service manager that signals all of a unit's processes at once must not
    look like an arm that crashed.
    """
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which the programs it starts would inherit
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def main() -> int:
    out_fd, box_path = int(sys.argv[1]), Path(sys.argv[2])
    die_with_parent(int(sys.argv[3]))
    setup = SETUP.decode(sys.stdin.buffer.readline())

    def send(message: Message) -> None:
        data = encode(message)
        while data:
            data = data[os.write(out_fd, data) :]

    with Blackbox(box_path) as box:
        box.write("")
        serve(setup, send, box)
    return 0


def serve(setup: WorkerSetup, send: object, box: Blackbox) -> None:
    """Open the device, say hello, carry out tasks until stdin closes."""
    import torch

    from collector.node import ranks
    from collector.node.bench import Bench
    from collector.node.calibrate import calibrate
    from collector.node.devices import open_device
    from collector.node.environment import installed_packages, versions
    from collector.node.harness import Coordinator, Solo
    from collector.node.replay import can_replay

    assert callable(send)
    torch.set_num_threads(setup.threads)
    device = open_device(setup.device_kind, setup.device_index)
    coordinator: Coordinator = Solo()
    if setup.world_size > 1:
        ranks.join(device, rank=setup.rank, world_size=setup.world_size, rendezvous=setup.rendezvous)
        coordinator = ranks.Ranks(device, box.tick)
    import msgspec

    send(
        Hello(
            pid=os.getpid(),
            device=msgspec.to_builtins(device.identity),
            versions=versions() | (installed_packages() if setup.frozen else {}),
            timer=device.ratio_timer(setup.threads, 1),
            ranks_timer=device.ratio_timer(setup.threads, 2),
            replays=can_replay(device),
        )
    )
    bench = Bench(device, setup.candidates, send, box, coordinator, rank=setup.rank, planted=setup.planted)
    with torch.no_grad():
        for line in sys.stdin.buffer:
            task = TASKS.decode(line)
            with memory_limit(setup.memory_limit_bytes):
                match task:
                    case Prepare():
                        bench.prepare(task)
                    case Measure():
                        bench.measure(task)
                    case Calibrate():
                        calibrate(task, device, send)
    ranks.leave()


@contextmanager
def memory_limit(limit_bytes: int | None) -> Iterator[None]:
    """Let the address space grow by at most this much: an allocation beyond it fails in the arm that asked for it."""
    if limit_bytes is None:
        yield
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
