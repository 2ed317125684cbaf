"""FedBoost's rounds against what one would write with NumPy and scipy.sparse, on the same inputs and the same draws."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedrepro.algorithms.fedboost import Objective, new_state, objective
from fedrepro.bench.harness import Row, ratio, row
from fedrepro.data import shakespeare
from fedrepro.data.federation import Federation
from fedrepro.data.synthetic import power_law_mixture
from fedrepro.kernels import fedboost as rounds_of
from fedrepro.models.ensemble import point_masses, unigrams

GROUP = "FedBoost"
BUDGET = 32
SYNTHETIC_STEP, SHAKESPEARE_STEP = 0.001, 0.01
STILL = 1e-9  # a step so short that weights stay nearly even, and ensembles of all sizes send as many predictors
ENSEMBLE_SIZES = (1_000, 10_000, 100_000, 1_000_000)


def our_rounds(goal: Objective, budget: float, step: float, uniforms: np.ndarray) -> np.ndarray:
    """Weighted sampling with the given uniforms; the averaged iterate."""
    state = new_state(goal.size)
    _run(goal, state, budget, step, len(uniforms), uniforms, None)
    return rounds_of.average_weights(state)


def _run(goal, state, budget, step, rounds, uniforms, classes) -> None:
    rules = rounds_of.Rules(
        goal.loss, rounds_of.WEIGHTED, rounds_of.ENTROPY, rounds_of.SENT, float(budget), float(step)
    )
    everyone = np.arange(goal.client_weights.size)[None, :]
    out = np.zeros(rounds), np.zeros(rounds, np.int64)
    generator = np.random.default_rng(0)
    rounds_of.fedboost_rounds(
        goal.problem, rules, state, np.ones(goal.size), uniforms, generator, classes is not None, everyone,
        goal.client_weights[None, :], *out, goal.split, classes,
    )  # fmt: skip


def point_masses_in_numpy(pull: np.ndarray, budget: float, step: float, uniforms: np.ndarray) -> np.ndarray:
    """The peer for point masses, where the ensemble that is sent is α~ itself: every line works on whole arrays."""
    q = pull.size
    log_weights, total = np.full(q, -np.log(q)), np.zeros(q)
    for uniform in uniforms:
        alpha = np.exp(log_weights - log_weights.max())
        alpha /= alpha.sum()
        total += alpha
        gamma = np.minimum(1.0, budget * alpha)
        tilde = np.where(uniform < gamma, alpha / gamma, 0.0)
        log_weights += step * np.divide(pull, tilde, out=np.zeros(q), where=tilde > 0)
    return total / len(uniforms)


def point_masses_in_numpy_by_index(pull: np.ndarray, budget: float, step: float, uniforms: np.ndarray) -> np.ndarray:
    """The same with the gradient taken only where predictors were sent."""
    q = pull.size
    log_weights, total = np.full(q, -np.log(q)), np.zeros(q)
    for uniform in uniforms:
        alpha = np.exp(log_weights - log_weights.max())
        alpha /= alpha.sum()
        total += alpha
        gamma = np.minimum(1.0, budget * alpha)
        sent = np.flatnonzero(uniform < gamma)
        log_weights[sent] += step * pull[sent] / (alpha[sent] / gamma[sent])
    return total / len(uniforms)


def unigrams_in_scipy(h, pull: np.ndarray, budget: float, step: float, uniforms: np.ndarray) -> np.ndarray:
    """The peer for sparse predictors; ``h.T`` of a CSR matrix is a CSC view, the faster of the two forms here."""
    q = h.shape[0]
    transposed = h.T
    log_weights, total = np.full(q, -np.log(q)), np.zeros(q)
    for uniform in uniforms:
        alpha = np.exp(log_weights - log_weights.max())
        alpha /= alpha.sum()
        total += alpha
        gamma = np.minimum(1.0, budget * alpha)
        sent = uniform < gamma
        mixture = transposed @ np.where(sent, alpha / gamma, 0.0)
        slopes = np.divide(pull, mixture, out=np.zeros_like(pull), where=mixture > 0)
        log_weights += step * np.where(sent, h @ slopes, 0.0)
    return total / len(uniforms)


def synthetic_rows(*, q: int = 1_000, rounds: int = 5_000, repeats: int = 9) -> list[Row]:
    """Section 5.1 with q point masses: random draws left out, and with them."""
    goal = objective(power_law_mixture(q), point_masses(q))
    pull, generator = goal.pull(), np.random.default_rng(0)
    uniforms = generator.random((rounds, q))
    peers = {
        ("NumPy", 8.0): point_masses_in_numpy,
        ("NumPy, sent only", None): point_masses_in_numpy_by_index,
    }
    rows = []
    for (name, target), peer in peers.items():
        rows.append(
            _compared(
                f"point masses, q = {q:,}, draws given",
                lambda: our_rounds(goal, BUDGET, SYNTHETIC_STEP, uniforms),
                lambda peer=peer: peer(pull, BUDGET, SYNTHETIC_STEP, uniforms),
                target=target,
                peer_name=name,
                repeats=repeats,
            )
        )
    measured = ratio(
        lambda: our_rounds(goal, BUDGET, SYNTHETIC_STEP, generator.random((rounds, q))),
        lambda: point_masses_in_numpy(pull, BUDGET, SYNTHETIC_STEP, generator.random((rounds, q))),
        repeats=repeats,
    )
    rows.append(row(GROUP, f"point masses, q = {q:,}, with draws", measured, target=None, peer_name="NumPy"))
    return rows


def shakespeare_rows(federation: Federation | None = None, *, rounds: int = 100, repeats: int = 9) -> list[Row]:
    """Section 5.2: the unigram models of all roles, half of them sent.

    Raises
    ------
    DataUnavailable
        Where no source has Shakespeare's works.
    """
    from scipy import sparse

    federation = shakespeare.federation("train") if federation is None else federation
    ensemble = unigrams(federation)
    goal, q = objective(federation, ensemble), len(ensemble)
    short = (
        ensemble.indices.astype(np.int32),
        ensemble.indptr.astype(np.int32),
    )  # the indices that scipy is fastest with
    h = sparse.csr_array((ensemble.values, *short), (q, ensemble.columns))
    pull, uniforms = goal.pull(), np.random.default_rng(0).random((rounds, q))
    line = _compared(
        f"Shakespeare, q = {q:,}, draws given",
        lambda: our_rounds(goal, q / 2, SHAKESPEARE_STEP, uniforms),
        lambda: unigrams_in_scipy(h, pull, q / 2, SHAKESPEARE_STEP, uniforms),
        target=4.0,
        peer_name="scipy.sparse",
        repeats=repeats,
    )
    return [line]


def _compared(case: str, ours: Callable, peer: Callable, *, target, peer_name: str, repeats: int) -> Row:
    """A line of the table, after both have given the same result."""
    np.testing.assert_allclose(ours(), peer(), rtol=0.0, atol=1e-10)
    return row(GROUP, case, ratio(ours, peer, repeats=repeats), target=target, peer_name=peer_name)


@dataclass(frozen=True)
class Growth:
    """Seconds per round against the size of the ensemble, at a fixed budget."""

    sizes: list[int]
    skips: list[float]
    dense: list[float]
    numpy: list[float]


def growth(
    *, sizes: tuple[int, ...] = ENSEMBLE_SIZES, skip_rounds: int = 300_000, values: int = 20_000_000, repeats: int = 2
) -> Growth:
    """Time a round of growing ensembles of point masses, with the draws in every case.

    The layout of the problem and the classes of weights are made before the clock starts, as a run makes them once.

    Parameters
    ----------
    skip_rounds
        Rounds of draws in skips, in one call: enough to count what is done once in a call, and the normalisation of
        all weights every q/4 rounds.
    values
        Roughly how many weights the dense versions look at per size.
    """
    found = Growth([], [], [], [])
    for q in sizes:
        goal = objective(power_law_mixture(q), point_masses(q))
        pull, generator = goal.pull(), np.random.default_rng(0)
        dense_rounds = max(10, values // q // 10)
        found.sizes.append(q)
        found.skips.append(min(_seconds_in_skips(goal, skip_rounds) for _ in range(repeats)) / skip_rounds)
        for times, rounds_with in (
            (found.dense, lambda uniforms, goal=goal: our_rounds(goal, BUDGET, STILL, uniforms)),
            (found.numpy, lambda uniforms, pull=pull: point_masses_in_numpy(pull, BUDGET, STILL, uniforms)),
        ):
            seconds = min(
                _seconds(lambda: rounds_with(generator.random((dense_rounds, q))))  # noqa: B023 - called at once
                for _ in range(repeats)
            )
            times.append(seconds / dense_rounds)
    return found


def _seconds_in_skips(goal: Objective, rounds: int) -> float:
    state = new_state(goal.size)
    classes = rounds_of.classes_of(state.weights, np.ones(goal.size))
    nothing = np.zeros((0, goal.size))
    _run(goal, state, BUDGET, STILL, 2, nothing, classes)
    return _seconds(lambda: _run(goal, state, BUDGET, STILL, rounds, nothing, classes))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
