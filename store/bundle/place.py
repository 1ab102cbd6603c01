"""A place for files: a local folder or a prefix of an S3-compatible store, the same few operations on both.

Credentials, region and endpoint of S3 come from the standard AWS variables; nothing of them is kept or shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from store.bundle.errors import FullPlaceError, NoStoreError, PlaceError, in_one_line, is_full

__all__ = ["ObjectInfo", "Place", "PlaceError", "is_s3", "normal_uri", "s3_options"]

MARKER = "store.json"
"""The object that makes a place a store."""
NO_STORE_HINT = "is a share not mounted, is the name right? `collector store create` makes a new one"
_UNFINISHED = re.compile(r"#\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """An object of a place: its path below the place's root, size and time of arrival."""

    path: str
    size_bytes: int
    modified_at: datetime
    e_tag: str | None


class Place:
    """Files below one root. Every write is whole or not there; `create` refuses what exists."""

    def __init__(self, root: str | Path, *, create: bool = False) -> None:
        self.uri = normal_uri(root)
        self.folder: Path | None = None if is_s3(self.uri) else Path(self.uri)
        with _plain_errors(self.uri):
            self._store = _open_s3(self.uri) if self.folder is None else _open_folder(self.folder, create=create)

    def require_store(self) -> None:
        """Finds the place to be a store. A node asks before it hands a run over and forgets it.

        Raises:
            NoStoreError: it is none: a share that is not mounted looks like this too.
            PlaceError: it cannot be asked.
        """
        if self.read(MARKER) is None:
            self.list(MARKER)  # of a bucket that is not there the service says so here
            raise NoStoreError(f"{self.uri}: is no store, it has no {MARKER}; {NO_STORE_HINT}")

    def create(self, path: str, data: bytes | Path) -> bool:
        """Writes the object if there is none of that path; False when there is one already (it is left alone)."""
        import obstore

        with _plain_errors(f"{self.uri}/{path}"):
            try:
                obstore.put(self._store, path, data, mode="create", use_multipart=False)
            except obstore.exceptions.AlreadyExistsError:
                return False
            self._force_to_disk(path)
        return True

    def replace(self, path: str, data: bytes, *, e_tag: str | None = None) -> bool:
        """Writes the object over what is there; with `e_tag` only over that version (S3), else False."""
        import obstore

        mode: Any = "overwrite" if e_tag is None else {"e_tag": e_tag}
        with _plain_errors(f"{self.uri}/{path}"):
            try:
                obstore.put(self._store, path, data, mode=mode, use_multipart=False)
            except (obstore.exceptions.PreconditionError, obstore.exceptions.AlreadyExistsError):
                return False
            self._force_to_disk(path)
        return True

    def read(self, path: str) -> bytes | None:
        """The object's bytes, or None where there is no such object."""
        import obstore

        with _plain_errors(f"{self.uri}/{path}"):
            try:
                return bytes(obstore.get(self._store, path).bytes())
            except (FileNotFoundError, obstore.exceptions.NotFoundError):
                return None

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """The object's bytes and the e_tag of exactly these bytes, or None."""
        import obstore

        with _plain_errors(f"{self.uri}/{path}"):
            try:
                answer = obstore.get(self._store, path)
            except (FileNotFoundError, obstore.exceptions.NotFoundError):
                return None
            return bytes(answer.bytes()), str(answer.meta["e_tag"])

    def download(self, path: str, into: Path) -> bool:
        """Streams the object into a local file; False where there is no such object."""
        import obstore

        with _plain_errors(f"{self.uri}/{path}"):
            try:
                chunks = obstore.get(self._store, path)
            except (FileNotFoundError, obstore.exceptions.NotFoundError):
                return False
            with into.open("wb") as file:
                for chunk in chunks:
                    file.write(chunk)
        return True

    def list(self, prefix: str) -> list[ObjectInfo]:
        """The objects below a prefix, oldest first."""
        import obstore

        if self.folder is not None:
            return _listed(self.folder, prefix)
        with _plain_errors(f"{self.uri}/{prefix}"):
            found = obstore.list(self._store, prefix=prefix).collect()
        objects = [
            ObjectInfo(path=m["path"], size_bytes=m["size"], modified_at=m["last_modified"], e_tag=m["e_tag"])
            for m in found
        ]
        return sorted(objects, key=lambda item: (item.modified_at, item.path))

    def move(self, source: str, target: str) -> None:
        """Moves an object; a kill in between leaves it at the source or, on object storage, at both."""
        import obstore

        if self.folder is not None:
            with _plain_errors(f"{self.uri}/{source}"):
                (self.folder / target).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / source).rename(self.folder / target)
                self._force_to_disk(target)
            return
        with _plain_errors(f"{self.uri}/{source}"):
            obstore.copy(self._store, source, target)
            self._force_to_disk(target)
            obstore.delete(self._store, source)

    def remove(self, path: str) -> None:
        """Removes the object; nothing happens where there is none."""
        import obstore

        with _plain_errors(f"{self.uri}/{path}"):
            try:
                obstore.delete(self._store, path)
            except (FileNotFoundError, obstore.exceptions.NotFoundError):
                return

    def _force_to_disk(self, path: str) -> None:
        if self.folder is None:
            return
        for target in (self.folder / path, (self.folder / path).parent):
            descriptor = os.open(target, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def is_s3(uri: str) -> bool:
    """Whether the address names object storage rather than a folder."""
    return uri.startswith(("s3://", "s3a://"))


def normal_uri(root: str | Path) -> str:
    """`s3://bucket/prefix` without a final slash, or an absolute local path (`file://` is taken off).

    Raises:
        PlaceError: another scheme.
    """
    text = str(root)
    if is_s3(text):
        return "s3://" + text.split("://", 1)[1].strip("/")
    parts = urlsplit(text)
    if parts.scheme == "file":
        return str(Path(unquote(parts.path)).absolute())
    if "://" in text:
        raise PlaceError(f"{text}: scheme {parts.scheme!r} is unknown; give a folder or s3://bucket/prefix")
    return str(Path(text).expanduser().absolute())


def s3_options() -> dict[str, str]:
    """What object storage needs beyond the standard AWS variables, which its client reads by itself."""
    options = {"aws_conditional_put": "etag"}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        options["aws_endpoint"] = endpoint
        options["aws_virtual_hosted_style_request"] = "false"
    options["aws_region"] = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return options


def _open_s3(uri: str) -> Any:
    from obstore.store import S3Store

    options: Any = s3_options()
    insecure = options.get("aws_endpoint", "").startswith("http://")
    return S3Store.from_url(uri, config=options, client_options={"allow_http": insecure})


def _open_folder(folder: Path, *, create: bool) -> Any:
    from obstore.store import LocalStore

    if not create and not folder.is_dir():
        raise NoStoreError(f"{folder}: there is no such folder; {NO_STORE_HINT}")
    folder.mkdir(parents=True, exist_ok=True)
    return LocalStore(str(folder))


def _listed(folder: Path, prefix: str) -> list[ObjectInfo]:
    """Files of any name; what a killed put left (`name#1`) is none yet."""
    objects = []
    for path in (folder / prefix).rglob("*"):
        try:
            if _UNFINISHED.search(path.name) or not path.is_file():
                continue
            stat = path.stat()
        except FileNotFoundError:
            continue
        modified_at = datetime.fromtimestamp(stat.st_mtime, UTC)
        relative = path.relative_to(folder).as_posix()
        objects.append(ObjectInfo(path=relative, size_bytes=stat.st_size, modified_at=modified_at, e_tag=None))
    return sorted(objects, key=lambda item: (item.modified_at, item.path))


@contextmanager
def _plain_errors(where: str) -> Iterator[None]:
    """Turns the client's many-line errors into one line."""
    import obstore

    try:
        yield
    except PlaceError:
        raise
    except OSError as error:
        raise _place_error(where, error) from error
    except obstore.exceptions.BaseError as error:
        raise _place_error(where, error) from error


def _place_error(where: str, error: Exception) -> PlaceError:
    return (FullPlaceError if is_full(error) else PlaceError)(f"{where}: {in_one_line(error)}")
