"""A verdict in words: what we see, filled from the numbers, and why the word is what it is."""

import re
from collections.abc import Mapping, Sequence

from fedrepro.reproduction.verdicts.comparisons import ROUNDING_ERROR, Comparison
from fedrepro.reproduction.verdicts.intervals import MOST_SEEDS, Seeds
from fedrepro.reproduction.verdicts.rule import Judged, Reading, Verdict, deciding_axes

_MOST_LISTED = 3  # longer lists are counted; the picture has them all
_SLOT = re.compile(r"\{([^{}]+)\}")


def short(number: float, digits: int = 4) -> str:
    """A number with so many significant digits, as verdicts and notebooks print it.

    What is left of a zero after rounding errors differs between machines and is printed as ``≈0``.
    """
    if 0 < abs(number) < ROUNDING_ERROR:
        return "≈0"
    rounded = f"{float(number):.{digits}g}"
    return "0" if rounded == "-0" else rounded


def effect(one: Judged, unit: str = "") -> str:
    """A comparison as a clause, in the direction of the numbers: "AFL is 8.4 points above FedAvg [5.2, 11.7]"."""
    compared = one.comparison
    if compared.test == "unavailable":
        return f"{compared.setting} is not testable here"
    if compared.test == "universal":
        return _instances(compared)
    assert one.mean is not None and one.low is not None and one.high is not None
    ours, theirs = compared.sides
    if one.mean >= 0:
        word, size, ends = compared.words[0], one.mean, _range(one.low, one.high)
    else:
        word, size, ends = compared.words[1], -one.mean, _range(-one.high, -one.low)
    said = f"{ours} is {_sized(size, unit, 3)} {word} {theirs} {ends}"
    return f"{said}, where {short(compared.tolerance)} is allowed" if compared.test == "equality" else said


def fill(template: str, verdict: Verdict, unit: str = "", published: Mapping[str, float] | None = None) -> str:
    """A sentence whose slots are filled from the numbers.

    ``{setting}`` is the clause of a comparison under the primary reading, ``{setting | axis=value}`` under another
    one, ``{mean: side @ setting}`` the mean of a side, ``{published: setting}`` the published effect.
    """

    def filled(slot: re.Match) -> str:
        text, _, other = slot.group(1).partition("|")
        kind, _, rest = text.partition(":")
        if kind.strip() == "published" and rest:
            return short((published or {})[_known(rest.strip(), published or {}, "published effect")], 4)
        side, _, setting = rest.partition("@") if kind.strip() == "mean" and rest else ("", "", text)
        reading = dict(_pair(part) for part in other.split(",") if part.strip())
        one = _find(verdict, setting.strip(), reading)
        if side and one.comparison.test != "unavailable":
            return short(one.comparison.sides[_known(side.strip(), one.comparison.sides, "side")], 4)
        # Where the primary reading is not compared, what stands for it is named.
        elsewhere = not _is_under(one, {**_first_reading(verdict), **reading})
        return effect(one, unit) + (f" ({reading_in_words(one.comparison.reading)})" if elsewhere else "")

    sentence = _SLOT.sub(filled, template).strip()
    return sentence[:1].upper() + sentence[1:]


def slots(template: str) -> list[str]:
    """What stands in the slots of a sentence."""
    return [found.strip() for found in _SLOT.findall(template)]


def reason(verdict: Verdict, matters: float | None = None, unit: str = "") -> str:
    """Why the word is what it is, in one sentence or two."""
    if verdict.word == "not-testable":
        return " ".join(dict.fromkeys(one.comparison.reason for one in verdict.judged))
    say = {
        "reproduced": _reproduced,
        "depends": _depends,
        "partly": _partly,
        "not-reproduced": _not_reproduced,
        "inconclusive": lambda given: _inconclusive(given, matters, unit),
    }[verdict.word]
    return say(verdict)


def listed(names: Sequence[str], what: str) -> str:
    """Names in a row where they are few, otherwise their number."""
    if len(names) > _MOST_LISTED:
        return f"{len(names)} {what}"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def seeds_in_words(needed: Seeds | None) -> str:
    """How many seeds would decide."""
    if needed is None:
        return "no number of seeds would decide it"
    if needed.high >= MOST_SEEDS:
        return f"more than {roughly(needed.low)} seeds would be needed"
    number, low, high = (roughly(count) for count in needed)
    return f"about {number} seeds ({low} to {high}) would decide it"


def reading_in_words(reading: Reading | Mapping[str, str]) -> str:
    """The values of a reading."""
    values = reading.values if isinstance(reading, Reading) else reading
    return ", ".join(f"{axis.replace('-', ' ')}: {value}" for axis, value in values.items())


def _reproduced(verdict: Verdict) -> str:
    settings = _settings(verdict.judged)
    parts = [f"in {_all(len(settings), 'settings')}"] if len(settings) > 1 else []
    if len(verdict.readings) > 1:
        parts.append(f"under {_all(len(verdict.readings), 'readings')}")
    said = f"It holds {' '.join(parts)}." if parts else "It holds."
    small = _settings([one for one in verdict.judged if one.negligible])
    return said + (f" In {listed(small, 'settings')} the effect is smaller than what matters." if small else "")


