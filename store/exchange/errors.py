"""What goes wrong with a foreign file.

ImportRefused  one line: file, line, value, rule, way out
"""

from __future__ import annotations


class ImportRefused(Exception):  # noqa: N818 a refusal, in the words of the command that prints it
    """A file that cannot be taken as it is; nothing of it was written."""
