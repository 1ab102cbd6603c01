"""Sizes of a decoder model, and what one of `tensor_parallel` ranks holds of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from bench_suite.shapes.errors import ShapeError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A decoder with grouped-query attention and gated feed-forward layers, dense or mixtures of experts.

    Multi-head latent attention is not modelled.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    """Width of the dense feed-forward layer; 0 where every layer is a mixture of experts."""
    vocab: int
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    sliding_window: int = 0
    """Tokens that a sliding layer looks back; 0: there are none."""
    sliding_layers: int = 0
    source: str = "not stated"

    def __post_init__(self) -> None:
        optional = {
            "name",
            "source",
            "ffn",
            "experts",
            "experts_per_token",
            "expert_ffn",
            "sliding_window",
            "sliding_layers",
        }
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("name", "source"):
                continue
            least = 0 if field.name in optional else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ShapeError(f"model {self.name}: {field.name} is {value!r}, must be a whole number >= {least}")
        if self.heads % self.kv_heads:
            raise ShapeError(
                f"model {self.name}: heads is {self.heads}, must be a multiple of kv_heads ({self.kv_heads})"
            )
        if bool(self.ffn) == bool(self.experts):
            raise ShapeError(
                f"model {self.name}: ffn is {self.ffn} and experts {self.experts}, exactly one must be > 0"
            )
        if self.experts and not 0 < self.experts_per_token <= self.experts:
            raise ShapeError(
                f"model {self.name}: experts_per_token is {self.experts_per_token}, must be 1 to {self.experts}"
            )
        if self.sliding_layers > self.layers:
            raise ShapeError(f"model {self.name}: sliding_layers is {self.sliding_layers}, must be <= {self.layers}")

    @property
    def is_mixture(self) -> bool:
        return self.experts > 0

    @property
    def parameters(self) -> int:
        """Weights of all GEMMs, with embedding and output head counted once each."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        feed_forward = 3 * self.hidden * (self.ffn + self.experts * self.expert_ffn) + self.hidden * self.experts
        return self.layers * (attention + feed_forward) + 2 * self.vocab * self.hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What one rank computes: attention by heads, feed-forward by columns, then rows (Shoeybi et al. 2019)."""

    model: ModelConfig
    tensor_parallel: int
    heads: int
    kv_heads: int
    ffn: int
    expert_ffn: int
    vocab: int


def shard(model: ModelConfig, tensor_parallel: int) -> Shard:
    """The model cut for `tensor_parallel` ranks; with more ranks than kv_heads, keys and values are replicated."""
    tp = tensor_parallel
    if isinstance(tp, bool) or tp < 1:
        raise ShapeError(f"tp is {tp}, must be a whole number >= 1")
    for name in ("heads", "ffn", "expert_ffn", "vocab"):
        if getattr(model, name) % tp:
            raise ShapeError(f"tp is {tp}: {name} of {model.name} is {getattr(model, name)}, must be a multiple of tp")
    if max(model.kv_heads, tp) % min(model.kv_heads, tp):
        raise ShapeError(f"tp is {tp}: kv_heads of {model.name} is {model.kv_heads}, one must divide the other")
    return Shard(
        model=model,
        tensor_parallel=tp,
        heads=model.heads // tp,
        kv_heads=max(1, model.kv_heads // tp),
        ffn=model.ffn // tp,
        expert_ffn=model.expert_ffn // tp,
        vocab=model.vocab // tp,
    )


def load_models(path: Path | None = None) -> Mapping[str, ModelConfig]:
    """The models of a TOML file, one table each; of configs/shapes/models.toml without a path."""
    file = path if path is not None else resources.files("configs") / "shapes" / "models.toml"
    try:
        tables: Mapping[str, Mapping[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ShapeError(f"models {file}: cannot be read ({error.strerror})") from None
    except tomllib.TOMLDecodeError as error:
        raise ShapeError(f"models {file}: {error}") from None
    known = {field.name for field in fields(ModelConfig)} - {"name"}
    models = {}
    for name, table in tables.items():
        for key in table:
            if key not in known:
                raise ShapeError(
                    f"models {file}: {name}: unknown key {key!r}, must be one of {', '.join(sorted(known))}"
                )
        try:
            models[name] = ModelConfig(name=name, **table)
        except TypeError as error:
            raise ShapeError(f"models {file}: {name}: {str(error).split('.__init__() ')[-1]}") from None
    return models


def model_named(name: str) -> ModelConfig:
    """A shipped model; ShapeError lists the known names."""
    models = load_models()
    if name not in models:
        raise ShapeError(f"model {name!r}: not known, must be one of {', '.join(models)}, or a table in your own file")
    return models[name]
