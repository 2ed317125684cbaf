"""A federation read as a stream: in round t every client has its t-th sample, and no sample is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from fedrepro.algorithms.arguments import check_count
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.ensemble import Ensemble
from fedrepro.streams import stream


@dataclass(frozen=True)
class SampleStream:
    """The samples of a federation in the order in which they arrive.

    Attributes
    ----------
    predictions
        (samples, K): what each model predicts.
    targets
        The true values.
    first, last
        Round t has the samples ``first[t]:last[t]``; clients that have run out of samples are absent.
    """

    predictions: np.ndarray
    targets: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return self.first.size

    @property
    def clients(self) -> np.ndarray:
        """How many clients have a sample in each round."""
        return self.last - self.first


def sample_stream(
    federation: Federation,
    ensemble: Ensemble,
    rounds: int | None = None,
    replay: np.random.Generator | None = None,
    participants: int | None = None,
    seed: int = 0,
) -> SampleStream:
    """The first rounds of a federation as a stream (all of them by default).

    Parameters
    ----------
    federation
        Its ``y`` holds the targets; a client's samples arrive in their order.
    ensemble
        Predictions on the samples of the federation.
    rounds
        How many rounds to read.
    replay
        Draws rounds that are played once more, at random, when more are asked for than there are.
    participants
        How many clients the server draws in each round, uniformly among those that have a sample; what the others
        observe is lost. By default all take part.
    seed
        Varies which clients are drawn.
    """
    if ensemble.densities:
        raise UserError("A stream of samples needs predictions: build the ensemble with from_predictions.")
    ensemble.check_predicts(federation, "squared")
    arrival = np.arange(len(federation)) - np.repeat(federation.offsets[:-1], federation.sizes)
    order = np.argsort(arrival, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(arrival))]).astype(np.int64)
    predictions = np.ascontiguousarray(ensemble.dense().T[order])
    played = _rounds_to_play(rounds, offsets.size - 1, replay)
    targets, first, last = federation.y[order].astype(np.float64), offsets[played], offsets[played + 1]
    if participants is None:
        return SampleStream(predictions, targets, first, last)
    check_count("participants", participants)
    if participants > federation.n_clients:
        raise UserError(f"participants={participants} is more than the {federation.n_clients} clients: draw fewer.")
    drawn = [
        begin + np.sort(stream("efl_fg", "batch", seed, round=t + 2).permutation(end - begin)[:participants])
        for t, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True))
    ]
    ends = np.cumsum([chosen.size for chosen in drawn])
    everyone = np.concatenate(drawn)
    return SampleStream(predictions[everyone], targets[everyone], np.concatenate([[0], ends[:-1]]), ends)


def _rounds_to_play(wanted: int | None, available: int, replay: np.random.Generator | None) -> np.ndarray:
    if wanted is None:
        return np.arange(available)
    check_count("rounds", wanted)
    if wanted <= available:
        return np.arange(wanted)
    if replay is None:
        raise UserError(
            f"rounds={wanted} is more than the {available} samples of the largest client: ask for fewer, or let rounds "
            "be played again (replay=True)."
        )
    return np.concatenate([np.arange(available), replay.integers(available, size=wanted - available)])


def budgets_of_rounds(budget: float | Sequence[float], rounds: int) -> np.ndarray:
    """One budget per round, from one for all or from one for each."""
    given = np.asarray(budget, dtype=np.float64)
    if given.ndim > 1 or (given.ndim == 1 and given.size != rounds):
        raise UserError(f"budget must be one number, or one for each of the {rounds} rounds, not {given.size} numbers.")
    if not (np.all(np.isfinite(given)) and np.all(given > 0)):
        raise UserError("budget must be positive: a round that may send nothing cannot be played.")
    return np.array(np.broadcast_to(given, rounds))


def running_mean(errors: np.ndarray, clients: np.ndarray) -> np.ndarray:
    """MSE_t of (14): the mean over the rounds so far of each round's mean over its clients."""
    return np.cumsum(errors / clients) / np.arange(1, errors.size + 1)


def evaluated(evaluate: int | Sequence[int], rounds: int) -> np.ndarray:
    """The rounds (from 1 on) at which a trace has a row; by a number of rows, or by name. The last is always there."""
    if isinstance(evaluate, Integral):
        check_count("evaluate", evaluate)
        return np.unique(np.linspace(rounds, 1, min(int(evaluate), rounds)).round().astype(int))
    named = np.asarray(evaluate)
    if named.dtype.kind not in "iu" or (named.size and (named.min() < 1 or named.max() > rounds)):
        raise UserError(f"evaluate must be a whole number, or name rounds from 1 to {rounds}.")
    return np.unique([*named.tolist(), rounds])
