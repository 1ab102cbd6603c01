"""The manifest of a bundle: what it says of the files beside it, and how it is checked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from store.bundle.errors import BundleError, FutureBundleError
from store.bundle.schemas import BUNDLE_TABLES, SCHEMA_VERSION

MANIFEST_NAME = "manifest.json"
RUN_ID_LIMIT = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a bundle: the sha256 of its bytes and its number of rows."""

    sha256: str
    rows: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing a reader opens. `extra` is whatever the writer wants to say besides."""

    schema_version: int
    run_id: str
    created: datetime
    files: dict[str, FileEntry]
    extra: dict[str, Any] = {}

    @property
    def content_sha256(self) -> str:
        """Identity of what was measured: hash over the files' hashes, the same whenever the bundle was written."""
        lines = "".join(f"{name}:{entry.sha256}\n" for name, entry in sorted(self.files.items()))
        return hashlib.sha256(lines.encode()).hexdigest()


def checked_run_id(run_id: str) -> str:
    """The run id itself, any text of 1 to 200 characters without control characters.

    Raises:
        BundleError: it is empty, too long or holds control characters.
    """
    if not 0 < len(run_id) <= RUN_ID_LIMIT or _CONTROL.search(run_id):
        shown = repr(run_id)[:60]
        raise BundleError(f"run id {shown}: must be 1 to {RUN_ID_LIMIT} characters without control characters")
    return run_id


def run_file_name(run_id: str) -> str:
    """A file name for a run id of any text: safe characters stay, others are percent-encoded, long ones hashed."""
    name = quote(run_id, safe=" +=@,").replace(" ", "%20").replace("~", "%7E")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > 120:
        name = f"{name[:80]}%{hashlib.sha256(run_id.encode()).hexdigest()[:24]}"
    return name


def encode_manifest(run_id: str, files: Mapping[str, FileEntry], extra: Mapping[str, Any]) -> bytes:
    """The manifest as JSON with sorted keys and a final newline."""
    manifest = Manifest(
        schema_version=SCHEMA_VERSION, run_id=run_id, created=datetime.now(UTC), files=dict(files), extra=dict(extra)
    )
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=2) + b"\n"


def decode_manifest(data: bytes, where: str) -> Manifest:
    """The manifest, its own rules checked; the files beside it are not looked at.

    Raises:
        FutureBundleError: its schema version is newer than the one known here.
        BundleError: it is not a manifest, or names files that are no tables.
    """
    try:
        version = msgspec.json.decode(data, type=dict[str, Any]).get("schema_version")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(f"{where}: {MANIFEST_NAME} is not JSON: {error}") from error
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise FutureBundleError(
            f"{where}: schema version {version} is newer than {SCHEMA_VERSION}, the newest known: upgrade this host"
        )
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BundleError(f"{where}: {MANIFEST_NAME} does not follow the format: {error}") from error
    if manifest.schema_version < 1:
        raise BundleError(f"{where}: schema version {manifest.schema_version} does not exist; the first is 1")
    checked_run_id(manifest.run_id)
    if set(manifest.files) != {table_file(name) for name in BUNDLE_TABLES}:
        raise BundleError(f"{where}: files {sorted(manifest.files)}, must be one for each of {sorted(BUNDLE_TABLES)}")
    for name, entry in manifest.files.items():
        if not _SHA256.fullmatch(entry.sha256):
            raise BundleError(f"{where}: sha256 of {name} is {entry.sha256[:70]!r}, must be 64 hex digits")
    return manifest


def table_file(table_name: str) -> str:
    """The file of a table in a bundle."""
    return f"{table_name}.parquet"


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
