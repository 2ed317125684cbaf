"""How the pages say things: counts, costs, effects, published numbers."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedrepro.extras import optional
from fedrepro.reproduction.paper.displays import rounded
from fedrepro.reproduction.paper.schema import Claim as Declared
from fedrepro.reproduction.results import Claim, Comparison, Number, Provenance
from fedrepro.reproduction.verdicts.sentences import roughly, short

with optional():
    from markupsafe import Markup, escape

DIRECTIONS = {"confirmed": "as claimed", "contradicted": "the opposite", "inconclusive": "undecided", None: "no data"}
PLACES = ("inside", "near", "outside")
_NEGATIVE = re.compile(r"(?<![\w.])-(?=\.?\d)")
# Formulas are written as λ_k, B_F, max_λ, α_*, γ_{k,t}, θ^sh, θ^(i) or T^(−1/2); the names of data sets and
# parameters have longer parts.
_BRACED = re.compile(r"_\{([^{}]*)\}")
_INDEX = re.compile(
    r"(?<![^\W\d])(?<![.\d]\.)((?:[^\W\d_][\u0300-\u036f]?|[1∇Σ∂]|min|max|sup|inf|Obj))_(?:([^\W_²³]{1,3}\*?)(?![²³]?\.\w)(?![^\W²³])|(\*))"
)
_EXPONENT = re.compile(r"((?:[^\W_][\u0300-\u036f]?|</sub>|[)\]]))\^(?:\(([^()<>]+)\)|([^\W_]{1,3})(?!\w))")
_POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e([+−-]?)0*(\d+)(?!\w)")
_RAISED = str.maketrans("0123456789−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_CODE = re.compile(r"`([^`]+)`")
_MOST_LISTED = 3  # longer lists are summed up; the paper's page has them all
_MOST_WORDS = 30  # of what a row of the index says before it is unfolded
_CLAUSE = re.compile(r"; |(?<!i\.i\.d)\. (?=[A-Z|])")
# Behind an interval, where another comparison follows: "… [1, 2], on CCPP …", "… [1, 2] on the last one, with …".
_NEXT_EFFECT = re.compile(r"\](?: \([^()]*\))? and (?=[^;]*\[)|\][^\[\],;]*, (?:and )?(?=[^;]*\[)")
_READING = re.compile(r" \([^()]*: [^()]*, [^()]*(?:\([^()]*\)[^()]*)*\)(?= (?:holds|fails|is undecided))")


def in_words(verdict: str) -> str:
    """A verdict as prose."""
    return verdict.replace("-", " ")


def counted(number: int, thing: str) -> str:
    """A number of things."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def seeds_in_words(seeds: Sequence[int]) -> str:
    """How many seeds something was made from."""
    return counted(len(seeds), "seed") if seeds else "no random draws"


def tally(counts: Mapping[str, int]) -> str:
    """What there is of each kind, without those of which there is none."""
    return ", ".join(f"{count} {in_words(word)}" for word, count in counts.items() if count)


def cost(provenance: Provenance) -> str:
    """How long the notebook took, and its trials, which may have been stored before."""
    trials = provenance.trials
    notebook = f"{duration(provenance.seconds)} for the notebook"
    if not trials or not trials.number:
        return notebook
    return f"{notebook}, {duration(trials.seconds)} of computing in {counted(trials.number, 'trial')}"


def duration(seconds: float) -> str:
    """Seconds as somebody would say them."""
    if seconds < 100:
        return f"{rounded(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def short_commit(commit: str) -> str:
    """A commit in ten digits, with its mark of changes; a version as it is."""
    if commit.startswith("version "):
        return commit
    digits, plus, mark = commit.partition("+")
    return f"commit {digits[:10]}{plus}{mark}"


def headline(sees: str) -> tuple[str, list[str]]:
    """What we see in at most thirty words, where that can be cut behind a comparison, and the clauses of the rest."""
    cuts = [(found.start(), found.end(), "") for found in _CLAUSE.finditer(sees)]
    cuts += [(found.end() - len(_joint(found[0])), found.end(), "… ") for found in _NEXT_EFFECT.finditer(sees)]
    if not cuts or len(sees.split()) <= _MOST_WORDS:
        return sees, []
    short_enough = [cut for cut in cuts if len(sees[: cut[0]].split()) <= _MOST_WORDS]
    end, begin, joined = max(short_enough) if short_enough else min(cuts)
    first, *others = _CLAUSE.split(sees[begin:])
    rest = [joined + first if joined else _sentence(first), *map(_sentence, others)]
    return _ended(sees[:end]), [_ended(clause) for clause in rest]


def _joint(found: str) -> str:
    """What joins the next comparison to the one before: the end of a match of `_NEXT_EFFECT`."""
    return next(joint for joint in (", and ", ", ", " and ") if found.endswith(joint))


def _sentence(clause: str) -> str:
    """A clause with a capital, where it begins with a word and not with a symbol."""
    return clause[:1].upper() + clause[1:] if re.match(r"[a-z]{2}|a ", clause) else clause


def _ended(clause: str) -> str:
    return clause if clause.endswith(".") else f"{clause}."


def without_reading(why: str) -> str:
    """Why a verdict is what it is, without the values of the primary reading, where they are several."""
    return _READING.sub("", why)


def reading(values: Mapping[str, str]) -> str:
    """The values of a reading, by axis."""
    return ", ".join(f"{axis.replace('-', ' ')}: {value}" for axis, value in values.items())


