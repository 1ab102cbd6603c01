"""Policies from files: shipped ones by name, a person's own by path."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path

from detection.policy import Policy, PolicyError, policy_from_mapping

DEFAULT_POLICY = "default"


def load_policy(name_or_path: str = DEFAULT_POLICY) -> Policy:
    """The policy of configs/policies/NAME.toml, or of the file at a path that ends in .toml.

    Raises:
        PolicyError: there is no such policy, the file is not TOML, or a key of it is refused; one line.
    """
    text, where = _read(name_or_path)
    try:
        mapping = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{where}: not TOML: {error}") from error
    return policy_from_mapping(mapping, where)


def shipped_policies() -> tuple[str, ...]:
    """The names of the policies that come along."""
    folder = resources.files("configs") / "policies"
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


def _read(name_or_path: str) -> tuple[str, str]:
    if name_or_path.endswith(".toml"):
        try:
            return Path(name_or_path).read_text(encoding="utf-8"), name_or_path
        except OSError as error:
            raise PolicyError(f"policy {name_or_path}: cannot be read: {error.strerror}") from error
    if name_or_path not in shipped_policies():
        known = ", ".join(shipped_policies())
        raise PolicyError(f"policy {name_or_path!r} is unknown, must be one of {known} or a path that ends in .toml")
    source = resources.files("configs") / "policies" / f"{name_or_path}.toml"
    return source.read_text(encoding="utf-8"), f"configs/policies/{name_or_path}.toml"
