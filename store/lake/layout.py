"""What a store looks like from outside: `store.json`, and the folders beside it.

store.json            format and version
inbox/                bundles that wait
quarantine/           bundles that were refused, each with its reason
tables/<name>/        Delta tables
locks/                locks and leases
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from store.bundle.errors import BundleError
from store.bundle.place import Place, is_s3, normal_uri
from store.lake.errors import StoreError

FORMAT = "kernel-observatory-store"
FORMAT_VERSION = 1
MARKER = "store.json"
DEFAULT_STORE = "observatory-data"
STORE_VARIABLE = "KERNEL_OBSERVATORY_STORE"


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `store.json`."""

    format: str
    version: int


def default_store() -> str:
    """Where the store is when nobody says: the environment variable, else a folder in the working directory."""
    return os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


def prepare_place(uri: str | Path) -> Place:
    """A place that may become a store, or is one; its folder is made. `mark_store` comes last.

    Raises:
        StoreError: the place cannot be written, or holds other things than a store.
    """
    text = _checked_uri(uri)
    try:
        if not is_s3(text) and Path(text).is_dir() and not (Path(text) / MARKER).exists():
            _refuse_foreign_folder(Path(text))
        return Place(text, create=True)
    except (BundleError, OSError) as error:
        raise StoreError(f"store {text}: cannot be created: {error}") from error


def is_marked(place: Place) -> bool:
    """Whether the place says that it is a store, of whatever version."""
    try:
        return place.read(MARKER) is not None
    except BundleError as error:
        raise StoreError(f"store {place.uri}: cannot be read: {error}") from error


def mark_store(place: Place) -> None:
    """Makes a prepared place a store; one that is a store stays as it is.

    Raises:
        StoreError: it cannot be written, or is a store of a version that is not known here.
    """
    try:
        place.create(MARKER, msgspec.json.encode(Marker(format=FORMAT, version=FORMAT_VERSION)) + b"\n")
    except BundleError as error:
        raise StoreError(f"store {place.uri}: cannot be created: {error}") from error
    check_marker(place)


def open_place(uri: str | Path) -> Place:
    """The place of a store that exists.

    Raises:
        StoreError: there is no store, or its version is not known here.
    """
    text = _checked_uri(uri)
    try:
        place = Place(text)
    except BundleError as error:
        raise StoreError(f"store {text}: there is none; `collector store create` or a first run makes one") from error
    check_marker(place)
    return place


def check_marker(place: Place) -> None:
    """Refuses what is not a store of a version known here.

    Raises:
        StoreError: it is not.
    """
    try:
        data = place.read(MARKER)
    except BundleError as error:
        raise StoreError(f"store {place.uri}: cannot be read: {error}") from error
    if data is None:
        raise StoreError(f"store {place.uri}: is no store, it has no {MARKER}; give the folder of one")
    try:
        marker = msgspec.json.decode(data, type=Marker)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StoreError(f"store {place.uri}: {MARKER} is damaged: {error}") from error
    if marker.format != FORMAT:
        raise StoreError(f"store {place.uri}: format {marker.format[:60]!r}, must be {FORMAT!r}")
    if not 1 <= marker.version <= FORMAT_VERSION:
        raise StoreError(
            f"store {place.uri}: version {marker.version}, known up to {FORMAT_VERSION}; upgrade this host"
        )


def _checked_uri(uri: str | Path) -> str:
    try:
        text = normal_uri(uri)
    except BundleError as error:
        raise StoreError(f"store {error}") from error
    if "%" in text:
        raise StoreError(f"store {text}: the path holds a %, which table addresses cannot carry; choose another folder")
    return text


def _refuse_foreign_folder(folder: Path) -> None:
    known = {"inbox", "quarantine", "tables", "locks"}
    foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in known)
    if foreign:
        raise StoreError(f"store {folder}: holds {foreign[0]!r} and is no store; give an empty or a new folder")