def _depends(verdict: Verdict) -> str:
    axes = deciding_axes(verdict.readings)
    holding = [reading for reading in verdict.readings if reading.outcome == "holds"]
    named = listed([axis.replace("-", " ") for axis in axes], "open choices") if axes else "the reading"
    if len(axes) == 1:
        good, bad = (_values_with(verdict, axes[0], wanted) for wanted in (("holds",), ("fails", "mixed")))
        said = f"It hangs on the {named}: it holds with {listed(good, 'values')}, not with {listed(bad, 'values')}."
    else:
        said = f"It hangs on {named}: it holds under {len(holding)} of {len(verdict.readings)} readings."
    undecided = sum(reading.outcome == "open" for reading in verdict.readings)
    if undecided:
        against = len(verdict.readings) - len(holding) - undecided
        said += f" It does not under {against}, and {undecided} {'is' if undecided == 1 else 'are'} undecided."
    return f"{said} {_small_against(verdict)} {_primary(verdict)}".replace("  ", " ").strip()


def _values_with(verdict: Verdict, axis: str, wanted: Sequence[str]) -> list[str]:
    """The values of an axis with which some reading has such an outcome; under how many, where not all have it."""
    found: dict[str, list[bool]] = {}
    for reading in verdict.readings:
        found.setdefault(reading.values[axis], []).append(reading.outcome in wanted)
    return [
        value if all(has) else f"{value} (in {sum(has)} of {len(has)} readings)"
        for value, has in found.items()
        if any(has)
    ]


def _partly(verdict: Verdict) -> str:
    mixed = next((one for one in verdict.readings if one.primary and one.outcome == "mixed"), None)
    reading = mixed or next(one for one in verdict.readings if one.outcome == "mixed")
    judged = verdict.under(reading.values)
    good, bad, rest = (
        _settings([one for one in judged if one.direction == direction])
        for direction in ("confirmed", "contradicted", "inconclusive")
    )
    said = f"It holds in {listed(good, 'settings')} and fails in {listed(bad, 'settings')}"
    said += f"; {listed(rest, 'settings')} {'is' if len(rest) == 1 else 'are'} undecided." if rest else "."
    if len(verdict.readings) > 1:
        many = len(verdict.readings)
        said += f" That is the reading with {reading_in_words(reading)}; of {many} readings none holds."
    said = f"{said} {_small_against(verdict)}".strip()
    return said if reading.primary else f"{said} {_primary(verdict)}".strip()


def _not_reproduced(verdict: Verdict) -> str:
    against = [one for one in verdict.judged if one.direction == "contradicted"]
    example = next((one for one in against if one.comparison.test == "universal"), None)
    if example:
        return f"A counter-example: in {example.comparison.setting} {_instances(example.comparison)}."
    settings = _settings(against)
    many = f" under {_all(len(verdict.readings), 'readings')}" if len(verdict.readings) > 1 else ""
    return _ended(f"The numbers say the opposite in {listed(settings, 'settings')}{many}")


def _inconclusive(verdict: Verdict, matters: float | None, unit: str) -> str:
    undecided = [one for one in verdict.judged if one.direction == "inconclusive"]
    missing = _settings([one for one in verdict.judged if one.direction is None])
    parts = []
    if undecided:
        random = sum(one.comparison.is_random for one in verdict.judged)
        said = f"Undecided in {listed(_settings(undecided), 'settings')} ({len(undecided)} of {random} comparisons)"
        said += f": {_what_would_decide(undecided, matters, unit)}"
        parts.append(_ended(said))
    if missing:
        parts.append(_ended(f"Not testable here: {listed(missing, 'settings')}"))
    outcomes = [reading.outcome for reading in verdict.readings]
    if len(outcomes) > 1 and len(set(outcomes)) > 1:
        counts = {word: outcomes.count(word) for word in _OUTCOMES if word in outcomes}
        counted = [f"{count} {_OUTCOMES[word][count > 1]}" for word, count in counts.items()]
        parts.append(f"Of {len(outcomes)} readings {', '.join(counted[:-1])} and {counted[-1]}.")
    return " ".join(parts) or "Nothing decides it."


def _what_would_decide(undecided: Sequence[Judged], matters: float | None, unit: str) -> str:
    rest = [one for one in undecided if not one.negligible]
    if not rest:
        return f"any effect there is smaller than {_sized(matters or 0.0, unit)}, the least that matters"
    if all(one.hidden for one in rest):
        return "the test set is too small to tell, whatever the number of seeds"
    wanted = [one.needed for one in rest if one.needed is not None]
    if not wanted:
        return "too close to call"
    size = f" for an effect of {_sized(matters, unit)}" if matters else ""
    more = "" if len(wanted) == len(rest) else f" in {len(wanted)} of them; the rest is too close to call"
    return f"{seeds_in_words(max(wanted))}{size}{more}"


