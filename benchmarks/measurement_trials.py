"""What one trial gives, where trials are kept, and how a method gets a fresh process."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

T = TypeVar("T")


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a method says of log(B / A) after a share of its time, and what its interval needs.

    `base` and `arm` are one value a process: logarithms of seconds. A paired method has ratios in `arm` and zeros in
    `base`. A method of one process has one each; `within_se` and `within_df` are then what its samples, taken as
    independent, say of the error (Welch).
    """

    share: float
    clock: str
    median: float
    mean: float
    minimum: float
    base: list[float]
    arm: list[float]
    paired: bool
    within_se: float | None
    within_df: float | None
    samples: int


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one operator once. `seconds` is wall time of the method's own work, start-up left out.

    `asked_s` is the budget that it was given, steered so that all take the same `seconds`; `other_core_busy` the share
    of time in which the other core worked meanwhile, for us or for others.
    """

    block: int
    trial: int
    operator: str
    loaded: bool
    method: str
    order: int
    other_core_busy: float
    asked_s: float
    seconds: float
    start_up_s: float
    estimates: list[Estimate]


def in_fresh_process(work: Callable[[], T]) -> T:
    """The result of `work` in a forked process, which has torch imported already; RuntimeError where it dies.

    Memory is the child's own: inputs, arena and outputs lie on pages that it gets anew.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read)
            answer = pickle.dumps(work())
            with os.fdopen(write, "wb") as out:
                out.write(answer)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError(f"a measuring process ended with status {status}, must be 0: see the lines above")
    return pickle.loads(data)  # type: ignore[no-any-return]


class Journal:
    """Trials, one line of JSON each: appended while they run, so that a stopped run goes on where it was."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, trials: Iterable[Trial]) -> None:
        with self.path.open("ab") as file:
            for trial in trials:
                file.write(msgspec.json.encode(trial) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[Trial]:
        """All whole lines; a last line that was cut by a kill is left out."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")
        return [msgspec.json.decode(line, type=Trial) for line in lines[:-1] if line]

    def blocks(self) -> set[int]:
        return {trial.block for trial in self.read()}


def write_parquet(trials: list[Trial], path: Path) -> None:
    """All trials in one file, one row for each estimate, to be committed."""
    rows = []
    for trial in trials:
        head = {k: v for k, v in msgspec.to_builtins(trial).items() if k != "estimates"}
        rows += [head | msgspec.to_builtins(estimate) for estimate in trial.estimates]
    rounded = [{k: _short(v) for k, v in row.items()} for row in rows]
    pq.write_table(pa.Table.from_pylist(rounded), path, compression="zstd", compression_level=19)


def read_parquet(path: Path) -> list[Trial]:
    """The inverse of write_parquet."""
    trials: list[Trial] = []
    names = [f for f in Trial.__struct_fields__ if f != "estimates"]
    fields = Estimate.__struct_fields__
    last: tuple[object, ...] = ()
    for row in pq.read_table(path).to_pylist():
        key = tuple(row[n] for n in names)
        estimate = msgspec.convert({f: row[f] for f in fields}, type=Estimate)
        if key == last:
            trials[-1].estimates.append(estimate)
        else:
            trials.append(msgspec.convert({n: row[n] for n in names} | {"estimates": [estimate]}, type=Trial))
        last = key
    return trials


def _short(value: object) -> object:
    """Six decimals: a hundredth of the smallest error that the table shows."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, list):
        return [_short(v) for v in value]
    return value


def write_facts(path: Path, facts: dict[str, object]) -> None:
    path.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
