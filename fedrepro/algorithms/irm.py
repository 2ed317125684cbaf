"""Invariant Risk Minimisation: a model whose last step is the best one in every environment at once.

Martin Arjovsky, Léon Bottou, Ishaan Gulrajani, David Lopez-Paz. Invariant Risk Minimization. arXiv:1907.02893;
equations (43) to (45) of Lakshay Tyagi, Raviteja Chukkapalli, Federated Learning on Multiple Data Sources:

    min over Φ of Σ_e R^e(Φ) + λ · (D^e)²,   D^e = ∂/∂v R^e(v · Φ) at v = 1.

For the logistic loss D^e is the mean of (σ(φ) - y) φ. Environments are the domains of the federation. λ = 0 is
empirical risk minimisation with the same weight for every environment.

On a federation of one's own::

    from fedrepro import Federation
    from fedrepro.algorithms import irm
    from fedrepro.models import MLP
    federation = Federation.from_arrays(x, y, clients=hospital, domains=device)
    trace = irm(federation, MLP(2, hidden=(64,)), steps=500, step=0.001, penalty=1e4, anneal=100, federated=True)

The federated version is ours: each step has two exchanges, as D^e is a mean over all clients that hold environment e,
and the gradient of its square needs it. It makes the steps of the central one. The survey's reference [4] (Gupta et
al., arXiv:2205.11101) federates Invariant Risk Minimisation *Games*, where clients play to an equilibrium of an
ensemble: another method than the penalty of equation (45).

The square of the mean over one minibatch of B samples exceeds (D^e)² by Var(d) / B on average. Minibatches are
therefore drawn in pairs, and the penalty is the product of the two means.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_known, check_positive, evaluation_steps
from fedrepro.algorithms.averaging.rounds import Optimiser
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels.optimisers import OPTIMISERS
from fedrepro.models.problem import DILATION, Model, Problem, problem_of
from fedrepro.models.trained.parametric import Parametric
from fedrepro.streams import stream
from fedrepro.trace import Callback, Recorder, Trace


@checked
def irm(
    federation: Federation,
    model: Model,
    *,
    steps: int,
    step: float,
    penalty: float,
    anneal: int = 0,
    batch: int | None = None,
    optimiser: str = "adam",
    momentum: float = 0.9,
    l2: float = 0.0,
    federated: bool = False,
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train a model whose outputs are calibrated alike in all environments.

    Parameters
    ----------
    federation, model
        The data, whose domains are the environments, and a classifier: a regression or a network.
    steps, step, optimiser, momentum
        Number of steps, their size, and what makes a step from a gradient.
    penalty, anneal
        λ, and for how many steps it is held at 1 (or at λ, if that is smaller) before. Where λ > 1, the objective is
        divided by it, as its authors do, so that steps keep their size.
    batch
        Samples in each of the two minibatches of an environment, drawn with replacement; None for all samples, where
        the penalty has no bias to be rid of.
    l2
        Adds ``l2 / 2 · |w|²`` to the objective.
    federated
        Whether the samples stay with their clients. The steps are the same, but for rounding.
    evaluate, test
        How many times the losses are evaluated, or after which steps; and data on which they are evaluated as well,
        whose domains may be others.
    callbacks
        Functions that are called after every evaluated step (`fedrepro.callbacks`).
    seed
        Varies minibatches, and w_0 where the model draws it.

    Returns
    -------
    Trace
        Columns ``round`` (steps done), ``loss`` and ``penalty`` ((D^e)²) of each environment on all samples, with
        ``test`` also ``test_loss`` and ``test_accuracy`` of each of its domains; ``sent`` and ``received`` (scalars, by
        the server, cumulative). Central: the samples come to the server, once. Federated: in a step each client gets
        w and returns a gradient; where there is a penalty it first returns, for each environment that it holds (and
        each of the two minibatches), a sum and a number of samples, and gets the two factors of its gradient, which
        without penalty is one. ``final`` holds ``w``.
    """
    _check(steps, step, penalty, anneal, batch, optimiser, momentum, l2)
    problem = problem_of(model, federation, DILATION)
    if penalty > 0 and problem.sizes.size < 2:
        raise UserError("IRM looks for what environments share: give the federation at least two domains.")
    on_test = None if test is None else _problem_on_test(model, problem, test)
    parties = _parties(federation) if federated else np.zeros(len(federation), dtype=np.int64)
    w = problem.initial(seed)
    optimise = Optimiser(optimiser, w, step, momentum)
    everything = [np.flatnonzero(federation.domains == e) for e in range(federation.n_domains)]
    draws = [stream("irm", "batch", seed, client=e) for e in range(federation.n_domains)]
    traffic = _Traffic(0.0, 0.0 if federated else float(len(federation) * (_width(federation) + 2)))
    recorder = Recorder(federation.domain_names, None if test is None else test.domain_names, callbacks)
    done = 0
    if (saved := recorder.resumed()) is not None:
        done, traffic = saved["done"], _Traffic(*saved["traffic"])
        restore([w, draws], saved["arrays"])
        optimise.restore(saved["optimiser"])

    def reached() -> dict:
        return {"done": done, "traffic": traffic, "arrays": [w, draws], "optimiser": optimise.state()}

    for stop in recorder.due(evaluation_steps(evaluate, steps)):
        for t in range(done, stop):
            weight = penalty if t >= anneal else min(1.0, penalty)
            shares = _asked(everything, parties, draws, batch)
            exchanged = _dilations(problem, w, shares) if weight > 0 else None
            gradient = _gradient(problem, w, shares, exchanged, weight)
            gradient += l2 * w
            optimise.step(w, (gradient / max(1.0, weight)).astype(w.dtype))
            _check_finite(w, t + 1)
            if federated:
                traffic = traffic.after(shares, w.size, weight > 0)
        done = stop
        row = _evaluated(problem, on_test, w, everything)
        recorder.row(round=float(done), **row, sent=traffic.sent, received=traffic.received)
        recorder.tell(reached)
    return recorder.trace(final={"w": w}, model=Parametric.of(model))


