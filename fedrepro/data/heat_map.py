"""The picture of a federation: how many samples of each class each client holds."""

import itertools

import numpy as np

from fedrepro.extras import optional

_MOST_CLASSES = 50
_RANGES = 10
_MOST_TICKS = 30
_MOST_NUMBERS = 150  # cells, up to which each shows its number


def counts_by_class(federation) -> tuple[np.ndarray, list[str]]:
    """Samples per client and class, and the names of the classes.

    Measurements, and targets of more than fifty different values, are counted in ten ranges of equal width.
    """
    values, column = np.unique(federation.y, return_inverse=True)
    if len(values) <= _MOST_CLASSES and (federation.y.dtype.kind != "f" or (values == np.rint(values)).all()):
        names = [_class_name(federation, value) for value in values]
    else:
        edges = np.linspace(values[0], values[-1], _RANGES + 1)
        column = np.searchsorted(edges[1:-1], federation.y, side="right")
        names = [f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(edges)]
    owner = np.repeat(np.arange(federation.n_clients), federation.sizes)
    counts = np.bincount(owner * len(names) + column.reshape(-1), minlength=federation.n_clients * len(names))
    return counts.reshape(federation.n_clients, len(names)), names


def draw(federation):
    """A heat map, clients downwards and classes to the right; returns the matplotlib figure."""
    with optional():
        import matplotlib.pyplot as plt
    counts, names = counts_by_class(federation)
    height = np.clip(1.4 + 0.28 * len(counts), 2.5, 10)
    figure, axes = plt.subplots(figsize=(np.clip(2.5 + 0.5 * len(names), 4, 12), height), layout="constrained")
    image = axes.imshow(counts, aspect="auto", cmap="cividis", vmin=0, interpolation="nearest")
    _label(axes.xaxis, names, "class")
    _label(axes.yaxis, federation.client_names, "client")
    axes.tick_params(axis="x", labelrotation=90 if max(map(len, names)) > 3 else 0)
    skew = federation.statistics()["label_skew"]
    axes.set_title(f"{len(federation):,} samples, {federation.n_clients} clients, label skew {skew:.2f}")
    figure.colorbar(image, ax=axes, label="samples")
    if counts.size <= _MOST_NUMBERS:
        _write_numbers(axes, counts)
    plt.close(figure)  # a notebook would otherwise show it twice, and pyplot would keep it for ever
    return figure


def _class_name(federation, value) -> str:
    if federation.vocabulary is not None:
        return federation.vocabulary[int(value)]
    return f"{value:g}"


def _label(axis, names, title: str) -> None:
    """Name every row or column, or every k-th where there is no room for all."""
    step = -(-len(names) // _MOST_TICKS)
    axis.set_ticks(range(0, len(names), step), labels=names[::step])
    axis.set_label_text(title)


def _write_numbers(axes, counts: np.ndarray) -> None:
    for (row, column), count in np.ndenumerate(counts):
        dark = count < counts.max() / 2
        axes.text(column, row, f"{count}", ha="center", va="center", fontsize=7, color="white" if dark else "black")
