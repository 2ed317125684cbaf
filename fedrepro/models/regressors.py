"""A zoo of pre-trained regressors: kernel machines of four families, and two small neural networks.

Ghari, Shen (2022), Section IV: five Gaussian, five Laplacian, five polynomial and five sigmoid kernels, and networks
with one and two hidden layers of 25 rectified linear units. The kernels of a family differ only in a parameter, so the
distances (or inner products) that they share are computed once for all of them.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from fedrepro.errors import UserError

FAMILIES = ("gaussian", "laplacian", "polynomial", "sigmoid", "network")
PARAMETERS = (0.01, 0.1, 1.0, 10.0, 100.0)
DEGREES = (1, 2, 3, 4, 5)
LAYERS = (1, 2)
UNITS = 25
_ROWS_AT_ONCE = 256  # a block of kernel values stays in the cache: 0.2 s for 1.1 s per kernel on 20,000 x 2,000

Bandwidth = Literal["bandwidth", "inverse"]
Counting = Literal["all", "coefficients"]


class Member(NamedTuple):
    """A regressor of the zoo.

    ``parameter`` is the number that the paper gives: bandwidth, degree, slope, or layers; ``coefficient`` is what
    stands in the formula: exp(−γ‖x − z‖²), exp(−γ‖x − z‖₁), (⟨x, z⟩/d + 1)^p, tanh(s⟨x, z⟩ + 1).
    """

    family: str
    parameter: float
    coefficient: float

    @property
    def name(self) -> str:
        """Family and parameter."""
        return f"{self.family} {self.parameter:g}"

    @property
    def formula(self) -> tuple[str, float]:
        """What is trained: two readings of a parameter may come to the same."""
        return self.family, self.coefficient


def zoo_members(bandwidth: Bandwidth = "bandwidth") -> tuple[Member, ...]:
    """The 22 regressors of the paper.

    Parameters
    ----------
    bandwidth
        What the parameter of a Gaussian or Laplacian kernel is. ``"bandwidth"``: exp(−‖x − z‖²/(2σ²)) and
        exp(−‖x − z‖₁/σ); ``"inverse"``: γ in exp(−γ‖x − z‖²) and exp(−γ‖x − z‖₁), as libraries have it.
    """
    if bandwidth not in ("bandwidth", "inverse"):
        raise UserError(f"bandwidth={bandwidth!r} is not known: choose from 'bandwidth', 'inverse'.")
    direct = bandwidth == "inverse"
    return (
        *(Member("gaussian", s, s if direct else 1 / (2 * s**2)) for s in PARAMETERS),
        *(Member("laplacian", s, s if direct else 1 / s) for s in PARAMETERS),
        *(Member("polynomial", p, p) for p in DEGREES),
        *(Member("sigmoid", s, s) for s in PARAMETERS),
        *(Member("network", layers, layers) for layers in LAYERS),
    )


def parameter_counts(members: Iterable[Member], samples: int, features: int, counting: Counting = "all") -> np.ndarray:
    """How many numbers describe each regressor that was trained on so many samples.

    Parameters
    ----------
    members, samples, features
        The regressors, and the size of their training data.
    counting
        What a kernel machine consists of. ``"all"``: its coefficients and its training samples, without which it
        cannot predict; ``"coefficients"``: the coefficients alone.
    """
    if counting not in ("all", "coefficients"):
        raise UserError(f"counting={counting!r} is not known: choose from 'all', 'coefficients'.")
    kernel_machine = samples * (features + 1) if counting == "all" else samples

    def network(layers: int) -> int:
        return (features + 1) * UNITS + (layers - 1) * (UNITS + 1) * UNITS + UNITS + 1

    return np.array([network(int(m.parameter)) if m.family == "network" else kernel_machine for m in members])


def relative_costs(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Cost of sending each model: its number of parameters as a share of the largest."""
    sizes = np.asarray(counts, dtype=np.float64)
    return sizes / sizes.max()