def _width(federation: Federation) -> int:
    return 0 if federation.x is None else int(np.prod(federation.x.shape[1:]))


class _Share(NamedTuple):
    """What one party is asked about in a step: samples of one environment, of one minibatch."""

    party: int
    environment: int
    number: int  # of the minibatch: 0 or 1; 0 where all samples are taken
    rows: np.ndarray


class _Traffic(NamedTuple):
    """Scalars that the server has sent and received."""

    sent: float
    received: float

    def after(self, shares: list[_Share], parameters: int, penalised: bool) -> "_Traffic":
        """With one more step, in which parties were asked about their shares."""
        whole = len({share.party for share in shares}) * parameters  # w, and a gradient
        down = len(shares) * (2 if penalised else 1)  # the factors of the losses and of the dilations
        up = len(shares) * (2 if penalised else 1)  # a sum and a number of samples, or only the number
        return _Traffic(self.sent + whole + down, self.received + whole + up)


def _parties(federation: Federation) -> np.ndarray:
    """The client of every sample."""
    return np.repeat(np.arange(federation.n_clients), federation.sizes)


# --- a step ----------------------------------------------------------------------------------------------------------


def _asked(
    everything: list[np.ndarray], parties: np.ndarray, draws: list[np.random.Generator], batch: int | None
) -> list[_Share]:
    """Whose samples take part in a step: all of them, or two minibatches of each environment."""
    shares = []
    for environment, rows in enumerate(everything):
        if batch is None:
            taken = [rows]
        else:
            taken = [
                rows[(uniforms * rows.size).astype(np.int64)] for uniforms in draws[environment].random((2, batch))
            ]
        for number, chosen in enumerate(taken):
            owner = parties[chosen]
            for party in np.unique(owner):
                shares.append(_Share(int(party), environment, number, chosen[owner == party]))
    return shares


def _dilations(problem: Problem, w: np.ndarray, shares: list[_Share]) -> dict[tuple[int, int], float]:
    """D^e on each minibatch of each environment: the sums of the parties, divided by the number of samples."""
    sums: dict[tuple[int, int], float] = {}
    for share in shares:
        key = share.environment, share.number
        sums[key] = sums.get(key, 0.0) + float(problem.dilations(w, share.rows).sum())
    sizes = _sizes(shares)
    return {key: total / sizes[key] for key, total in sums.items()}


def _gradient(
    problem: Problem,
    w: np.ndarray,
    shares: list[_Share],
    found: dict[tuple[int, int], float] | None,
    weight: float,
) -> np.ndarray:
    """The gradient of Σ_e R^e + λ (D^e)², summed over the parties.

    On all samples that of the square is 2 D^e ∇D^e. Of two minibatches, whose penalty is the product of D and D', it is
    D' ∇D + D ∇D', and R^e is the mean of both.
    """
    sizes, total = _sizes(shares), np.zeros(w.size)
    pairs = any(number == 1 for _, number in sizes)
    for share in shares:
        size = sizes[share.environment, share.number]
        if found is None:
            of_dilations = 0.0
        elif pairs:
            of_dilations = weight * found[share.environment, 1 - share.number] / size
        else:
            of_dilations = weight * 2.0 * found[share.environment, 0] / size
        total += problem.dilated_gradient(w, share.rows, (0.5 if pairs else 1.0) / size, of_dilations)
    return total


def _sizes(shares: list[_Share]) -> dict[tuple[int, int], int]:
    """Number of samples of each minibatch of each environment."""
    sizes: dict[tuple[int, int], int] = {}
    for share in shares:
        key = share.environment, share.number
        sizes[key] = sizes.get(key, 0) + share.rows.size
    return sizes


# --- evaluation and checks -------------------------------------------------------------------------------------------


def _evaluated(
    problem: Problem, on_test: Problem | None, w: np.ndarray, everything: list[np.ndarray]
) -> dict[str, np.ndarray]:
    row = {
        "loss": problem.metrics(w)["loss"],
        "penalty": np.array([problem.dilations(w, rows).mean() ** 2 for rows in everything]),
    }
    if on_test is not None:
        row |= {f"test_{name}": values for name, values in on_test.metrics(w).items()}
    return row


def _problem_on_test(model: Model, problem: Problem, test: Federation) -> Problem:
    on_test = problem_of(model, test)
    if on_test.n_parameters != problem.n_parameters:
        raise UserError("The test data must have the features of the federation: the model has another size on them.")
    return on_test


def _check_finite(w: np.ndarray, t: int) -> None:
    if not np.isfinite(w).all():
        raise UserError(f"The parameters are no longer finite after {t} steps: choose a smaller step or penalty.")


def _check(steps, step, penalty, anneal, batch, optimiser, momentum, l2) -> None:
    check_count("steps", steps)
    check_positive("step", step)
    check_count("anneal", anneal, least=0)
    check_known("optimiser", optimiser, OPTIMISERS)
    if batch is not None:
        check_count("batch", batch)
    for name, value in (("penalty", penalty), ("l2", l2)):
        if not (np.isfinite(value) and value >= 0):
            raise UserError(f"{name}={value} is not a finite number of at least 0.")
    if not 0 <= momentum < 1:
        raise UserError(f"momentum={momentum} is not a share: choose from 0 to below 1.")
