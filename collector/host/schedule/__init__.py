"""Runs collector's commands at their times, for machines without cron: `collector schedule`.

`config` is what should run, `job` runs one command with a limit and a log, `history` is what became of each, `daemon`
keeps APScheduler going: nothing runs twice, nothing overlaps itself, and what was missed is written down.
"""