@dataclass(frozen=True)
class Zoo:
    """Trained regressors; make one with `train_zoo`."""

    members: tuple[Member, ...]
    support: np.ndarray
    coefficients: dict[Member, np.ndarray]
    networks: dict[Member, Any]  # MLPRegressor of scikit-learn

    def predict(self, x: np.ndarray) -> np.ndarray:
        """(samples, models): what each regressor predicts."""
        found = np.empty((len(x), len(self.members)))
        for first in range(0, len(x), _ROWS_AT_ONCE):
            block = slice(first, first + _ROWS_AT_ONCE)
            shared = _Shared(x[block], self.support)
            for k, member in enumerate(self.members):
                if member in self.coefficients:
                    found[block, k] = shared.kernel(member) @ self.coefficients[member]
        for k, member in enumerate(self.members):
            if member in self.networks:
                found[:, k] = self.networks[member].predict(x)
        return found


def train_zoo(members: Sequence[Member], x: np.ndarray, y: np.ndarray, *, ridge: float, seed: int) -> Zoo:
    """Train regressors: kernel ridge regression, and scikit-learn's networks with its default settings.

    Parameters
    ----------
    members
        Which regressors, of `zoo_members`.
    x, y
        The training data.
    ridge
        λ in (K + λI)a = y. A sigmoid kernel is not positive definite: its system is solved all the same.
    seed
        Seeds the networks' initial weights and batches.
    """
    from scipy import linalg
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    if not members:
        raise UserError("There is no regressor to train: give at least one member.")
    if not (np.isfinite(ridge) and ridge > 0):
        raise UserError(f"ridge={ridge} is not a positive number.")
    shared = _Shared(x, x)
    coefficients, networks = {}, {}
    for member in dict.fromkeys(members):
        if member.family == "network":
            sizes = (UNITS,) * int(member.parameter)
            with warnings.catch_warnings():
                # scikit-learn's 200 epochs are what is asked for, whether or not more would help
                warnings.simplefilter("ignore", ConvergenceWarning)
                networks[member] = MLPRegressor(hidden_layer_sizes=sizes, random_state=seed).fit(x, y)
            continue
        system = shared.kernel(member).copy()
        system.flat[:: len(x) + 1] += ridge
        if member.family == "sigmoid":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", linalg.LinAlgWarning)  # an indefinite system may be nearly singular
                coefficients[member] = linalg.solve(system, y, assume_a="sym", overwrite_a=True)
        else:
            coefficients[member] = linalg.cho_solve(linalg.cho_factor(system, overwrite_a=True), y)
    return Zoo(tuple(members), np.array(x), coefficients, networks)


class _Shared:
    """Distances and inner products between two sets of points, each computed once for all kernels that need it."""

    def __init__(self, x: np.ndarray, z: np.ndarray):
        self._x, self._z = x, z
        self._known: dict[str, np.ndarray] = {}
        self._values = np.empty((len(x), len(z)))

    def kernel(self, member: Member) -> np.ndarray:
        """The kernel between all pairs of points; the array is used again by the next call."""
        values = self._values
        if member.family in ("gaussian", "laplacian"):
            np.multiply(self._between(member.family), -member.coefficient, out=values)
            return np.exp(values, out=values)
        products = self._between("product")
        if member.family == "sigmoid":
            np.multiply(products, member.coefficient, out=values)
            values += 1.0
            return np.tanh(values, out=values)
        np.divide(products, self._x.shape[1], out=values)
        values += 1.0
        return np.power(values, int(member.coefficient), out=values)

    def _between(self, what: str) -> np.ndarray:
        if what not in self._known:
            self._known[what] = self._computed(what)
        return self._known[what]

    def _computed(self, what: str) -> np.ndarray:
        from scipy.spatial.distance import cdist
        from sklearn.metrics.pairwise import euclidean_distances

        if what == "gaussian":
            return euclidean_distances(self._x, self._z, squared=True)
        if what == "laplacian":
            return cdist(self._x, self._z, "cityblock")
        return self._x @ self._z.T
