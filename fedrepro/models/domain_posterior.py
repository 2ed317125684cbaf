"""Q(l|x): how likely it is that a sample comes from each domain, by a conditional maximum-entropy model.

Such a model is softmax regression of the domains on the features. It needs to know where samples come from, not their
labels. `fedrepro.algorithms.boosting.fed_posterior` fits the same model where the samples stay with their clients.
"""

from dataclasses import dataclass

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.link import softmax

L2 = 1e-4  # keeps the weights finite where the features tell the domains apart without error


@dataclass(frozen=True, eq=False)
class DomainPosterior:
    """A fitted Q(l|x); call it with features, one row per sample, to get one row of shares per sample.

    Attributes
    ----------
    w
        As softmax regression has its parameters: a row of weights for each domain, then a bias for each.
    mean, scale
        The features are shifted and divided by these first.
    """

    w: np.ndarray
    mean: np.ndarray
    scale: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Q(l|x), shape (samples, domains)."""
        weights, bias = _parts(self.w, self.mean.size)
        return softmax(self.standardised(x) @ weights.T + bias)

    def standardised(self, x: np.ndarray) -> np.ndarray:
        """The features as the regression sees them."""
        return (np.asarray(x, dtype=np.float64) - self.mean) / self.scale


def fit_domain_posterior(federation: Federation, *, l2: float = L2) -> DomainPosterior:
    """Fit Q(l|x) to samples that lie in one place.

    Parameters
    ----------
    federation
        Features and domains; labels are not used.
    l2
        Adds ``l2 / 2 · |w|²`` to the mean cross-entropy of the domains, on features of mean 0 and variance 1.
    """
    from scipy.optimize import minimize

    check_l2(l2)
    x = flat_features(federation)
    sizes = domain_sizes(federation)
    mean, scale = x.mean(axis=0), scale_of(x.var(axis=0))
    d, p = x.shape[1], sizes.size
    features, domain = (x - mean) / scale, federation.domains
    one_hot = np.eye(p)[domain]

    def loss_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        weights, bias = _parts(w, d)
        shares = softmax(features @ weights.T + bias)
        loss = -np.log(np.maximum(shares[np.arange(len(x)), domain], 1e-300)).mean() + l2 / 2 * (w @ w)
        slopes = (shares - one_hot) / len(x)
        return loss, np.concatenate([(slopes.T @ features).ravel(), slopes.sum(axis=0)]) + l2 * w

    found = minimize(
        loss_and_gradient,
        np.zeros(p * (d + 1)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 1_000, "maxfun": 2_000, "gtol": 1e-6, "ftol": 1e-12},
    )
    return DomainPosterior(found.x, mean, scale)


def uniform_posterior(domains: int):
    """Q(l|x) = 1 / p: the domain is never known, and an ensemble of the domains is an ordinary one."""
    return lambda x: np.full((len(x), domains), 1.0 / domains)


def check_l2(l2: float) -> None:
    """The regularisation is a positive number."""
    if not (np.isfinite(l2) and l2 > 0):
        raise UserError(f"l2={l2} is not a positive number: without it the weights of Q(l|x) may grow for ever.")


def flat_features(federation: Federation) -> np.ndarray:
    """The features as rows of float64."""
    if federation.x is None:
        raise UserError("The federation has no features, and Q(l|x) needs them: give x to Federation.from_arrays.")
    return np.ascontiguousarray(federation.x.reshape(len(federation), -1), dtype=np.float64)


def domain_sizes(federation: Federation) -> np.ndarray:
    """m_k, the number of samples of every domain; none is empty."""
    sizes = np.bincount(federation.domains, minlength=federation.n_domains)
    if sizes.min() == 0:
        raise UserError(f"The domain {federation.domain_names[int(np.argmin(sizes))]!r} has no samples: leave it out.")
    return sizes


def scale_of(variance: np.ndarray) -> np.ndarray:
    """The standard deviations, and 1 for a feature that is constant."""
    return np.sqrt(np.where(variance > 1e-20, variance, 1.0))


def _parts(w: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    p = w.size // (d + 1)
    return w[: p * d].reshape(p, d), w[p * d :]
