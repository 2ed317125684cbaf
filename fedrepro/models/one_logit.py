"""A network of two classes with a single output φ, the logit of the second class: its loss is log(1 + e^φ) − y φ.

It is the network of two outputs whose first one is held at 0, so that all of that network's functions are used.
"""

from dataclasses import dataclass

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.architecture import Architecture
from fedrepro.models.networks import Network, NetworkProblem
from fedrepro.models.problem import Problem


@dataclass(frozen=True)
class OneLogit(Network):
    """A network with one output in place of two.

    Parameters
    ----------
    network
        A network of two classes: `MLP` or `CNN`.
    """

    network: Network

    def __post_init__(self):
        if not isinstance(self.network, Network) or self.network.classes != 2:
            raise UserError("OneLogit needs a network of two classes: one output says how likely the second one is.")

    @property
    def classes(self) -> int:  # type: ignore[override]
        """Two."""
        return 2

    def on(self, federation: Federation) -> "OneLogitProblem":  # type: ignore[override]
        """The network on these data."""
        return OneLogitProblem(self, federation)

    def architecture(self, shape: tuple[int, ...]) -> Architecture:
        """The layers of the network of two outputs."""
        return self.network.architecture(shape)

    def _logits(self, w: np.ndarray, x) -> np.ndarray:
        kept = kept_parameters(self.architecture(np.asarray(x).shape[1:]))
        if kept.sum() != w.size:
            raise UserError(f"The network was trained on samples of another shape than {np.asarray(x).shape[1:]}.")
        return self.network._logits(_embedded(w, kept), x)


def kept_parameters(architecture: Architecture) -> np.ndarray:
    """Which parameters of the network of two outputs there are: not the first output's weights and bias."""
    last, first = architecture.layers[-1], int(architecture.boundaries[-2])
    kept = np.ones(architecture.n_parameters, dtype=bool)
    kept[first : first + 2 * last.inputs : 2] = False
    kept[first + 2 * last.inputs] = False
    return kept


def _embedded(w: np.ndarray, kept: np.ndarray) -> np.ndarray:
    whole = np.zeros(kept.size, dtype=np.float32)
    whole[kept] = w
    return whole


class OneLogitProblem(Problem):
    """The network on the data of a federation: `NetworkProblem`, with the first output held at 0."""

    draws = NetworkProblem.draws

    def __init__(self, model: OneLogit, federation: Federation):
        self.inner = NetworkProblem(model.network, federation)
        self.kept = kept_parameters(self.inner.architecture)
        self.n_parameters = int(self.kept.sum())
        super().__init__(federation)

    def initial(self, seed: int = 0) -> np.ndarray:
        """w_0: what the network of two outputs draws for the parameters that are left."""
        return self.inner.initial(seed)[self.kept]

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As in `Problem`."""
        return self.inner.sample_losses(self._whole(w), rows)

    def gradient(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """As in `Problem`."""
        return self.inner.gradient(self._whole(w), rows, weights)[self.kept]

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss`` and ``accuracy`` of each domain."""
        return self.inner.metrics(self._whole(w))

    def dilations(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As in `Problem`: (σ(φ) − y) φ."""
        return self.inner.dilations(self._whole(w), rows)

    def dilated_gradient(self, w: np.ndarray, rows: np.ndarray, of_losses: float, of_dilations: float) -> np.ndarray:
        """As in `Problem`."""
        return self.inner.dilated_gradient(self._whole(w), rows, of_losses, of_dilations)[self.kept]

    def _whole(self, w: np.ndarray) -> np.ndarray:
        return _embedded(self.checked(w, np.float32), self.kept)
