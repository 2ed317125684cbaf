"""FedBoost's rounds against what one would write with NumPy and scipy.sparse, on the same inputs and the same draws."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedrepro.algorithms import fedboost
from fedrepro.algorithms.ensembles.fedboost import Objective, objective
from fedrepro.bench.harness import Row, ratio, row
from fedrepro.bench.limits import Work, machine_limits
from fedrepro.data import shakespeare
from fedrepro.data.federation import Federation
from fedrepro.data.synthetic import power_law_mixture
from fedrepro.kernels import fedboost as rounds_of
from fedrepro.kernels.mirror import Mirror
from fedrepro.kernels.sampling import Sampling
from fedrepro.models.ensemble import Ensemble, point_masses, unigrams
from fedrepro.streams import stream

GROUP = "FedBoost"
BUDGET = 32
SYNTHETIC_STEP, SHAKESPEARE_STEP = 0.001, 0.01
STILL = 1e-9  # a step so short that weights stay nearly even, and ensembles of all sizes send as many predictors
ENSEMBLE_SIZES = (1_000, 10_000, 100_000, 1_000_000)


def our_rounds(goal: Objective, budget: float, step: float) -> Callable[[np.ndarray], np.ndarray]:
    """A run of weighted sampling, laid out once: from uniforms to the averaged iterate of a fresh start."""
    rules = rounds_of.Rules(
        loss=goal.loss,
        sampling=Sampling.number("weighted"),
        mirror=Mirror.number("entropy"),
        gradient=rounds_of.Gradient.number("sent"),
        budget=float(budget),
        step=float(step),
    )
    laid_out = rounds_of.new_run(goal.problem, rules, np.ones(goal.size))
    everyone, shares = np.arange(goal.client_weights.size)[None, :], goal.client_weights[None, :]

    def run(uniforms: np.ndarray) -> np.ndarray:
        fresh = laid_out._replace(state=rounds_of.start(goal.size))
        out = np.zeros(len(uniforms)), np.zeros(len(uniforms), np.int64)
        schedule = rounds_of.Schedule(uniforms, np.random.default_rng(0), everyone, shares, *out)
        rounds_of.fedboost_rounds(fresh, schedule)
        return rounds_of.average_weights(fresh.state)

    return run


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
    """Section 5.1 with q point masses: rounds on given draws, and a run from the federation on, with its draws."""
    federation, ensemble = power_law_mixture(q), point_masses(q)
    goal = objective(federation, ensemble)
    pull, uniforms = goal.pull(), np.random.default_rng(0).random((rounds, q))
    ours = our_rounds(goal, BUDGET, SYNTHETIC_STEP)
    work = Work(bytes=uniforms.nbytes)  # every uniform is read once; the weights stay in the cache
    peers = {
        ("NumPy", 8.0): point_masses_in_numpy,
        ("NumPy, sent only", None): point_masses_in_numpy_by_index,
    }
    rows = [
        _compared(
            f"point masses, q = {q:,}, draws given",
            lambda: ours(uniforms),
            lambda peer=peer: peer(pull, BUDGET, SYNTHETIC_STEP, uniforms),
            target=target,
            peer_name=name,
            repeats=repeats,
            work=work,
        )
        for (name, target), peer in peers.items()
    ]

    def whole_run() -> np.ndarray:
        settings = {"rounds": rounds, "step": SYNTHETIC_STEP, "budget": BUDGET, "evaluate": [rounds]}
        return fedboost(federation, ensemble, **settings).final["average"]

    def peer_with_draws() -> np.ndarray:
        drawn = stream("fedboost", "sampling", 0).random((rounds, q))
        return point_masses_in_numpy(pull, BUDGET, SYNTHETIC_STEP, drawn)

    case = f"point masses, q = {q:,}, with draws"
    rows.append(_compared(case, whole_run, peer_with_draws, target=None, peer_name="NumPy", repeats=repeats, work=work))
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
    ours = our_rounds(goal, q / 2, SHAKESPEARE_STEP)
    line = _compared(
        f"Shakespeare, q = {q:,}, draws given",
        lambda: ours(uniforms),
        lambda: unigrams_in_scipy(h, pull, q / 2, SHAKESPEARE_STEP, uniforms),
        target=4.0,
        peer_name="scipy.sparse",
        repeats=repeats,
        work=_work_of_rounds(ensemble, rounds),
    )
    return [line]


def _work_of_rounds(ensemble: Ensemble, rounds: int) -> Work:
    """Half of the predictors are read twice in a round, for the mixture and for the gradient, with a multiply-add."""
    entries = rounds * ensemble.values.size
    a_pass = ensemble.values.nbytes + ensemble.indices.nbytes
    return Work(operations=2.0 * entries, bytes=float(rounds * a_pass), resident=a_pass / 2)


def _compared(
    case: str, ours: Callable, peer: Callable, *, target, peer_name: str, repeats: int, work: Work | None = None
) -> Row:
    """A line of the table, after both have given the same result."""
    np.testing.assert_allclose(ours(), peer(), rtol=0.0, atol=1e-10)
    return row(GROUP, case, ratio(ours, peer, repeats=repeats), target=target, peer_name=peer_name, work=work)


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

    Our rounds are those of `fedboost`: the time of a run, less that of a run of two rounds, which lays out the same
    problem and evaluates as often.

    Parameters
    ----------
    skip_rounds
        Rounds of draws in skips: enough to count the normalisation of all weights every q/4 rounds.
    values
        Roughly how many weights the dense versions look at per size.
    """
    found = Growth([], [], [], [])
    for q in sizes:
        dense_rounds = max(30, values // q)
        found.sizes.append(q)
        found.skips.append(_seconds_of_a_round(q, "skips", skip_rounds, repeats))
        found.dense.append(_seconds_of_a_round(q, "dense", dense_rounds, repeats))
        found.numpy.append(_seconds_in_numpy(q, max(10, dense_rounds // 10), repeats))
    return found


def growth_rows(found: Growth) -> list[Row]:
    """A round of draws in skips with many predictors against one with the fewest: a ratio of 1 is no growth at all."""
    few, *more = zip(found.sizes, found.skips, strict=True)
    a_round = machine_limits().seconds(Work(bytes=BUDGET * 3 * 8))  # weight, logarithm and sum of what is sent
    return [
        Row(
            group=GROUP,
            case=f'a round with draws="skips", q = {q:,}',
            ours_seconds=seconds,
            peer_seconds=few[1],
            ratio=few[1] / seconds,
            target=1 / 3,
            peer_name=f"q = {few[0]:,}",
            note="the time of a run, less that of a run of two rounds",
            limit_seconds=a_round,
        )
        for q, seconds in more
    ]


def _seconds_of_a_round(q: int, draws: str, rounds: int, repeats: int) -> float:
    federation, ensemble = power_law_mixture(q), point_masses(q)

    def seconds(rounds: int) -> float:
        settings = {"rounds": rounds, "step": STILL, "budget": BUDGET, "draws": draws, "evaluate": [rounds]}
        return min(_seconds(lambda: fedboost(federation, ensemble, **settings)) for _ in range(repeats))

    seconds(2)  # compiles
    return max(seconds(rounds) - seconds(2), 1e-9) / (rounds - 2)


def _seconds_in_numpy(q: int, rounds: int, repeats: int) -> float:
    pull, generator = objective(power_law_mixture(q), point_masses(q)).pull(), np.random.default_rng(0)
    return (
        min(
            _seconds(lambda: point_masses_in_numpy(pull, BUDGET, STILL, generator.random((rounds, q))))
            for _ in range(repeats)
        )
        / rounds
    )


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start
