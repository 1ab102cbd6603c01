"""One ingester at a time: a kernel lock on a local store, an expiring lease object on object storage.

Neither is what keeps a run from doubling (the transaction protocol of the tables does); they keep two from doing the
same work. A kernel lock is free at once when its holder dies; a lease when it expires.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import filelock
import msgspec

from store.bundle.place import Place
from store.lake.errors import StoreBusyError

LEASE_S = 120.0


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease, and until when."""

    token: str
    holder: str
    expires_at: datetime


@contextmanager
def held(place: Place, name: str, *, wait_s: float, lease_s: float = LEASE_S) -> Iterator[Lease]:
    """Holds the lock `name` of the store within the block.

    Raises:
        StoreBusyError: another held it for all of `wait_s`.
    """
    lease: Lease = ObjectLease(place, name, lease_s=lease_s) if place.folder is None else FolderLock(place, name)
    lease.acquire(wait_s)
    try:
        yield lease
    finally:
        lease.release()


class Lease:
    """A lock that may have to be renewed."""

    def acquire(self, wait_s: float) -> None:
        """Waits for it."""
        raise NotImplementedError

    def renew(self) -> None:
        """Says that the holder still lives."""
        raise NotImplementedError

    def release(self) -> None:
        """Gives it back."""
        raise NotImplementedError


class FolderLock(Lease):
    """A kernel lock on a file of the store's folder."""

    def __init__(self, place: Place, name: str) -> None:
        assert place.folder is not None
        folder = place.folder / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}.lock"
        self._lock = filelock.FileLock(self._path)

    def acquire(self, wait_s: float) -> None:
        """Waits for the kernel's lock."""
        try:
            self._lock.acquire(timeout=wait_s, poll_interval=0.05)
        except filelock.Timeout as error:
            raise StoreBusyError(f"{self._path}: another process holds it; try again when it is done") from error

    def renew(self) -> None:
        """A kernel lock lives as long as its process."""

    def release(self) -> None:
        """Frees the kernel's lock."""
        self._lock.release()


class ObjectLease(Lease):
    """An object that names its holder; taken over only as the very version that was seen to be expired."""

    def __init__(self, place: Place, name: str, *, lease_s: float) -> None:
        self._place = place
        self._path = f"locks/{name}.lease"
        self._lease_s = lease_s
        self._token = uuid.uuid4().hex

    def acquire(self, wait_s: float) -> None:
        """Waits until the lease is free or expired."""
        deadline = time.monotonic() + wait_s
        while not self._try():
            if time.monotonic() >= deadline:
                seen = self._place.read_tagged(self._path)
                holder = msgspec.json.decode(seen[0], type=LeaseRecord).holder if seen else "nobody any more"
                raise StoreBusyError(f"lease {self._place.uri}/{self._path}: held by {holder}; try again later")
            time.sleep(min(0.25, self._lease_s / 4))

    def renew(self) -> None:
        """Moves the expiry on; raises when another took the lease over."""
        seen = self._place.read_tagged(self._path)
        mine = seen is not None and msgspec.json.decode(seen[0], type=LeaseRecord).token == self._token
        if seen is None or not mine or not self._place.replace(self._path, self._record(), e_tag=seen[1]):
            raise StoreBusyError(f"lease {self._place.uri}/{self._path}: was taken over by another process")

    def release(self) -> None:
        """Marks the lease as expired, if it is still ours."""
        seen = self._place.read_tagged(self._path)
        if seen is not None and msgspec.json.decode(seen[0], type=LeaseRecord).token == self._token:
            self._place.replace(self._path, self._record(expired=True), e_tag=seen[1])

    def _try(self) -> bool:
        seen = self._place.read_tagged(self._path)
        if seen is None:
            return self._place.create(self._path, self._record())
        record = msgspec.json.decode(seen[0], type=LeaseRecord)
        if record.token != self._token and record.expires_at > datetime.now(UTC):
            return False
        return self._place.replace(self._path, self._record(), e_tag=seen[1])

    def _record(self, *, expired: bool = False) -> bytes:
        expires_at = datetime.now(UTC) + timedelta(seconds=0.0 if expired else self._lease_s)
        holder = f"{socket.gethostname()} pid {os.getpid()}"
        return msgspec.json.encode(LeaseRecord(token=self._token, holder=holder, expires_at=expires_at))
