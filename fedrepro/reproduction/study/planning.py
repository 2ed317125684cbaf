"""Says why a trial would have to run: what differs from the stored trials of the same function."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fedrepro.reproduction.study.store import canonical_json

STORED, TO_RUN = "stored", "to run"


class Planned(NamedTuple):
    """One trial of a study: is it stored, and if not, why not."""

    settings: Mapping
    seed: int
    key: str
    status: str
    reason: str


class History:
    """The stored trials of one function, by their settings."""

    def __init__(self, records: Iterable[Mapping]):
        self._settings: dict[str, Mapping] = {}
        self._records: dict[str, dict[int, list[Mapping]]] = defaultdict(lambda: defaultdict(list))
        self._nearest: dict[str, Mapping] = {}
        for record in records:
            text = canonical_json(record["settings"])
            self._settings[text] = record["settings"]
            self._records[text][record["seed"]].append(record)

    def why(self, components: Mapping) -> str:
        """Why a trial with these key components is not stored."""
        if not self._settings:
            return "never run"
        text = canonical_json(components["settings"])
        if text not in self._settings:
            return _settings_changed(self._nearest_to(text, components["settings"]), components["settings"])
        if components["seed"] not in self._records[text]:
            return f"seed {components['seed']} is new"
        return min((_differences(old, components) for old in self._records[text][components["seed"]]), key=len)

    def _nearest_to(self, text: str, settings: Mapping) -> Mapping:
        if text not in self._nearest:
            known = (self._settings[old] for old in sorted(self._settings))  # ties always fall the same way
            self._nearest[text] = max(known, key=lambda old: _likeness(old, settings))
        return self._nearest[text]


def _likeness(old: Mapping, new: Mapping) -> tuple[int, int]:
    equal = sum(name in old and old[name] == value for name, value in new.items())
    return equal, -len(old.keys() ^ new.keys())


def _settings_changed(old: Mapping, new: Mapping) -> str:
    reasons = []
    for name in dict.fromkeys([*new, *old]):
        if name not in old:
            reasons.append(f"new setting {name}: {new[name]!r}")
        elif name not in new:
            reasons.append(f"setting {name} is gone")
        elif canonical_json(old[name]) != canonical_json(new[name]):
            reasons.append(f"setting {name}: {old[name]!r} -> {new[name]!r}")
    return "; ".join(reasons)


def _differences(old: Mapping, new: Mapping) -> str:
    reasons = []
    source = _changed(old["source"], new["source"])
    if source:
        reasons.append(f"source changed: {', '.join(source)}")
    for part, label in (("data", "data changed"), ("versions", "version changed")):
        reasons.extend(
            f"{label}: {name} {old[part].get(name, 'none')} -> {new[part].get(name, 'none')}"
            for name in _changed(old[part], new[part])
        )
    if old.get("target") != new["target"]:
        reasons.append(f"target changed: {old.get('target', 'none')} -> {new['target']}")
    return "; ".join(reasons)


def _changed(old: Mapping, new: Mapping) -> list[str]:
    return [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
