"""The two drawings of the paper, made from numbers: the scenario of Figure 1 and the simplex of Figure 2."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedrepro.reproduction.figures import in_triangle

_ARROW = {"arrowstyle": "-|>", "color": "0.35", "shrinkA": 0, "shrinkB": 0}


def closer(ax, mixtures: np.ndarray, margin: float = 0.03) -> None:
    """Show only the part of the triangle where these mixtures are."""
    points = in_triangle(mixtures)
    low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    for text in ax.texts:  # the corners are out of sight
        text.set_visible(False)


def scenario(ax, sizes: Mapping[str, int], mixtures: Mapping[str, np.ndarray], colours: Sequence[str]) -> None:
    """Samples of some domains on the left; on the right targets, each a mixture of them, and the question which.

    Parameters
    ----------
    ax
        Where to draw.
    sizes
        Name to number of samples of every domain.
    mixtures
        Name to mixture of every target.
    colours
        One for each domain.
    """
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
