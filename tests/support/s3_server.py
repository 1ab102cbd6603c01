"""A real S3 protocol server on this machine, for stores on object storage."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def serving_s3(folder: Path, bucket: str = "lab") -> Iterator[str]:
    """A moto server with an empty bucket; the standard variables point to it within the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    variables = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
    }
    with (folder / "log").open("wb") as log, pytest.MonkeyPatch.context() as patch:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log
        )
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            _create_bucket(url, bucket)
            yield url
        finally:
            server.terminate()
            server.wait(10)


def _create_bucket(url: str, bucket: str) -> None:
    request = urllib.request.Request(f"{url}/{bucket}", method="PUT")
    for _ in range(300):
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                assert answer.status == 200
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("moto did not start")
