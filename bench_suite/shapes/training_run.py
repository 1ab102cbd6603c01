"""How a model is trained: what the shapes and messages of one optimizer step follow from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bench_suite.shapes.errors import ShapeError


class Sharding(StrEnum):
    """What data-parallel ranks hold."""

    DDP = "ddp"
    """Whole copies; gradients are summed over the ranks once a step."""
    FSDP = "fsdp"
    """A share of each layer: gathered before it is used, forward and backward; gradients are scattered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """One rank of a training run: of the last pipeline stage, which has the output head and the loss."""

    model: str
    model_source: str
    sequence: int
    """Tokens of a training sequence."""
    micro_batch: int
    """Sequences of one forward and backward pass."""
    micro_batches: int
    """Passes a step."""
    tensor_parallel: int
    """With sequence parallelism: row-wise operators see their share of the tokens (Korthikanti et al. 2022)."""
    pipeline_parallel: int
    data_parallel: int
    sharding: Sharding
    dtype: str
    chip: str
    """Whose roofline weights the shapes."""
    step_s: float
    """Roofline time of one step of this rank, operators and messages one after the other."""

    def __post_init__(self) -> None:
        for name in ("sequence", "micro_batch", "micro_batches", "tensor_parallel", "pipeline_parallel"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ShapeError(f"{name} is {value!r}, must be a whole number >= 1")
        if isinstance(self.data_parallel, bool) or self.data_parallel < 1:
            raise ShapeError(f"data_parallel is {self.data_parallel!r}, must be a whole number >= 1")
        if self.sequence * self.micro_batch % self.tensor_parallel:
            tokens = self.sequence * self.micro_batch
            raise ShapeError(f"tensor_parallel is {self.tensor_parallel}, must divide the {tokens} tokens of a pass")

    @property
    def tokens(self) -> int:
        """Of one pass."""
        return self.sequence * self.micro_batch

    @property
    def summary(self) -> str:
        """The provenance of each shape, in one line."""
        ranks = f"tp{self.tensor_parallel} pp{self.pipeline_parallel} {self.sharding}{self.data_parallel}"
        batch = f"sequence {self.sequence}, micro-batch {self.micro_batch} x {self.micro_batches}"
        return f"{self.model} training, {ranks}, {batch}, analytic"
