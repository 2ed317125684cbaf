"""The contract of models: a `Model` is put on a `Federation` and becomes a `Problem`.

Parameters are one flat NumPy vector (float64, or float32 for networks), so that an optimiser, a mixture of domains and
an average of iterates need to know nothing else of a model. A sample is known by its row in the federation.

A model of one's own needs two methods, and then runs in every algorithm that trains a model but `irm`::

    class Median:
        def on(self, federation):
            return MedianProblem(federation)

    class MedianProblem(Problem):
        n_parameters = 1

        def __init__(self, federation):
            super().__init__(federation)
            self.y = federation.y

        def sample_losses(self, w, rows):
            return np.abs(w[0] - self.y[rows])

        def gradient(self, w, rows, weights):
            return np.array([weights @ np.sign(w[0] - self.y[rows])])

    fedavg(federation, Median(), rounds=100, step=0.1)

Everything else has a default, which a faster model overrides. With methods ``predict(w, x)`` and, for classes,
``predict_proba(w, x)`` of the model (not of the problem), its traces predict.
"""

from collections.abc import Iterator
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels.logistic import Form, Samples
from fedrepro.models.local_work import LocalObjective, LocalWork, MeanLoss, Proximity
from fedrepro.streams import stream


class Model(Protocol):
    """Something that learns, before it has seen data."""

    def on(self, federation: Federation) -> "Problem":
        """The model on these data; a UserError where they do not suit it."""
        ...


