"""What the notebook draws: the scenario of Figure 1, the simplex of Figure 2, and everything that is measured."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedrepro.papers.afl import claims
from fedrepro.papers.afl.section_3 import LinearClass
from fedrepro.papers.afl.trials import saddle
from fedrepro.reproduction import figures
from fedrepro.reproduction.figures import Drawing, in_triangle
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.study.runs import at_hand
from fedrepro.reproduction.verdicts import interval

_ARROW = {"arrowstyle": "-|>", "color": "0.35", "shrinkA": 0, "shrinkB": 0}


def closer(ax, mixtures: np.ndarray, margin: float = 0.03) -> None:
    """Show only the part of the triangle where these mixtures are."""
    points = in_triangle(mixtures)
    low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    for text in ax.texts:  # the corners are out of sight
        text.set_visible(False)


def scenario(fig: Drawing, counts: np.ndarray, learned: np.ndarray, domains: Sequence[str]) -> None:
    """Samples of two domains on the left; on the right targets, each a mixture of them, and the question which.

    Parameters
    ----------
    fig
        Where to draw.
    counts
        How many samples each domain has.
    learned
        The mixture with which AFL ends.
    domains
        The domains' names.
    """
    sizes = dict(zip(domains, counts.tolist(), strict=True))
    mixtures = {
        "Û, the union of the samples": counts / counts.sum(),
        "both domains alike": np.array([0.5, 0.5]),
        "λ^A, where AFL ends": learned,
    }
    fig.data |= {"samples": sizes, "mixtures": mixtures}
    ax, colours = fig.subplots(figsize=(9, 3.4)), (figures.look("afl").colour, figures.look("uniform").colour)
    height = np.linspace(1.0, 0.0, len(sizes))
    rows = np.linspace(1.1, -0.1, len(mixtures))
    for y, (name, size), colour in zip(height, sizes.items(), colours, strict=True):
        ax.barh(y, 0.3, height=0.28, left=0.0, color=colour)
        ax.text(0.15, y, name, ha="center", va="center", color="white", fontweight="bold")
        ax.text(0.15, y - 0.17, f"{size:,} samples", ha="center", va="top", color="0.3")
        for target in rows:
            ax.annotate("", (0.6, target), (0.31, y), arrowprops=_ARROW | {"alpha": 0.45})
    for y, (name, mixture) in zip(rows, mixtures.items(), strict=True):
        left = 0.62
        for share, colour in zip(mixture, colours, strict=True):
            ax.barh(y, 0.3 * share, height=0.16, left=left, color=colour)
            left += 0.3 * share
        ax.text(0.94, y, name, ha="left", va="center")
    ax.text(0.15, 1.42, "domains D_k, of which there are samples", ha="center", va="bottom", color="0.2")
    ax.text(0.77, 1.42, "targets D_λ = Σ λ_k D_k", ha="center", va="bottom", color="0.2")
    ax.set(xlim=(-0.02, 1.35), ylim=(-0.4, 1.55))
    ax.set_axis_off()


# --- what is measured ------------------------------------------------------------------------------------------------

LOOKS = {"uniform": "uniform", "balanced": "local", "agnostic": "afl"}
FOUR = {
    ("uniform", "last"): "uniform",
    ("uniform", "average"): "approx fedavg",
    ("agnostic", "last"): "afl",
    ("agnostic", "average"): "scaffold",
}
_DOTTED = (0, (1, 2))


def along_steps(
    fig: Drawing, along: Runs, domains: Sequence[str], published: Mapping, used: Mapping[str, Mapping]
) -> None:
    """Accuracy of each domain against the number of steps, of both iterates; of the first with the other features, too.

    ``used`` holds the settings by features, those of the first panels first.
    """
    usual, other = used
    panels = {name: (name, usual) for name in domains} | {f"{domains[0]}, {other}": (domains[0], other)}
    for ax, panel in fig.panels(list(panels)):
        name, features = panels[panel]
        for row in ("uniform", "agnostic"):
            runs = along.select(trained_on=row, features=features)
            for iterate in ("last", "average"):
                values = runs.column(iterate)[:, 1:, domains.index(name)]
                fig.curve(ax, runs.rounds[1:], values, label=f"{row}, {iterate} iterate", look_as=FOUR[row, iterate])
            line = {"color": figures.look(LOOKS[row]).colour, "linewidth": 1.2, "linestyle": _DOTTED}
            ax.axhline(published[f"adult_{row}"][name], label=f"{row}, published", **line)
        ax.axvline(used[features]["steps"], color="0.6", linewidth=0.8, linestyle=":", zorder=0)
        ax.set(title=panel, xlabel="step", xscale="log", ylim=(60, 80) if name == domains[0] else (70, 84))
    fig.axes[0].set_ylabel("test accuracy, %")
    fig.legend()


def over_mixtures(fig: Drawing, rows: Mapping[str, Runs], domains: Sequence[str], published: Mapping) -> None:
    """Accuracy on every mixture of two domains, from nothing but the first to nothing but the second."""
    ends = {row: claims.by_domain(runs) for row, runs in rows.items()}
    ax, share = fig.subplots(figsize=(7.2, 4.2)), np.linspace(0, 1, 21)
    looks = dict(zip(ends, ("none", "water-filled", "uniform", "afl"), strict=True))
    for row, values in ends.items():
        fig.curve(ax, share, (1 - share) * values[:, :1] + share * values[:, 1:], label=row, look_as=looks[row])
        if row in published:
            first, second = (published[row][name] for name in domains)
            ax.plot([0, 1], [first, second], color=figures.look(looks[row]).colour, linestyle=_DOTTED, linewidth=1.2)
    ax.set(xlabel=f"share of {domains[1]}s in the target", ylabel="test accuracy, %")
    fig.legend()


def by_domain(fig: Drawing, rows: Mapping[str, Mapping[str, Runs]], domains_of: Mapping, published: Mapping) -> None:
    """Bars of the accuracy of each domain, for every data set of ``rows``."""
    ends = {
        title: {row: claims.by_domain(runs[row]) for row in ("uniform", "agnostic")} for title, runs in rows.items()
    }
    for ax, title in fig.panels(list(rows), sharey=True, gridspec_kw={"width_ratios": [2, 3]}):
        data, domains = _key(title), domains_of[title]
        for place, row in ((-0.2, "uniform"), (0.2, "agnostic")):
            at = np.arange(len(domains)) + place
            fig.data[f"{data}, {row}"] = _bars(ax, at, ends[title][row], row, domains)
            figures.published_marker(ax, at, [published[f"{data}_{row}"][domain] for domain in domains])
        ax.set_xticks(range(len(domains)), domains)
        ax.set(title=title, ylim=(50, 92))
    fig.axes[0].set_ylabel("test accuracy, %")
    _shared_legend(fig, 3)


def of_groups(fig: Drawing, groups: Mapping[str, Mapping[str, Runs]], names_of: Callable) -> None:
    """Bars of the test loss of each group; ``groups`` holds the runs of every attribute, by what they trained on."""
    losses = {
        attribute: {row: runs.column("last_loss")[:, -1] for row, runs in rows.items()}
        for attribute, rows in groups.items()
    }
    widths = [len(names_of(attribute)) for attribute in groups]
    for ax, attribute in fig.panels(list(groups), sharey=True, gridspec_kw={"width_ratios": widths}):
        names = names_of(attribute)
        for place, row in ((-0.28, "uniform"), (0.0, "balanced"), (0.28, "agnostic")):
            at = np.arange(len(names)) + place
            fig.data[f"{attribute}, {row}"] = _bars(ax, at, losses[attribute][row], row, names, width=0.26)
        ax.set_xticks(range(len(names)), [name.replace("-", "\n") for name in names], fontsize=8)
        ax.set_title(attribute)
    fig.axes[0].set_ylabel("test loss, nats")
    _shared_legend(fig, 3)


def _key(title: str) -> str:
    """A data set's name as ``paper.toml`` spells it in published values."""
    return title.lower().replace("-", "_")


