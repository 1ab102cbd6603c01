"""Choosers that several pages share."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import markup, parts
from dashboard.data.latest import Device, Row
from dashboard.sentences import device_name


def choose_device(devices: Sequence[Device], *, key: str = "device", label: str = "Device") -> Device:
    """One device, by its unit; the address keeps it."""
    asked = st.query_params.get(key)
    current = next((d for d in devices if asked in (d.device_unit, d.device_model)), devices[0])
    options = [(d.device_unit, device_words(d)) for d in devices]
    picked = parts.pick(label, options, current.device_unit, key=f"pick-{key}", width=330)
    if picked is not None:
        parts.go_to(**{key: picked})
    return current


def device_words(device: Device) -> str:
    """Model, slice, host and the end of the unit's name."""
    said = [device_name(device.device_model)]
    if device.device_slice:
        said.append(device.device_slice)
    if device.host:
        said.append(f"· {device.host}")
    if device.device_unit:
        said.append(f"· {device.device_unit[-8:]}")
    return " ".join(said)


def arms_in(rows: Sequence[Row]) -> list[str]:
    """The arms of the rows: candidates first, the A/A copy last."""
    order = {"candidate": 0, "optimized": 2, "naive": 3, "aa": 5, "planted": 6}
    found = sorted({row.arm for row in rows}, key=lambda arm: (order.get(arm, 1), arm))
    return [arm for arm in found if arm not in ("aa", "planted")] or found or ["candidate"]


def nothing_measured(what: str) -> None:
    """The page of an empty store."""
    st.html(markup.headline(markup.say(f"No {what} yet: nothing has been measured.")))
    way_out = markup.join(["Measure this machine with ", markup.element("code", "collector run --suite quick"), "."])
    st.html(markup.empty("The store is here and empty.", way_out))