class Batches(Protocol):
    """An endless source of minibatches of the domains; draws of a domain do not depend on those of the others."""

    def next(self, domain: int | None = None) -> Any:
        """A minibatch of every active domain, or only of the given one."""

    def losses_and_gradient(self, w: np.ndarray, batch: Any, mixture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L_k on the minibatch of each domain, shape (p,), and Σ_k mixture_k ∇L_k, shape (n_parameters,).

        The sum is over the domains of the minibatch. The loss is 0 for a domain that this minibatch leaves out, and
        NaN for one that is not active.
        """
        ...

    def state(self) -> dict:
        """What the next minibatches depend on: numbers, arrays and random generators."""
        ...

    def restore(self, saved: dict) -> None:
        """Go on where another source stood."""


class Problem:
    """A model on the data of a federation.

    A subclass sets ``n_parameters`` and has `sample_losses` and `gradient`. What it can do faster, it overrides.

    Attributes
    ----------
    n_parameters
        Number of parameters.
    domains
        The domain of every sample.
    sizes
        m_k, the number of samples of every domain.
    threaded
        Whether clients can train in several threads.
    draws
        The name under which minibatches are drawn: problems of one name draw the same.
    regression
        For a regression its data and form, from which AFL compiles whole steps; None for any other model.
    """

    n_parameters: int
    threaded: bool = False
    draws: str = "local"
    regression: tuple[Samples, Form] | None = None

    def __init__(self, federation: Federation):
        self.domains = federation.domains
        self.sizes = np.bincount(federation.domains, minlength=federation.n_domains)
        if self.sizes.min() == 0:
            empty = federation.domain_names[int(np.argmin(self.sizes))]
            raise UserError(f"The domain {empty!r} has no samples: leave it out.")

    # --- what a model of one's own has -------------------------------------------------------------------------------

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """ℓ(w; sample) for each of the rows, shape (rows,)."""
        raise UserError(f"{type(self).__name__} has no losses of single samples: give it a method sample_losses.")

    def gradient(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ_j weights_j ∇ℓ(w; sample rows_j), shape (n_parameters,)."""
        raise UserError(f"{type(self).__name__} has no gradients of single samples: give it a method gradient.")

    # --- what it may have besides ------------------------------------------------------------------------------------

    def initial(self, seed: int = 0) -> np.ndarray:
        """w_0: zeros, unless a model draws it."""
        return np.zeros(self.n_parameters)

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Per domain ``loss``, and for example ``accuracy`` of a classifier or ``perplexity`` of a language model."""
        losses = self.sample_losses(w, np.arange(self.domains.size))
        return {"loss": np.bincount(self.domains, losses, minlength=self.sizes.size) / self.sizes}

    def client_metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """The metrics as clients compute them, in the precision in which they train."""
        return self.metrics(w)

    def domain_losses(self, w: np.ndarray) -> np.ndarray:
        """L_k(w) on all samples of each domain."""
        return self.metrics(w)["loss"]

    def losses_and_gradient(
        self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The losses of the rows, and Σ_j weights_j ∇ℓ(w; sample rows_j)."""
        return self.sample_losses(w, rows), self.gradient(w, rows, weights)

    def batches(self, batch: int, seed: int = 0, active: np.ndarray | None = None) -> Batches:
        """Minibatches of ``batch`` samples of each domain, drawn with replacement.

        ``active`` masks the domains that are ever asked for.
        """
        return DrawnBatches(self, batch, seed, active)

    # --- training on clients -----------------------------------------------------------------------------------------

    def descend(
        self,
        w: np.ndarray,
        batches: list[np.ndarray],
        step: float,
        objective: LocalObjective,
        position: int,
        correction: np.ndarray | None,
        proximity: Proximity | None = None,
    ) -> np.ndarray:
        """Where local steps lead one client from w: w ← w - step (Σ_j weights_j ∇ℓ_j + correction) for each batch.

        Parameters
        ----------
        w, batches, step
            From where, on which rows, with which step size.
        objective, position
            What weighs the samples of a batch, and the client's position among those that train.
        correction
            What is added to every gradient; None for nothing.
        proximity
            A quadratic term whose gradient is added as well.
        """
        local = w.copy()
        losses = partial(self.sample_losses, local)  # at the present parameters: local is changed in place
        for rows in batches:
            weights = objective.weights(position, rows, losses)
            gradient = self.gradient(local, rows, weights.astype(local.dtype))
            if correction is not None:
                gradient = gradient + correction
            if proximity is not None:
                gradient = gradient + proximity.slope(local)
            local -= local.dtype.type(step) * gradient
        return local

    def local_models(
        self,
        w: np.ndarray,
        work: LocalWork,
        objective: LocalObjective | None = None,
        corrections: np.ndarray | None = None,
        losses: np.ndarray | None = None,
        proximity: Proximity | None = None,
    ) -> Iterator[np.ndarray]:
        """What each of the clients makes of w, one after the other.

        Parameters
        ----------
        w, work, objective
            From where (one vector for all, or a row for each client), who and how long, and towards what: by default
            the mean loss.
        corrections
            What is added to every gradient, a row for each client.
        losses
            Output, shape (clients, domains): the losses at w of a client's samples, added up by domain. Filled for a
            client when its model is there.
        proximity
            A quadratic term that is added to every client's objective.
        """
        objective = MeanLoss() if objective is None else objective
        for position, client in enumerate(work.clients):
            start = w if w.ndim == 1 else w[position]
            if losses is not None:
                rows = work.rows(client)
                of_samples = self.sample_losses(start, rows)
                losses[position] = np.bincount(self.domains[rows], of_samples, minlength=self.sizes.size)
            correction = None if corrections is None else corrections[position]
            yield self.descend(start, work.batches(client), work.step, objective, position, correction, proximity)

    def averaged_change(
        self, w: np.ndarray, work: LocalWork, weights: np.ndarray, proximity: Proximity | None = None
    ) -> np.ndarray:
        """The mean of what the clients change by local steps on their mean loss, by their weights."""
        change = np.zeros(w.size)
        for weight, local in zip(weights, self.local_models(w, work, proximity=proximity), strict=True):
            change += weight * (local - w)
        return change / weights.sum()

    # --- outputs that are dilated, for invariant risk minimisation ---------------------------------------------------
    # The penalty of IRM is the square of D = ∂/∂v R(v · φ) at v = 1, where φ(x) are the outputs of the model before the
    # link. D is a mean over samples of d = ∂ℓ/∂v, so that clients can compute it, and its gradient, as sums. For the
    # logistic loss d = (σ(φ) - y) φ, for the softmax d = Σ_c (p_c - y_c) φ_c.

    def dilations(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """d of each of the rows, float64."""
        raise UserError(f"{type(self).__name__} has no outputs that can be dilated: use a regression or a network.")

    def dilated_gradient(self, w: np.ndarray, rows: np.ndarray, of_losses: float, of_dilations: float) -> np.ndarray:
        """The gradient of of_losses · Σ_j ℓ_j + of_dilations · Σ_j d_j over the rows."""
        raise UserError(f"{type(self).__name__} has no outputs that can be dilated: use a regression or a network.")

    def checked(self, w: np.ndarray, dtype: type | np.dtype = np.float64) -> np.ndarray:
        """The parameters as a contiguous array; a UserError where there are not as many as the model has."""
        w = np.ascontiguousarray(w, dtype=dtype)
        if w.shape != (self.n_parameters,):
            raise UserError(f"The model has {self.n_parameters} parameters here, and w has the shape {w.shape}.")
        return w


CLIENTS = ("train on clients", ("sample_losses", "gradient"))
DILATION = ("have outputs that can be dilated", ("dilations", "dilated_gradient"))


def problem_of(model: Model, federation: Federation, needs: tuple[str, tuple[str, ...]] | None = None) -> Problem:
    """The model on these data; a UserError where it is no model, or lacks what an algorithm needs.

    Parameters
    ----------
    needs
        What the algorithm does with it and the methods of `Problem` that this takes: `CLIENTS` or `DILATION`.
    """
    if isinstance(model, type):
        raise UserError(f"model is the class {model.__name__}: call it, as in {model.__name__}(…).")
    found = getattr(model, "on", None)
    problem = found(federation) if callable(found) else None
    if not isinstance(problem, Problem):
        raise UserError(
            f"A model has a method on(federation) that returns a fedrepro.models.Problem, and {_named(model)} has not: "
            f"{_remedy(model)}, use a model of fedrepro.models, or write one as fedrepro/models/problem.py shows."
        )
    if any(getattr(problem, name, None) is None for name in ("n_parameters", "domains", "sizes")):
        raise UserError(
            f"{type(problem).__name__} must set n_parameters, and its __init__ call super().__init__(federation)."
        )
    if needs is not None:
        does, methods = needs
        lacking = [name for name in methods if getattr(type(problem), name) is getattr(Problem, name)]
        if lacking:
            raise UserError(
                f"{type(model).__name__} does not {does}: its {type(problem).__name__} lacks {' and '.join(lacking)}."
            )
    return problem


def _remedy(thing: object) -> str:
    """What makes a model of an object of another library."""
    if _package(thing) == "sklearn":
        return "wrap it in fedrepro.models.from_sklearn"
    if any(_package(one) == "torch" for one in (thing, *type(thing).__mro__)):
        return "wrap it in fedrepro.models.from_torch"
    if _package(thing) in ("flax", "equinox", "haiku", "jax"):
        return "wrap its functions in fedrepro.models.from_jax"
    return "wrap it in from_jax, from_torch or from_sklearn of fedrepro.models"


def _package(thing: object) -> str:
    return (thing if isinstance(thing, type) else type(thing)).__module__.partition(".")[0]


def _named(thing: object) -> str:
    """An object by its type, with the package that it comes from."""
    package = _package(thing)
    return type(thing).__name__ if package == "builtins" else f"{type(thing).__name__} of {package}"


# --- minibatches of the domains --------------------------------------------------------------------------------------


class Minibatch(NamedTuple):
    """Samples of some domains."""

    domains: np.ndarray  # (n,): which domains
    samples: np.ndarray  # (n, batch): their samples, as rows of the federation


class DrawnBatches:
    """Minibatches that are drawn with replacement, in each domain from a stream of its own: the `Batches` of a Problem.

    Attributes
    ----------
    problem, batch
        What is drawn from, and how many samples of each domain.
    active
        The domains that are drawn from.
    """

    def __init__(self, problem: Problem, batch: int, seed: int, active: np.ndarray | None):
        if not isinstance(batch, Integral) or batch < 1:
            raise UserError(f"batch={batch!r} is not a whole number of at least 1.")
        p = problem.sizes.size
        self.problem, self.batch = problem, int(batch)
        self.active = np.flatnonzero(np.ones(p, bool) if active is None else active)
        self._idle = np.setdiff1d(np.arange(p), self.active)
        self._order = np.argsort(problem.domains, kind="stable").astype(np.int32)
        self._first = np.cumsum(problem.sizes) - problem.sizes
        self._streams = [stream(problem.draws, "batch", seed, client=k) for k in range(p)]

    def next(self, domain: int | None = None) -> Minibatch:
        """A minibatch of every active domain, or only of the given one."""
        domains = self.active if domain is None else np.array([domain])
        positions = (self._uniforms(domains) * self.problem.sizes[domains, None]).astype(np.int64)
        return Minibatch(domains, self._order[self._first[domains, None] + positions])

    def losses_and_gradient(
        self, w: np.ndarray, batch: Minibatch, mixture: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """L_k on the minibatch of each domain, and Σ_k mixture_k ∇L_k over the domains of the minibatch."""
        drawn = batch.samples.shape[1]
        weights = np.repeat(np.asarray(mixture)[batch.domains] / drawn, drawn)
        of_samples, gradient = self.problem.losses_and_gradient(w, batch.samples.ravel(), weights)
        losses = np.zeros(self.problem.sizes.size)
        losses[batch.domains] = of_samples.reshape(batch.samples.shape).mean(axis=1, dtype=np.float64)
        losses[self._idle] = np.nan
        return losses, gradient

    def state(self) -> dict:
        """Where the streams stand."""
        return {"streams": self._streams}

    def restore(self, saved: dict) -> None:
        """Go on where another source stood."""
        self._streams = saved["streams"]

    def _uniforms(self, domains: np.ndarray) -> np.ndarray:
        return np.stack([self._streams[k].random(self.batch) for k in domains])