def _bars(
    ax, at: np.ndarray, values: np.ndarray, row: str, names: Sequence[str], width: float = 0.36
) -> dict[str, float]:
    mean, low, high = figures.band(values)
    ax.bar(at, mean, width, color=figures.look(LOOKS[row]).colour, label=row)
    ax.errorbar(at, mean, yerr=(mean - low, high - mean), fmt="none", ecolor="0.1", capsize=3)
    return dict(zip(names, mean.tolist(), strict=True))


def _shared_legend(fig: Drawing, columns: int) -> None:
    handles, labels = fig.axes[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    fig.figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=columns, title="trained on")


def way_of_mixture(fig: Drawing, runs: Runs, names: Sequence[str]) -> None:
    """The way of λ through the triangle of three domains, for every seed."""
    ways, ends = runs.column("mixture"), runs.final("average_mixture")
    axes, colour = fig.subplots(1, 2, figsize=(10, 4.8)), figures.look("afl").colour
    for ax in axes:
        figures.triangle(ax, tuple(names))
        for way in ways:
            ax.plot(*in_triangle(way).T, color=colour, linewidth=0.7, alpha=0.45)
        ax.plot([], [], color=colour, linewidth=1.2, label=f"λ on its way, {len(ways)} runs")
        mean = in_triangle(ends.mean(axis=0))
        ax.scatter(*in_triangle(ends).T, s=22, color=figures.look("uniform").colour, zorder=4, label="λ^A of each run")
        ax.scatter(*mean, s=150, marker="*", color="black", zorder=5, label="their mean, an estimate of λ*")
        ax.scatter(*in_triangle(np.full(3, 1 / 3)), s=60, marker="D", color="0.4", zorder=5, label="λ of Û")
    closer(axes[1], ways.reshape(-1, 3))
    axes[0].set_title("Λ, the simplex of the three domains")
    axes[1].set_title("the same, closer")
    fig.legend()
    fig.data |= {
        "rounds": runs.rounds,
        "mean mixture": ways.mean(axis=0),
        "average mixtures": ends,
        "mean of the averages": dict(zip(names, ends.mean(axis=0).tolist(), strict=True)),
    }


