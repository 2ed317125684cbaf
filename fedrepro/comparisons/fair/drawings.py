"""Tables and the figure of the comparison."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fedrepro.comparison import half_width
from fedrepro.comparisons.fair.trials import AFL, MEASURES, METHODS
from fedrepro.extras import optional
from fedrepro.reproduction import figures
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.verdicts import Verdict

with optional():
    import matplotlib.pyplot as plt


def choices(found: Mapping[tuple[str, str], Mapping]) -> pd.DataFrame:
    """What each method chose on each problem."""
    rows = [
        {"problem": name, "method": method, "chosen": ", ".join(f"{key} {value:.3g}" for key, value in choice.items())}
        for (name, method), choice in found.items()
    ]
    return pd.DataFrame(rows).pivot(index="method", columns="problem", values="chosen").loc[list(METHODS)]


def accuracies(runs: Runs, name: str) -> pd.DataFrame:
    """A row for each method on a problem: mean ± half of the 95 % interval over seeds, and the scalars of a run."""
    rows = {}
    for method in METHODS:
        mine = runs.select(name=name, method=method)
        row = {}
        for measure in MEASURES:
            values = mine.column(measure)[:, -1]
            row[measure.replace("_", " ")] = f"{values.mean():.1f} ± {half_width(values):.1f}"
        scalars = mine.column("sent")[:, -1] + mine.column("received")[:, -1]
        rows[method] = row | {"rounds": f"{mine.column('round')[0, -1]:.0f}", "scalars": f"{scalars.mean():,.0f}"}
    return pd.DataFrame.from_dict(rows, orient="index")


def verdict(found: Verdict, reading: Mapping[str, str]) -> pd.DataFrame:
    """The directions of a verdict under a reading: a row for each method, a column for each problem."""
    rows: dict[str, dict[str, str]] = {}
    for one in found.under(reading):
        name, _, method = one.comparison.setting.rpartition(": ")
        rows.setdefault(method, {})[name] = f"{one.direction}: {one.mean:+.1f} [{one.low:.1f}, {one.high:.1f}]"
    return pd.DataFrame.from_dict(rows, orient="index")


def effects(judged: Mapping[str, Verdict]) -> pd.DataFrame:
    """Of each published effect its word, and on each problem the advantage with its interval."""
    rows = {}
    for claim, found in judged.items():
        rows[claim] = {"verdict": found.word.replace("-", " ")} | {
            one.comparison.setting: f"{one.direction}: {one.mean:+.2f} [{one.low:.2f}, {one.high:.2f}]"
            for one in found.judged
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def dots(runs: Runs, names: Sequence[str]):
    """Worst client, worst tenth and mean of every method, with 95 % intervals over seeds, a panel for each problem."""
    figure, panels = figures.subplots(1, len(names), sharey=True, squeeze=False)
    shown = {"worst_client": ("o", "#D55E00"), "worst_tenth": ("s", "#009E73"), "mean": ("^", "#0072B2")}
    for panel, name in zip(panels[0], names, strict=True):
        for shift, (measure, (marker, colour)) in zip((0.2, 0.0, -0.2), shown.items(), strict=True):
            values = [runs.select(name=name, method=method).column(measure)[:, -1] for method in METHODS]
            panel.errorbar(
                [own.mean() for own in values],
                np.arange(len(METHODS)) + shift,
                xerr=[half_width(own) for own in values],
                fmt=marker,
                color=colour,
                markersize=5,
                capsize=2,
                label=measure.replace("_", " "),
            )
            if measure == "worst_client":
                panel.axvline(values[METHODS.index(AFL)].mean(), color=colour, linewidth=0.8, linestyle=":")
        panel.set(title=name, xlabel="test accuracy, %", yticks=range(len(METHODS)), yticklabels=METHODS)
    panels[0][0].invert_yaxis()  # of all panels: they share it
    panels[0][0].legend(frameon=False, fontsize=8)
    plt.close(figure)  # a notebook would otherwise show it twice
    return figure


def answer(found: Verdict) -> str:
    """The question's answer in a sentence for each reading, from the directions."""
    lines = []
    for reading in found.readings:
        (iterate,) = reading.values.values()
        told = {
            direction: [one.comparison.setting for one in found.under(reading.values) if one.direction == direction]
            for direction in ("confirmed", "contradicted", "inconclusive")
        }
        lines.append(
            f"Against AFL's {'last' if iterate == 'last' else 'averaged'} iterate, better for the worst client: "
            f"{'; '.join(told['confirmed']) or 'none'}. Worse: {len(told['contradicted'])} of "
            f"{sum(map(len, told.values()))} comparisons; undecided: {len(told['inconclusive'])}."
        )
    return "\n".join(lines)
