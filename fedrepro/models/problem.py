"""What a learner of domains asks of a model: a Model is put on a Federation and becomes a Problem.

Parameters are one flat NumPy vector (float64, or float32 for networks), so that an optimiser, a mixture of domains and
an average of iterates need to know nothing else of a model.
"""

from typing import Any, Protocol

import numpy as np

from fedrepro.data.federation import Federation


class Batches(Protocol):
    """An endless source of minibatches of the domains; draws of a domain do not depend on those of the others."""

    def next(self, domain: int | None = None) -> Any:
        """A minibatch of every active domain, or only of the given one."""

    def losses_and_gradient(self, w: np.ndarray, batch: Any, mixture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L_k on the minibatch of each domain, shape (p,), and Σ_k mixture_k ∇L_k, shape (n_parameters,).

        The sum is over the domains of the minibatch. The loss is 0 for a domain that this minibatch leaves out, and
        NaN for one that is not active.
        """


class Problem(Protocol):
    """A model on the data of a federation, by domain."""

    sizes: np.ndarray  # m_k, samples of every domain
    n_parameters: int

    def initial(self, seed: int) -> np.ndarray:
        """w_0."""

    def batches(self, batch: int, seed: int, active: np.ndarray | None = None) -> Batches:
        """Minibatches of ``batch`` samples of each domain; ``active`` masks the domains that are ever asked for."""

    def domain_losses(self, w: np.ndarray) -> np.ndarray:
        """L_k(w) on all samples, shape (p,)."""

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Per domain ``loss``, and ``accuracy`` of a classifier or ``perplexity`` of a language model."""


class Model(Protocol):
    """Something that learns, before it has seen data."""

    def on(self, federation: Federation) -> Problem:
        """The model on these data; a UserError where they do not suit it."""
