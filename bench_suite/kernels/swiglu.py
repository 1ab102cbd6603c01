"""SwiGLU and GeGLU in Triton: silu(gate) * up and gelu(gate) * up, elementwise, in fp32 until the store."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl


@dataclass(frozen=True, slots=True, kw_only=True)
class SwigluConfig:
    block: int
    """Elements a program, a power of two."""
    num_warps: int


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, ffn, stride_gate, stride_up, stride_out, BLOCK: tl.constexpr):
    """Program axes: rows, blocks of a row."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + row * stride_gate + i, mask=i < ffn, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * stride_up + i, mask=i < ffn, other=0.0).to(tl.float32)
    # exp of a negative number only: exp(-gate) would overflow for gate < -88.
    small = tl.exp(-tl.abs(gate))
    sigmoid = tl.where(gate >= 0, 1.0, small) / (1.0 + small)
    tl.store(out_ptr + row * stride_out + i, (gate * sigmoid * up).to(out_ptr.dtype.element_ty), mask=i < ffn)


@triton.jit
def geglu_kernel(gate_ptr, up_ptr, out_ptr, ffn, stride_gate, stride_up, stride_out, BLOCK: tl.constexpr):
    """Program axes: rows, blocks of a row."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + row * stride_gate + i, mask=i < ffn, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * stride_up + i, mask=i < ffn, other=0.0).to(tl.float32)
    # (1 + tanh z) / 2 = sigmoid(2 z), and that without cancelling; 2 sqrt(2 / pi) = 1.5957691216057308.
    z = 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)
    small = tl.exp(-tl.abs(z))
    sigmoid = tl.where(z >= 0, 1.0, small) / (1.0 + small)
    tl.store(out_ptr + row * stride_out + i, (gate * sigmoid * up).to(out_ptr.dtype.element_ty), mask=i < ffn)


def choose(ffn: int) -> SwigluConfig:
    block = min(triton.next_power_of_2(ffn), 2048)
    return SwigluConfig(block=block, num_warps=max(1, block // 512))


def launch(gate: torch.Tensor, up: torch.Tensor, config: SwigluConfig | None = None) -> torch.Tensor:
    """gate and up [rows, ffn], contiguous in ffn -> [rows, ffn]."""
    return _launch(swiglu_kernel, gate, up, config)


def launch_geglu(gate: torch.Tensor, up: torch.Tensor, config: SwigluConfig | None = None) -> torch.Tensor:
    """gate and up [rows, ffn], contiguous in ffn -> [rows, ffn]."""
    return _launch(geglu_kernel, gate, up, config)


def _launch(kernel, gate: torch.Tensor, up: torch.Tensor, config: SwigluConfig | None) -> torch.Tensor:
    rows, ffn = gate.shape
    chosen = config or choose(ffn)
    out = torch.empty((rows, ffn), dtype=gate.dtype, device=gate.device)
    if out.numel() == 0:
        return out
    kernel[(rows, triton.cdiv(ffn, chosen.block))](
        gate, up, out, ffn, gate.stride(0), up.stride(0), out.stride(0), BLOCK=chosen.block, num_warps=chosen.num_warps
    )
    return out