def trade_off(fig: Drawing, tried: Mapping[str, Runs], domains_of: Mapping, used: Mapping, published: Mapping) -> None:
    """Accuracy of each domain against λ's step, for every data set that is at hand; ``used`` holds the settings."""
    for ax, title in fig.panels(list(at_hand(tried))):
        runs = tried[title]
        sizes = list(runs.groups("step_domains"))
        for domain, (name, looks) in enumerate(zip(domains_of[title], ("none", "uniform", "weighted"), strict=False)):
            values = [runs.select(step_domains=size).column("last")[:, -1, domain] for size in sizes]
            fig.curve(ax, sizes, np.stack(values, axis=1), label=name, look_as=looks, record=[f"{title}, {name}"])
            line = {"color": figures.look(looks).colour, "linewidth": 1.0, "linestyle": _DOTTED}
            ax.axhline(published[_key(title)][name], **line)
        ax.axvline(used[title]["step_domains"], color="0.6", linewidth=0.8, linestyle=":", zorder=0)
        ax.set(title=title, xlabel="step size of λ", xscale="log")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
    fig.axes[0].set_ylabel("test accuracy, %")


def over_epochs(fig: Drawing, rows: Mapping[str, Runs], domains: Sequence[str]) -> None:
    """Perplexity of each domain after every pass over the text, of every model."""
    looks = dict(zip(rows, ("none", "water-filled", "uniform", "afl"), strict=True))
    for domain, (ax, name) in enumerate(fig.panels(domains)):
        for row, runs in rows.items():
            values = runs.column("last")[:, 1:, domain]
            fig.curve(ax, np.arange(1, values.shape[1] + 1), values, label=row, look_as=looks[row])
        ax.set(title=f"on {name}", xlabel="passes over the text", yscale="log")
    fig.axes[0].set_ylabel("test perplexity")
    fig.legend(title="trained on")


def duality_gaps(fig: Drawing, versions: Mapping[str, Runs]) -> None:
    """The duality gap of every version against the number of steps, below the bound of Theorem 2."""
    solution, bound = saddle.saddle_point(), saddle.bound_of_theorem_2
    fig.data |= {"value of the saddle point": solution["value"], "λ*": solution["mixture"]}
    ax = fig.subplots(figsize=(7.2, 4.6))
    for (version, runs), looks in zip(versions.items(), ("afl", "uniform", "none", "agnostic fedavg"), strict=True):
        horizons = list(runs.groups("steps"))
        values = np.stack([runs.select(steps=steps).column("gap")[:, -1] for steps in horizons], axis=1)
        drawn = fig.curve(ax, horizons, values, label=version, look_as=looks)
        if version == "stochastic":
            drawn.set(linewidth=5, alpha=0.5)  # the optimistic version lies on top of it
            limits = [bound(steps) for steps in horizons]
            fig.data["bound of Theorem 2"] = {"x": horizons, "mean": limits}
            ax.plot(
                horizons, limits, color="0.2", linestyle=_DOTTED, linewidth=1.4, label="bound of Theorem 2 (excess)"
            )
    ax.set(xlabel="steps T", ylabel="duality gap of the averages", xscale="log", yscale="log")
    fig.legend()
    for name, runs in versions.items():
        fig.record((name, "slopes"), interval(claims.slopes(runs))._asdict())


def outwards(fig: Drawing, classes: Mapping[str, LinearClass], rays: Callable) -> None:
    """What Theorem 1 adds to the loss on the ways from m̄ to the single domains."""
    for ax, name in fig.panels(classes):
        linear = classes[name]
        for domain, way in enumerate(rays(linear.sizes / linear.sizes.sum())[: linear.sizes.size]):
            far = np.abs(way - way[0]).sum(axis=1)
            values = [linear.added(mixture) for mixture in way]
            ax.plot(far, values, marker=".", label=f"towards domain {domain}")
            fig.record((name, f"towards domain {domain}"), {"x": far.tolist(), "mean": values})
        ax.set(title=name, xlabel="ℓ₁ distance of λ from m̄")
        ax.legend()
    fig.axes[0].set_ylabel("2ℜ + skewness term, δ = 0.1")
