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

from store.bundle.errors import BundleError, FullPlaceError, NoStoreError, is_full
from store.bundle.place import MARKER, Place, is_s3, normal_uri
from store.lake.errors import StoreError, StoreFullError

FORMAT = "kernel-observatory-store"
FORMAT_VERSION = 1
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
    """A place that may become a store, or is one; its folder is made, those above it are not. `mark_store` comes last.

    Raises:
        StoreError: the place cannot be written, or holds other things than a store.
    """
    text = _checked_uri(uri)
    try:
        if not is_s3(text):
            _refuse_unlikely_folder(Path(text))
        return Place(text, create=True)
    except (BundleError, OSError) as error:
        raise _not_created(text, error) from error


def _not_created(where: str, error: Exception) -> StoreError:
    kind = StoreFullError if is_full(error) or isinstance(error, FullPlaceError) else StoreError
    return kind(f"store {where}: cannot be created: {error}")


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
        raise _not_created(place.uri, error) from error
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
        raise StoreError(f"store {error}") from error
    check_marker(place)
    return place


def check_marker(place: Place) -> None:
    """Refuses what is not a store of a version known here.

    Raises:
        StoreError: it is not.
    """
    try:
        place.require_store()
        data = place.read(MARKER) or b""
    except NoStoreError as error:
        raise StoreError(f"store {error}") from error
    except BundleError as error:
        raise StoreError(f"store {place.uri}: cannot be read: {error}") from error
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


def _refuse_unlikely_folder(folder: Path) -> None:
    """A name mistyped or a share not mounted makes no store unasked."""
    if not folder.is_dir():
        if not folder.parent.is_dir():
            raise StoreError(f"store {folder}: there is no folder {folder.parent}; mount it or make it first")
        return
    if (folder / MARKER).exists():
        return
    known = {"inbox", "quarantine", "tables", "locks"}
    foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in known)
    if foreign:
        raise StoreError(f"store {folder}: holds {foreign[0]!r} and is no store; give an empty or a new folder")
