"""Shapes that somebody's own runs recorded: profiler traces, execution traces, NCCL logs, operator input logs.

One file a format, each `read(content, ...) -> Recording`; `files` opens a file and recognises its format; `weigh` makes
a list that a suite can take. Only operator names, sizes, types and times are taken: host, user and job names, paths and
call stacks stay behind.
"""
