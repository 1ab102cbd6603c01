"""Several devices of a node by one command: a run each, one after the other or, where asked for, at once.

Each is a `collector run` of its own. Those that run at once share power, links and the host's cores, so that their rows
are series of their own (`at_once` in the settings), and what they suspect is not confirmed beside the others. Each has
a state folder of its own below the usual one: what one leaves is not another's to publish.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

AT_ONCE_VARIABLE = "KERNEL_OBSERVATORY_AT_ONCE"
"""Tells a run how many devices of its node run at the same time."""
OPTIONS_OF_THE_WHOLE = ("--device", "--at-once", "--one-after-the-other")


def run_each(kind: str, indices: Sequence[int], given: Sequence[str], *, at_once: bool) -> int:
    """Run the command line `given` for each device; the first exit code that is not 0. Raises LockHeldError."""
    commands = [command_for(kind, index, given) for index in indices]
    if not at_once:
        codes = [subprocess.run(command, check=False).returncode for command in commands]
        return next((code for code in codes if code), 0)
    from collector.node.folders import state_folder
    from collector.node.lock import run_lock

    with run_lock(state_folder() / "run.lock"):
        running = [
            subprocess.Popen(
                [*command, "--no-confirm"],
                env=os.environ
                | {
                    AT_ONCE_VARIABLE: str(len(indices)),
                    "XDG_STATE_HOME": str(state_folder() / "at-once" / f"{kind}-{index}"),
                },
                stdout=subprocess.PIPE,
                text=True,
            )
            for command, index in zip(commands, indices, strict=True)
        ]
        try:
            for process in running:
                sys.stdout.write(process.communicate()[0])
                sys.stdout.flush()
        except KeyboardInterrupt:
            for process in running:  # each publishes what it has, as it would alone
                process.terminate()
            for process in running:
                sys.stdout.write(process.communicate()[0])
        codes = [process.returncode for process in running]
    return next((code for code in codes if code), 0)


def command_for(kind: str, index: int, given: Sequence[str]) -> list[str]:
    """The command line of one device: `given` without what is about all of them."""
    kept, skip = [], False
    for word in given:
        name, has_value = word.partition("=")[0], "=" in word
        if skip or name in OPTIONS_OF_THE_WHOLE:
            skip = not skip and name == "--device" and not has_value
            continue
        kept.append(word)
    return [sys.executable, "-m", "collector.cli.main", *kept, "--device", f"{kind}:{index}"]
