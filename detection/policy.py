"""The thresholds of judging, as one versioned record. configs/policies/*.toml give them; this file says what they mean.

A policy is read from a mapping (the parsed TOML) by `policy_from_mapping`; a key that is unknown, of a wrong type or
out of its range is refused with the file and the key named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from detection.verdict import Metric


class PolicyError(ValueError):
    """A policy that cannot be used; the message is one line: file, key, value, rule."""


def _bounded(default: float, low: float, high: float) -> Any:
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The least relative change worth a person's time, by what is judged."""

    accelerator: float = _bounded(0.03, 0, 1)
    """Latency and ratios on a device with its own clock."""
    cpu: float = _bounded(0.05, 0, 1)
    """Latency and ratios on a CPU host, whose other tenants are part of every time."""
    peak_memory: float = _bounded(0.02, 0, 1)
    peak_memory_bytes: float = _bounded(65536, 0, 1e12)
    """And no fewer bytes than this: allocators round."""
    error: float = _bounded(0.5, 0, 10)
    """Errors change with the seed of the inputs: half as much again is noise."""
    error_margin: float = _bounded(0.01, 0, 1)
    """And no less than this share of the tolerance: an error of a thousandth of what is allowed concerns nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What is believed of a series before its own history says more: standard deviations of logarithms."""

    between_runs_ratio_accelerator: float = _bounded(0.006, 0, 1)
    between_runs_ratio_cpu: float = _bounded(0.02, 0, 1)
    between_runs_latency_accelerator: float = _bounded(0.02, 0, 1)
    between_runs_latency_cpu: float = _bounded(0.15, 0, 2)
    between_processes_accelerator: float = _bounded(0.01, 0, 1)
    between_processes_cpu: float = _bounded(0.03, 0, 1)
    peak_memory: float = _bounded(0.002, 0, 1)
    error: float = _bounded(0.15, 0, 2)
    prior_runs: float = _bounded(16.0, 0.5, 100)
    """The beliefs weigh as much as so many runs of the series' own history."""
    prior_processes: float = _bounded(4.0, 0.5, 100)
    """The belief about processes weighs as much as so many degrees of freedom of their own scatter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRules:
    """When tonight's value is called a change."""

    history_window: int = _bounded(60, 2, 10_000)
    """Runs of the current baseline that are looked at, the newest."""
    robust_from: int = _bounded(8, 3, 1000)
    """From so many runs on the series' own scatter is a MAD; below it a standard deviation, in which one odd run
    weighs."""
    minimum_history_latency_accelerator: int = _bounded(3, 1, 1000)
    minimum_history_latency_cpu: int = _bounded(10, 1, 1000)
    minimum_history_ratio: int = _bounded(1, 1, 1000)
    minimum_history_memory: int = _bounded(1, 1, 1000)
    minimum_history_error: int = _bounded(3, 1, 1000)
    autocorrelation_from: int = _bounded(24, 8, 1000)
    """Runs of history needed to estimate how far neighbouring nights move together."""
    false_discovery_rate: float = _bounded(0.1, 1e-6, 1)
    """Of the changes called in one night, the share that may be false (Benjamini and Hochberg 1995)."""
    suspicion_p: float = _bounded(0.025, 1e-9, 0.5)
    """A value beyond the floor with a two-sided p below this is worth a confirm run, though not yet a verdict."""
    suspicion_p_unasked: float = _bounded(0.002, 1e-9, 0.5)
    """The same for runs that no device can be asked to repeat (an imported history): later nights must decide."""
    recent_p: float = _bounded(0.02, 1e-9, 0.5)
    """The last three nights together, beyond the floor with a p below this, are worth a confirm run too."""
    short_history: int = _bounded(4, 1, 1000)
    """Below so many runs a gain is no news: one of them may have been throttled."""
    scatter_from: int = _bounded(12, 3, 10_000)
    """Series of one run needed to check the night's own scatter against the expected one; from so many controls on
    they alone are a series' siblings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonModeRules:
    """When a run's series are said to have moved together."""

    minimum_cases: int = _bounded(6, 3, 10_000)
    """Series of one run that can say what all of it did; of other cases, where a series asks what its siblings did."""
    share: float = _bounded(0.7, 0.5, 1)
    """At least this share of the cases moved the same way, each by half of the floor or more ..."""
    shift_floors: float = _bounded(1.0, 0.1, 100)
    """... and the median of their changes is at least so many floors."""
    shift_p: float = _bounded(0.01, 0, 1)
    """It is news where it has a two-sided p below this among the earlier moves of the unit's runs."""
    learn_from: int = _bounded(12, 8, 10_000)
    """Earlier runs with siblings from which a series learns how far it goes with them."""
    proof: float = _bounded(2.0, 0, 100)
    """The coefficient that is learnt is zero below so many of its standard errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmRules:
    """How a suspicion is settled."""

    replicates_accelerator: int = _bounded(10, 2, 100)
    replicates_cpu: int = _bounded(7, 2, 100)
    requests_a_night: int = _bounded(24, 0, 100_000)
    """At most so many confirm requests a run, by priority; the others wait for the next night."""
    expires_h: float = _bounded(72.0, 0.1, 10_000)
    nights: int = _bounded(2, 1, 100)
    """Without a confirm run, a suspicion that so many later nights repeat is confirmed by them."""
    share_of_change: float = _bounded(0.5, 0, 1)
    """A confirm run refutes when even the far end of its interval stays below this share of the suspected change."""
    p: float = _bounded(0.00005, 1e-9, 0.5)
    """The confirm runs of a suspicion, judged together, confirm at a two-sided p below this."""
    p_short_history: float = _bounded(0.0001, 1e-9, 0.5)
    """The same where the baseline is shorter than `night.short_history` runs: its own error is most of the noise."""
    looks: int = _bounded(2, 1, 20)
    """Confirm runs that must agree: one may be as unlucky as the night was."""
    tries: int = _bounded(6, 1, 20)
    """Confirm runs of one suspicion at most; they are judged together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceRules:
    """When missing data are news."""

    device_h: float = _bounded(26.0, 0.1, 10_000)
    """A device that reported and then did not for so many hours is silent."""
    series_runs: int = _bounded(3, 1, 1000)
    """A series that was measured and then was missing from so many runs of its device is a gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All thresholds, with the name and the version that stand on every verdict."""

    name: str = "default"
    version: str = "4"
    floors: Floors = field(default_factory=Floors)
    noise: Noise = field(default_factory=Noise)
    night: NightRules = field(default_factory=NightRules)
    common_mode: CommonModeRules = field(default_factory=CommonModeRules)
    confirm: ConfirmRules = field(default_factory=ConfirmRules)
    silence: SilenceRules = field(default_factory=SilenceRules)

    def unasked(self) -> Policy:
        """The policy for runs that cannot be repeated: fewer suspicions, since nobody can settle them tonight."""
        p = self.night.suspicion_p_unasked
        night = replace(self.night, suspicion_p=min(self.night.suspicion_p, p), recent_p=min(self.night.recent_p, p))
        return replace(self, night=night)

    def floor(self, metric: Metric, device_kind: str) -> float:
        """The floor of a metric on a device, relative."""
        rules = self.floors
        own = {Metric.PEAK_MEMORY: rules.peak_memory, Metric.ERROR: rules.error}
        return own.get(metric, _of_kind(device_kind, cpu=rules.cpu, accelerator=rules.accelerator))

    def between_runs_sd(self, metric: Metric, device_kind: str) -> float:
        """The prior standard deviation of a run's level, of logarithms."""
        rules = self.noise
        ratio = _of_kind(
            device_kind, cpu=rules.between_runs_ratio_cpu, accelerator=rules.between_runs_ratio_accelerator
        )
        latency = _of_kind(
            device_kind, cpu=rules.between_runs_latency_cpu, accelerator=rules.between_runs_latency_accelerator
        )
        own = {Metric.LATENCY_RATIO: ratio, Metric.PEAK_MEMORY: rules.peak_memory, Metric.ERROR: rules.error}
        return own.get(metric, latency)

    def between_processes_sd(self, device_kind: str) -> float:
        """The prior standard deviation of a process's level in its run, of logarithms."""
        rules = self.noise
        return _of_kind(device_kind, cpu=rules.between_processes_cpu, accelerator=rules.between_processes_accelerator)

    def minimum_history(self, metric: Metric, device_kind: str) -> int:
        """Earlier runs without which the metric is not judged."""
        rules = self.night
        own = {
            Metric.LATENCY_RATIO: rules.minimum_history_ratio,
            Metric.PEAK_MEMORY: rules.minimum_history_memory,
            Metric.ERROR: rules.minimum_history_error,
        }
        latency = _of_kind(
            device_kind, cpu=rules.minimum_history_latency_cpu, accelerator=rules.minimum_history_latency_accelerator
        )
        return own.get(metric, latency)

    def confirm_replicates(self, device_kind: str) -> int:
        """Fresh processes of a confirm run."""
        rules = self.confirm
        return _of_kind(device_kind, cpu=rules.replicates_cpu, accelerator=rules.replicates_accelerator)


