"""Triton kernels of the candidate role, one operator a file.

Each file holds the raw `@triton.jit` kernels, a frozen configuration record with the table that chooses one by shape
and device, and `launch(*inputs, config=None)` with the contract's input order. There is no autotune decorator: it would
need a device at import time, and the configuration that ran is a fact to be stored with the run.
"""
