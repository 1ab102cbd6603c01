"""The templates of configs/launch do what they say: cron lines in an empty environment, units that systemd accepts."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import pytest

from collector.host.schedule.config import read_schedule
from store.lake.lake import Lake

LAUNCH = Path(str(files("configs"))) / "launch"
COLLECTOR = Path(sys.executable).with_name("collector")
INSTALLED = "/opt/kernel-observatory/.venv/bin/collector"


def cron_commands(store: Path, logs: Path) -> list[str]:
    """The commands of the crontab, for this installation and these folders."""
    lines = (LAUNCH / "crontab").read_text().splitlines()
    commands = [match[1] for line in lines if (match := re.match(r"(?:\S+ ){5}(/.*)$", line))]
    text = "\n".join(commands).replace(INSTALLED, str(COLLECTOR))
    text = text.replace("/var/log/kernel-observatory", str(logs))
    return text.replace("--suite nightly", f"--suite no-such-suite --store {store}").splitlines()


def under_cron(command: str, store: Path) -> subprocess.CompletedProcess[str]:
    """As cron does: an empty environment but for what the crontab sets, /bin/sh, no terminal."""
    given = ["env", "-i", f"KERNEL_OBSERVATORY_STORE={store}", "/bin/sh", "-c", command]
    return subprocess.run(given, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=120)


def test_cron_is_quiet_on_success_and_says_one_line_on_failure(tmp_path: Path) -> None:
    """What goes wrong is one line for the mail; what goes well is in the log."""
    Lake.create(tmp_path / "store").close()
    night, _, tell = cron_commands(tmp_path / "store", tmp_path)
    failed = under_cron(night, tmp_path / "store")
    assert failed.returncode == 2 and failed.stdout == ""
    assert len(failed.stderr.splitlines()) == 1 and "no-such-suite" in failed.stderr
    told = under_cron(tell, tmp_path / "store")
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    assert (tmp_path / "notify.log").read_text().startswith("0 sent, 0 waiting")


def hold_run_lock(state: str) -> None:
    """Child process: measures for ever, as far as others can tell."""
    from collector.node.lock import run_lock

    with run_lock(Path(state) / "kernel-observatory" / "run.lock"):
        time.sleep(600)


def test_two_nights_at_once_under_cron_and_a_killed_holder(tmp_path: Path) -> None:
    """The second yields with 75 and one line that names the first; kill -9 of the first frees the machine at once."""
    holder = multiprocessing.get_context("spawn").Process(target=hold_run_lock, args=(str(tmp_path),))
    holder.start()
    try:
        lock = tmp_path / "kernel-observatory" / "run.lock"
        while not lock.exists() or lock.read_text() != str(holder.pid):
            time.sleep(0.05)
        night = f"XDG_STATE_HOME={tmp_path} " + cron_commands(tmp_path / "store", tmp_path)[0]
        second = under_cron(night, tmp_path / "store")
        assert (second.returncode, second.stdout) == (75, "")
        assert len(second.stderr.splitlines()) == 1 and f"process {holder.pid}" in second.stderr
    finally:
        holder.kill()
        holder.join()
    third = under_cron(night, tmp_path / "store")
    assert third.returncode == 2 and "no-such-suite" in third.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """systemd-analyze verify has nothing to say."""
    for unit in [*LAUNCH.glob("*.service"), *LAUNCH.glob("*.timer")]:
        (tmp_path / unit.name).write_text(unit.read_text().replace(INSTALLED, str(COLLECTOR)))
    units = sorted(str(path) for path in tmp_path.iterdir())
    assert len(units) == 6
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_schedule_can_be_used_and_its_commands_exist() -> None:
    """Each job's command is one of collector's, with options that it has."""
    jobs = read_schedule(LAUNCH / "schedule.toml")
    assert [job.name for job in jobs] == ["night", "judge", "tell"]
    for job in jobs:
        words = [word for word in job.command if word.startswith("--") or word == job.command[0]]
        shown = subprocess.run([str(COLLECTOR), words[0], "--help"], capture_output=True, text=True, check=True)
        assert all(word in shown.stdout for word in words[1:])
