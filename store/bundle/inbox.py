"""The inbox: where nodes put bundles and one ingester takes them out, on a folder and on object storage alike.

A bundle is one object, an uncompressed tar named `<run id>-<first 16 hex of its sha256>.bundle`. It is put only if
absent, so that a push can be repeated until it succeeds, and its name says whether it arrived whole.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from pathlib import Path

from store.bundle.errors import BundleError, GoneBundleError
from store.bundle.manifest import MANIFEST_NAME, file_sha256, run_file_name, table_file
from store.bundle.place import Place
from store.bundle.reader import read_manifest
from store.bundle.schemas import BUNDLE_TABLES

SUFFIX = ".bundle"
_NAME = re.compile(r"(?P<run>.+)-(?P<sha>[0-9a-f]{16})\.bundle")
_MEMBERS = (MANIFEST_NAME, *(table_file(name) for name in BUNDLE_TABLES))


class Inbox:
    """The bundles that wait in `<root>/inbox/`. `root` is the store: a folder or `s3://bucket/prefix`."""

    def __init__(self, root_uri: str | Path, *, create: bool = True) -> None:
        self.place = Place(root_uri, create=create)

    @classmethod
    def of_store(cls, root_uri: str | Path) -> Inbox:
        """The inbox of a store that is there: what a node hands its runs to.

        Raises:
            PlaceError: there is no store at this place, or it cannot be asked.
        """
        inbox = cls(root_uri, create=False)
        inbox.place.require_store()
        return inbox

    def put(self, bundle_path: str | Path) -> str:
        """Puts a published bundle in; doing it again does nothing. Returns the object's name.

        Raises:
            BundleError: the folder is no bundle, a file of it is missing, or the place refuses.
        """
        folder = Path(bundle_path)
        manifest = read_manifest(folder)
        with tempfile.TemporaryDirectory(prefix="kernel-observatory-") as work:
            archive = Path(work) / "bundle.tar"
            _pack(folder, archive)
            name = f"{run_file_name(manifest.run_id)}-{file_sha256(archive)[:16]}{SUFFIX}"
            self.place.create(f"inbox/{name}", archive)
        return name

    def names(self) -> list[str]:
        """Everything that waits, oldest first, whether it is a bundle or not."""
        return [item.path.removeprefix("inbox/") for item in self.place.list("inbox")]

    def fetch(self, name: str, into: str | Path) -> Path:
        """Unpacks the bundle as a folder below `into` and returns it; its content is not judged beyond its hash.

        Raises:
            GoneBundleError: there is no such object.
            BundleError: it is cut or changed, or holds anything but a bundle's files.
        """
        match = _NAME.fullmatch(name)
        if match is None or "/" in name:
            raise BundleError(f"{name}: no bundle, its name must end in -<16 hex digits>{SUFFIX}")
        folder = Path(into) / name.removesuffix(SUFFIX)
        folder.mkdir(parents=True)
        archive = folder / "bundle.tar"
        if not self.place.download(f"inbox/{name}", archive):
            raise GoneBundleError(f"{name}: is not in the inbox (any more)")
        if archive.stat().st_size == 0:
            raise BundleError(f"{name}: has zero bytes")
        found = file_sha256(archive)[:16]
        if found != match["sha"]:
            raise BundleError(f"{name}: sha256 begins with {found}, its name says otherwise: cut or changed on the way")
        _unpack(archive, folder, name)
        archive.unlink()
        return folder

    def remove(self, name: str) -> None:
        """Takes an object out for good; nothing happens where there is none."""
        self.place.remove(f"inbox/{name}")


def _pack(folder: Path, archive: Path) -> None:
    """A tar whose bytes depend on the files' bytes alone."""
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        for member in _MEMBERS:
            path = folder / member
            try:
                entry = tarfile.TarInfo(member)
                entry.size = path.stat().st_size
                with path.open("rb") as file:
                    tar.addfile(entry, file)
            except OSError as error:
                raise BundleError(f"{folder.name}/{member}: cannot be read: {error.strerror}") from error


def _unpack(archive: Path, folder: Path, name: str) -> None:
    try:
        with tarfile.open(archive, "r:") as tar:
            for entry in tar:
                if entry.name not in _MEMBERS or not entry.isreg():
                    raise BundleError(f"{name}: holds {entry.name[:80]!r}, which no bundle has")
                content = tar.extractfile(entry)
                assert content is not None  # a regular file always has content
                with (folder / entry.name).open("wb") as file:
                    while chunk := content.read(1 << 20):
                        file.write(chunk)
    except tarfile.TarError as error:
        raise BundleError(f"{name}: is not a tar archive: {error}") from error
