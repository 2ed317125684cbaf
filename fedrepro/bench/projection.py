"""Euclidean projection onto the simplex against the sort-based routine that is usually written in NumPy."""

import numpy as np

from fedrepro.bench.harness import Row, ratio, row
from fedrepro.kernels import project_simplex

SIZES = (100, 10_000, 100_000, 1_000_000)
# What the project promises, by kind of input and size; the other cases are shown without a promise.
_TARGETS = {("gaussian", 100): 6.0, ("gaussian", 100_000): 25.0, ("near-simplex", 100_000): 4.0}


def sort_based_projection(v: np.ndarray, total: float = 1.0) -> np.ndarray:
    """The usual routine: sort, cumulative sum, compare (Held, Wolfe, Crowder 1974)."""
    falling = np.sort(v)[::-1]
    excess = np.cumsum(falling) - total
    counts = np.arange(1, v.size + 1)
    active = counts[falling - excess / counts > 0][-1]
    return np.maximum(v - excess[active - 1] / active, 0.0)


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
                )
            )
    return rows
