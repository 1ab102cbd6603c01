"""`collector calibrate`, `confirm` and `push`: the other things that a node does."""

from __future__ import annotations

import json
import platform
import shlex
import shutil
import sys
from typing import Annotated, Any

import typer

from collector.cli.places import store_uri


def register(app: typer.Typer) -> None:
    app.command("calibrate")(calibrate)
    app.command("confirm")(confirm)
    app.command("push")(push)


def calibrate(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, xpu ...; KIND:INDEX for one of several.")] = "auto",
    dtype: Annotated[
        list[str] | None, typer.Option(help="Element type; may be repeated. fp32 and bf16 if none.")
    ] = None,
    threads: Annotated[int, typer.Option(help="CPU threads; ceilings are kept for each number.")] = 1,
    tries: Annotated[int, typer.Option(help="Tries of each probe; the best one is the ceiling.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, every try.")] = False,
) -> None:
    """Measure this device's ceilings: the roofs that its kernels are held against.

    Example: collector calibrate --device cpu --threads 1
    """
    from bench_suite.contract import parse_dtype
    from collector.cli.run import parse_device
    from collector.cli.words import significant
    from collector.errors import UsageError
    from collector.node.ceilings import ceilings_path, measure
    from collector.node.crew import Crew
    from collector.node.devices.base import DeviceIdentity
    from collector.node.folders import cache_folder, work_folder
    from collector.node.protocol import WorkerSetup
    from collector.node.worker_variables import worker_environment

    if threads < 1 or tries < 1:
        raise UsageError(f"--threads is {threads} and --tries is {tries}, both must be at least 1")
    dtypes = [parse_dtype(d, where="--dtype").value for d in dtype or ("fp32", "bf16")]
    kind, index = parse_device(device)
    setup = WorkerSetup(device_kind=kind, device_index=index, threads=threads, candidates=[], memory_limit_bytes=None)
    with work_folder() as folder, Crew(setup, folder=folder, environment=worker_environment(threads)) as crew:
        import msgspec

        identity = msgspec.convert(crew.start().device, DeviceIdentity)
        path = ceilings_path(cache_folder() / "ceilings", identity, threads)
        found = measure(crew, dtypes, threads, tries, path)
    if found is None:
        raise UsageError(f"{identity.model}: the probes gave no ceiling; try other dtypes than {', '.join(dtypes)}")
    if as_json:
        typer.echo(found.to_json())
        return
    typer.echo(f"{identity.model} ({identity.unit}), {threads} threads, best of {tries} tries a size:")
    for name, rate in found.flop_per_s.items():
        typer.echo(f"  {name:<6} {significant(rate / 1e12)} TFLOP/s")
    typer.echo(f"  memory {significant(found.bandwidth_bytes_per_s / 1e9)} GB/s (triad, three arrays counted)")
    typer.echo(f"kept in {path}")


def confirm(
    store: Annotated[str | None, typer.Option(help="Folder or s3:// of the store.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, xpu ...; KIND:INDEX for one of several.")] = "auto",
    suite: Annotated[str, typer.Option(help="Suite file of cases that no shipped suite has.")] = "quick",
    policy: Annotated[str, typer.Option(help="Policy to judge by.")] = "default",
    case_limit: Annotated[float, typer.Option(help="Seconds after which one step of a case is called hung.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Answer the confirm requests that wait for this device: measure each suspected case again, in fresh processes.

    Example: collector confirm --store /srv/observatory
    """
    from collector.cli.night import Confirmation, HostProcess, Judgement
    from collector.cli.progress import reporter
    from collector.cli.run import parse_device
    from collector.errors import MissingExtraError
    from collector.node.folders import spool_folder, state_folder
    from collector.node.lock import run_lock
    from collector.node.opening import probe_device
    from collector.node.run import RunOptions

    place = store_uri(store)
    kind, index = parse_device(device)
    with run_lock(state_folder() / "run.lock"):
        host = HostProcess(place, policy)
        host.open_store()
        identity = probe_device(kind, index)
        document = host.call("judge", device_unit=identity.unit)
        if host.missing:
            raise MissingExtraError(host.missing)
        options = RunOptions(
            suite=suite,
            device=kind,
            device_index=index,
            case_limit_s=case_limit,
            spool=spool_folder(),
            command=shlex.join(["collector", *sys.argv[1:]]),
        )
        before = Judgement(**document)
        after = Confirmation(host, options, identity.unit, reporter(quiet=as_json)).answer_all(before)
    if as_json:
        typer.echo(json.dumps({"confirm_run_ids": after.confirm_run_ids, "findings": after.findings}, default=str))
        return
    typer.echo(f"{len(after.confirm_run_ids)} confirm runs on {identity.unit} of {platform.node()}")
    for finding in after.findings:
        typer.echo(f"{finding['finding_id']} {finding['state']}: {finding['sentence']}")


def push(
    store: Annotated[str | None, typer.Option(help="Folder or s3:// of the store.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Send the runs that wait on this machine to a store; what has arrived already is not sent twice.

    Example: collector push --store s3://observatory/lake
    """
    from collector.errors import HostFailedError
    from collector.node.folders import spool_folder
    from store.bundle.errors import BundleError
    from store.bundle.inbox import Inbox

    place = store_uri(store)
    waiting = sorted(p for p in spool_folder().glob("*") if p.is_dir() and not p.name.startswith("."))
    sent: list[str] = []
    failed: dict[str, str] = {}
    try:
        inbox = Inbox.of_store(place)
    except BundleError as error:
        raise HostFailedError(f"nothing is sent, {len(waiting)} runs wait in {spool_folder()}: {error}") from error
    for bundle in waiting:
        try:
            inbox.put(bundle)
        except BundleError as error:
            failed[bundle.name] = str(error)
            continue
        shutil.rmtree(bundle)
        sent.append(bundle.name)
    if as_json:
        document: dict[str, Any] = {"sent": sent, "failed": failed}
        typer.echo(json.dumps(document))
    else:
        typer.echo(f"{len(sent)} of {len(waiting)} waiting runs sent to {place}")
    if failed:
        name, why = next(iter(failed.items()))
        raise HostFailedError(f"{len(failed)} runs still wait in {spool_folder()}: {name}: {why}")
