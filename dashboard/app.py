"""The dashboard's entry: `streamlit run dashboard/app.py -- --store ./observatory-data`."""

from __future__ import annotations

import sys
from pathlib import Path

# `streamlit run` puts this file's folder on sys.path, where `data` or `words` would be top-level names.
_HERE = str(Path(__file__).resolve().parent)
sys.path[:] = [_HERE if entry == _HERE else entry for entry in sys.path if entry != _HERE]
_ROOT = str(Path(__file__).resolve().parent.parent)
if _ROOT not in sys.path:
    sys.path.insert(0, _ROOT)

from dashboard.frame import run  # noqa: E402

run()