# Of one reading, and of several.
_OUTCOMES = {
    "holds": ("holds", "hold"),
    "mixed": ("is mixed", "are mixed"),
    "fails": ("fails", "fail"),
    "open": ("is undecided", "are undecided"),
}


def _small_against(verdict: Verdict) -> str:
    """That what contradicts a claim is smaller than what matters, where all of it is."""
    against = [one for one in verdict.judged if one.direction == "contradicted"]
    small = against and all(one.negligible for one in against)
    return "Where it fails, the effect is smaller than what matters." if small else ""


def _primary(verdict: Verdict) -> str:
    reading = verdict.primary
    if reading is None:
        return ""
    says = {"holds": "holds", "mixed": "holds in some settings only", "fails": "fails", "open": "is undecided"}
    return f"The primary reading ({reading_in_words(reading)}) {says[reading.outcome]}."


def _instances(one: Comparison) -> str:
    """A universal statement as a clause: how far inside its bound the worst instance is, or how far beyond it."""
    (name, worst) = next(iter(one.sides.items()))
    broken = [at for at, margin in enumerate(one.values) if margin < 0]
    total = len(one.values)
    said, allowed = _worst(name, worst, one.tolerance, bool(broken))
    if not broken:
        many = f"in all {total:,} instances" if total > 1 else "in the one instance"
        return f"{said}, {allowed}, {many}" if allowed else f"{said} {many}"
    at = min(broken, key=lambda index: one.values[index])
    example = f", worst in {one.instances[at]}" if one.instances else ""
    said = f"{said}, {allowed}" if allowed else said
    return f"{said} ({len(broken):,} of {total:,} instance{'s' if total > 1 else ''}{example})"


def _worst(name: str, worst: float, tolerance: float, broken: bool) -> tuple[str, str]:
    """What the worst instance has, without a sign that the reader would have to turn; and what is allowed."""
    size = short(abs(worst), 3)
    if name.endswith(" − bound") and worst < -ROUNDING_ERROR:
        return f"{name.removesuffix(' − bound')} is at least {size} below its bound", ""
    at_most = "" if broken else "at most "
    if name.endswith(" − bound"):
        said = f"{name.removesuffix(' − bound')} is {at_most}{size} above its bound"
    elif name.startswith("|") and name.endswith(" − expected|"):
        said = f"{name[1:].removesuffix(' − expected|')} is off by {at_most}{size}"
    else:
        said = f"{name} is {at_most}{short(worst, 3)}"
    return said, f"where {short(tolerance)} is allowed" if tolerance else ""


def _settings(judged: Sequence[Judged]) -> list[str]:
    return list(dict.fromkeys(one.comparison.setting for one in judged))


def _range(low: float, high: float) -> str:
    return f"[{short(low, 3)}, {short(high, 3)}]"


def _sized(number: float, unit: str, digits: int = 4) -> str:
    """A number with its unit, which loses its plural after one."""
    said = short(number, digits)
    return f"{said} {unit.removesuffix('s') if said == '1' else unit}".rstrip()


def roughly(count: int) -> str:
    """A number of seeds in two digits: its range says how little more is known."""
    return f"{round(count, 2 - len(str(count))) if count > 99 else count:,}"


def _all(count: int, things: str) -> str:
    return f"both {things}" if count == 2 else f"all {count} {things}"


def _ended(sentence: str) -> str:
    """A sentence with one full stop, also where it ends in an abbreviation."""
    return sentence if sentence.endswith(".") else f"{sentence}."


def _pair(text: str) -> tuple[str, str]:
    axis, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text.strip()!r} is not axis=value")
    return axis.strip(), value.strip()


def _known(name: str, names, kind: str) -> str:
    if name not in names:
        raise ValueError(f"there is no {kind} {name!r}: choose from {', '.join(map(repr, names)) or 'none'}")
    return name


def _first_reading(verdict: Verdict) -> Mapping[str, str]:
    """The primary reading, or else the first one."""
    return verdict.primary.values if verdict.primary else verdict.readings[0].values if verdict.readings else {}


def _is_under(one: Judged, reading: Mapping[str, str]) -> bool:
    return all(reading.get(axis) == value for axis, value in one.comparison.reading.items())


def _find(verdict: Verdict, setting: str, reading: Mapping[str, str]) -> Judged:
    """The comparison of a setting under the primary reading, or under another one."""
    wanted = {**_first_reading(verdict), **reading}
    of_setting = [one for one in verdict.judged if one.comparison.setting == setting]
    if not of_setting:
        _known(setting, _settings(verdict.judged), "setting")
    fitting = [one for one in of_setting if _is_under(one, wanted)]
    # A shorter run may lack the primary value of an axis that the slot does not name.
    asked = [one for one in of_setting if all(one.comparison.reading.get(a, v) == v for a, v in reading.items())]
    if not asked:
        raise ValueError(f"the setting {setting!r} is not compared under {reading_in_words(wanted)}")
    return (fitting or asked)[0]
