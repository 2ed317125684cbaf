"""Euclidean projection onto the simplex, of a vector and of rows, against the usual routine in NumPy and POT's."""

import importlib
import importlib.util
from collections.abc import Callable

import numpy as np

from fedrepro.bench.harness import Row, ratio, row
from fedrepro.bench.limits import Work
from fedrepro.kernels import project_simplex

SIZES = (100, 10_000, 100_000, 1_000_000)
# What the project promises, by kind of input and size; the other cases are shown without a promise.
BATCHES = ((10_000, 10), (100, 10_000))
_BATCH_TARGETS = {("POT", 10_000): 1.0, ("NumPy sort", 100): 20.0}  # by peer and number of rows
_TARGETS = {("gaussian", 100): 6.0, ("gaussian", 100_000): 25.0, ("near-simplex", 100_000): 4.0}


def sort_based_projection(v: np.ndarray, total: float = 1.0) -> np.ndarray:
    """The usual routine: sort, cumulative sum, compare (Held, Wolfe, Crowder 1974)."""
    falling = np.sort(v)[::-1]
    excess = np.cumsum(falling) - total
    counts = np.arange(1, v.size + 1)
    active = counts[falling - excess / counts > 0][-1]
    return np.maximum(v - excess[active - 1] / active, 0.0)


def sort_based_projection_of_rows(table: np.ndarray, total: float = 1.0) -> np.ndarray:
    """The same for every row of a table at once."""
    falling = np.sort(table, axis=1)[:, ::-1]
    excess = np.cumsum(falling, axis=1) - total
    counts = np.arange(1, table.shape[1] + 1)
    active = np.count_nonzero(falling - excess / counts > 0, axis=1)
    thresholds = excess[np.arange(len(table)), active - 1] / active
    return np.maximum(table - thresholds[:, None], 0.0)


def _inputs(size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(size)
    gaussian = rng.standard_normal(size)
    return {
        "gaussian": gaussian,
        "near-simplex": rng.dirichlet(np.ones(size)) + rng.standard_normal(size) * 0.1 / size,
        "sorted": np.sort(gaussian),
    }


def projection_rows(*, sizes: tuple[int, ...] = SIZES, repeats: int = 15) -> list[Row]:
    """Measure every kind and size of input; both results are compared before the clock starts."""
    rows = []
    for size in sizes:
        for kind, v in _inputs(size).items():
            np.testing.assert_allclose(project_simplex(v), sort_based_projection(v), rtol=0.0, atol=1e-9)
            measured = ratio(lambda v=v: project_simplex(v), lambda v=v: sort_based_projection(v), repeats=repeats)
            rows.append(
                row(
                    "simplex projection",
                    f"{kind}, n = {size:,}",
                    measured,
                    target=_TARGETS.get((kind, size)),
                    peer_name="NumPy sort",
                    work=_read_and_written(v),
                )
            )
    return rows


def batch_rows(*, batches: tuple[tuple[int, int], ...] = BATCHES, repeats: int = 15) -> list[Row]:
    """Measure the projection of the rows of a Gaussian table in one call; against POT only where it is installed.

    Ours writes to an array that is there, which the peers cannot.
    """
    peers: dict[str, Callable[[np.ndarray], np.ndarray]] = {"NumPy sort": sort_based_projection_of_rows}
    if importlib.util.find_spec("ot") is not None:
        pot = importlib.import_module("ot.utils")
        peers["POT"] = lambda table: pot.proj_simplex(table.T).T  # it projects columns
    rows = []
    for shape in batches:
        table, out = np.random.default_rng(shape[0]).standard_normal(shape), np.empty(shape)
        for peer_name, peer in peers.items():
            np.testing.assert_allclose(project_simplex(table), peer(table), rtol=0.0, atol=1e-9)
            measured = ratio(
                lambda table=table, out=out: project_simplex(table, 1.0, out),
                lambda table=table, peer=peer: peer(table),
                repeats=repeats,
            )
            rows.append(
                row(
                    "simplex projection",
                    f"{shape[0]:,} rows of {shape[1]:,}",
                    measured,
                    target=_BATCH_TARGETS.get((peer_name, shape[0])),
                    peer_name=peer_name,
                    work=_read_and_written(table),
                )
            )
    return rows


def _read_and_written(v: np.ndarray) -> Work:
    """Every entry is read once, and its projection is written once."""
    return Work(bytes=2 * v.nbytes, resident=2 * v.nbytes)
