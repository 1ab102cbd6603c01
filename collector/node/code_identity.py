"""Which code an arm ran, and how it was configured: what tells a changed kernel from a changed surrounding.

The code is the file that defines the function and every file beside it, or of its package, that it uses: an equal hash
is equal code, so a change has another cause. The configuration is what an autotuner chose for this call (Triton keeps
it as `best_config`), or what a prepared function says of itself in an attribute `configuration`.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType


def code_sha256(function: object) -> str | None:
    """Of the sources behind a function; None where they are not files of its own (a library's call)."""
    module = _module_of(function)
    files = _files(module) if module is not None else set()
    if not files:
        return None
    digest = hashlib.sha256()
    try:
        for path in sorted(files):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    except OSError:
        return None
    return digest.hexdigest()


def configuration(function: object) -> str | None:
    """What was chosen for the last call: by the function itself, or by the autotuners of its module."""
    own = getattr(function, "configuration", None)
    if own is not None:
        return str(own)
    module = _module_of(function)
    names = vars(module).items() if module is not None else ()
    chosen = [
        f"{name}: {best}" for name, value in sorted(names) if (best := getattr(value, "best_config", None)) is not None
    ]
    return "; ".join(chosen) or None


def _module_of(function: object) -> ModuleType | None:
    inner = getattr(function, "_torchdynamo_orig_callable", function)
    inner = inspect.unwrap(inner) if callable(inner) else inner
    return sys.modules.get(getattr(inner, "__module__", None) or "")


def _files(module: ModuleType) -> set[Path]:
    """The module's file, and those beside it or in its package that it uses, however deep."""
    start = _file(module)
    if start is None:
        return set()
    found: dict[Path, ModuleType] = {start: module}
    waiting = [module]
    while waiting:
        for used in _used(waiting.pop()):
            path = _file(used)
            if path is not None and path not in found and path.is_relative_to(start.parent):
                found[path] = used
                waiting.append(used)
    return set(found)


def _used(module: ModuleType) -> Iterator[ModuleType]:
    for value in list(vars(module).values()):
        used = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
        if isinstance(used, ModuleType):
            yield used


def _file(module: ModuleType) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if name and name.endswith(".py") else None
