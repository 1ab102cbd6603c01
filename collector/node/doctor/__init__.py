"""`collector doctor`: what this machine can measure, what will be missing, and why.

Every check gives facts and none raises: a machine without a driver is a machine with reasons, not an error.
"""