def size(number: float, unit: str = "") -> str:
    """A number in three digits, with its unit and a minus sign that is not a hyphen."""
    text = f"{number:,.0f}" if 1000 <= abs(number) < 1e6 else short(number, 3)
    return f"{minus(text)}{f' {unit}' if unit else ''}"


def minus(text: str) -> str:
    """A number as text, with a minus sign of the width of a digit, and powers of ten as one writes them."""
    return powers(f"−{text[1:]}" if text.startswith("-") else text)


def powers(text: str) -> str:
    """A text in which 4.5e-05 is written 4.5×10⁻⁵."""

    def raised(found: re.Match) -> str:
        sign = "" if found[2] in ("", "+") else "−"
        power = f"10{(sign + found[3]).translate(_RAISED)}"
        return power if found[1] == "1" else f"{found[1]}×{power}"

    return _POWER.sub(raised, text)


def prose(sentence: str) -> "Markup":
    """A sentence with minus signs before its numbers, indices and exponents where they belong, and code as code."""
    text = str(escape(powers(_NEGATIVE.sub("−", sentence))))
    while _BRACED.search(text):  # the innermost first
        text = _BRACED.sub(r"<sub>\1</sub>", text)
    text = _INDEX.sub(lambda found: f"{found[1]}<sub>{found[2] or found[3]}</sub>", text)
    text = _EXPONENT.sub(_raised, text)
    return Markup(_CODE.sub(r"<code>\1</code>", text))


def _raised(found: re.Match) -> str:
    """An exponent; a name in brackets keeps them, as in θ^(i), a number or fraction does not."""
    base, bracketed, plain = found.groups()
    keeps = bracketed is not None and bracketed.isalpha()
    return f"{base}<sup>{f'({bracketed})' if keeps else bracketed or plain}</sup>"


def markdown(text: str) -> str:
    """A text that stays one cell of a Markdown table, and is no markup there."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(_NEGATIVE.sub("−", text).split()))


def label(source: str) -> str:
    """Where the paper has a figure or table, or to what of it an addition of ours belongs."""
    ours, mark, place = source.partition("; ")
    return f"Ours, to {place}" if mark and ours == "ours" else f"The paper, {source}"


def measured(one: Comparison, unit: str = "") -> str:
    """What a comparison found, in the direction of the claim: positive numbers are as claimed."""
    if one.test == "unavailable":
        return "not testable"
    if one.instances is not None:
        held, total = one.instances
        return f"{held:,} of {total:,} hold" if total != 1 else "holds" if held else "does not hold"
    assert one.mean is not None and one.low is not None and one.high is not None
    return f"{size(one.mean, unit)} [{size(one.low)}, {size(one.high)}]"


def undecided(one: Comparison) -> str:
    """What an inconclusive comparison would need."""
    if one.direction != "inconclusive":
        return ""
    if one.negligible:
        return "smaller than what matters"
    if not one.needed:
        return "no number of seeds decides it"
    return f"{roughly(one.needed[1])} to {roughly(one.needed[2])} seeds would decide it"


def published_lines(claim: Claim) -> list[tuple[str, str]]:
    """The published effect: a line per setting, or the range where they are many."""
    found = claim.published
    if not found:
        return []
    if len(found) > _MOST_LISTED:
        least, most = (pick(one.published for one in found.values()) for pick in (min, max))
        text = f"{size(least)} to {size(most, claim.unit)}"
        return [(f"{len(found)} settings", f"{text} ({tally(places(found.values()))})")]
    return [
        (setting, f"{_sided(claim, setting, one.published)} ({_under(one)}{one.place})")
        for setting, one in found.items()
    ]


def _sided(claim: Claim, setting: str, effect: float) -> str:
    """An effect with the word for its direction, as our sentences have it, in the place of a sign."""
    compared = next((one for one in claim.comparisons if one.setting == setting and one.test != "unavailable"), None)
    if compared is None:
        return size(effect, claim.unit)
    return f"{size(abs(effect), claim.unit)} {compared.words[effect < 0]}"


def _under(one: Number) -> str:
    """Under which reading an effect was published, where that is not the primary one."""
    return "".join(f"{value}: " for value in one.reading.values())


def declared_lines(claim: Declared) -> list[tuple[str, str]]:
    """The published effect of a claim that no run has judged."""
    lines = [
        (setting, size(one.value, claim.unit) + (f" ({reading(one.reading)})" if one.reading else ""))
        for setting, one in claim.published.items()
    ]
    if len(lines) <= _MOST_LISTED:
        return lines
    least, most = (pick(one.value for one in claim.published.values()) for pick in (min, max))
    return [(f"{len(lines)} settings", f"{size(least)} to {size(most, claim.unit)}")]


def place(one: Number) -> str:
    """Where a published mean lies, by the prediction of our seeds."""
    if one.place == "inside":
        return "inside our prediction"
    return f"{one.place} our prediction, {size(one.low)} to {size(one.high)}"


def places(numbers: Iterable[Number]) -> dict[str, int]:
    """How many published means lie inside, near and outside the predictions of our seeds."""
    found = Counter(one.place for one in numbers)
    return {name: found[name] for name in PLACES}


def flat(content: Any, path: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Nested recorded values as lines of name and text."""
    if isinstance(content, Mapping):
        return [line for name, part in content.items() for line in flat(part, (*path, str(name)))]
    return [(", ".join(path), minus(rounded(content)))]