Number = TypeVar("Number", int, float)


def _of_kind(device_kind: str, *, cpu: Number, accelerator: Number) -> Number:
    """The rule for a device: one with a clock of its own, or a CPU host with other tenants."""
    return cpu if device_kind == "cpu" else accelerator


_SECTIONS: dict[str, type] = {
    "floors": Floors,
    "noise": Noise,
    "night": NightRules,
    "common_mode": CommonModeRules,
    "confirm": ConfirmRules,
    "silence": SilenceRules,
}


def policy_from_mapping(mapping: Mapping[str, object], where: str) -> Policy:
    """A policy from a parsed file; keys left out have their defaults. Raises PolicyError naming `where` and the key."""
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        if key in ("name", "version"):
            if not isinstance(value, str) or not value:
                raise PolicyError(f"{where}: {key} is {value!r}, must be a text that is not empty")
            values[key] = value
        elif key in _SECTIONS:
            if not isinstance(value, Mapping):
                raise PolicyError(f"{where}: {key} is {value!r}, must be a table [{key}]")
            values[key] = _section(_SECTIONS[key], value, f"{where}: {key}")
        else:
            raise PolicyError(f"{where}: unknown key {key!r}, must be one of name, version, {', '.join(_SECTIONS)}")
    return Policy(**values)


def _section(section: type, mapping: Mapping[str, object], where: str) -> Any:
    known = {f.name: f for f in fields(section)}
    values: dict[str, float] = {}
    for key, value in mapping.items():
        if key not in known:
            raise PolicyError(f"{where}.{key} is unknown, must be one of {', '.join(known)}")
        whole = known[key].type == "int"
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise PolicyError(f"{where}.{key} is {value!r}, must be a {'whole ' if whole else ''}number")
        low, high = known[key].metadata["low"], known[key].metadata["high"]
        if not low <= value <= high:
            raise PolicyError(f"{where}.{key} is {value}, must be in [{low:g}, {high:g}]")
        values[key] = value
    return section(**values)
