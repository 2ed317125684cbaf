"""Omni-Fedge's claims, each as a function from measured numbers to a verdict.

Algorithm 1 and the authors' code are two readings of the method: a claim that compares Omni-Fedge with another method
is judged on both, and is *reproduced* only if it holds for both.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fedrepro.algorithms.nodes.omni_fedge import weights_of
from fedrepro.reproduction.verdicts import Verdict, combine, judge_bound, judge_equal, judge_less


def beats(omni_fedge: Mapping[str, Sequence[float]], other: Sequence[float], name: str) -> Verdict:
    """Each reading of Omni-Fedge has a higher accuracy than the other method; one value per seed."""
    return combine(
        {reading: judge_less(other, values, label=name, other=reading) for reading, values in omni_fedge.items()},
        spell_out=True,
    )


def fewer_rounds(cases: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Verdict:
    """In each case (a panel and a reading) Omni-Fedge needs fewer rounds than FedSGD; one value per seed."""
    return combine(
        {name: judge_less(ours, theirs, label="Omni-Fedge", other="FedSGD") for name, (ours, theirs) in cases.items()},
        spell_out=True,
    )


def equal_weights(deviations: Mapping[str, Sequence[float]], tolerance: float) -> Verdict:
    """For each reading the largest deviation of N·share from 1 is within the tolerance; one value per seed."""
    return combine(
        {
            reading: judge_equal(
                values, np.zeros(len(values)), tolerance, label="largest deviation of N·share", other="0"
            )
            for reading, values in deviations.items()
        },
        spell_out=True,
    )


def higher_weights(shares: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Verdict:
    """For each reading the mean share across groups is below that within a group; one value per seed."""
    return combine(
        {
            reading: judge_less(across, within, label="share across groups", other="within a group")
            for reading, (within, across) in shares.items()
        },
        spell_out=True,
    )


def bound_holds(cases: Mapping[str, tuple[Sequence[float], Sequence[float]]], tolerance: float) -> Verdict:
    """In each case the risk is at most the bound, for every network."""
    return combine(
        {name: judge_bound(risk, bound, tolerance, label="risk") for name, (risk, bound) in cases.items()},
        spell_out=True,
    )


# --- from traces to numbers ------------------------------------------------------------------------------------------


def rounds_to(target: float, rounds: np.ndarray, accuracies: np.ndarray) -> np.ndarray:
    """When each run (row) first reaches the accuracy, interpolated; infinity where it never does."""
    found = []
    for run in np.atleast_2d(accuracies):
        reached = np.flatnonzero(run >= target)
        if reached.size == 0:
            found.append(np.inf)
        elif reached[0] == 0:
            found.append(float(rounds[0]))
        else:
            at = reached[0]
            share = (target - run[at - 1]) / (run[at] - run[at - 1])
            found.append(float(rounds[at - 1] + share * (rounds[at] - rounds[at - 1])))
    return np.array(found)


def mean_shares(rounds: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The mean of shares over all rounds, from means over the rounds between evaluations; the first row has none."""
    lengths = np.diff(rounds)
    return np.einsum("t,tij->ij", lengths / lengths.sum(), shares[1:])


def shares_of(losses: np.ndarray, weights: str, rows: str = "network") -> np.ndarray:
    """The shares ω_ij / Σ_j ω_ij that belong to losses of networks (rows) on the data of nodes (columns).

    ``weights`` and ``rows`` as in `fedrepro.algorithms.nodes.omni_fedge`.
    """
    losses = np.asarray(losses)
    found = weights_of(losses if rows == "network" else losses.T, weights)
    return found / found.sum(axis=1, keepdims=True)


def own_share(shares: np.ndarray) -> float:
    """N·share of a node's own data, in the mean over the nodes: 1 where no node favours its own."""
    return float(len(shares) * np.diag(shares).mean())


def deviation_from_equal(shares: np.ndarray) -> float:
    """The largest |N·share − 1|."""
    return float(np.abs(shares.shape[1] * shares - 1).max())


def within_and_across(shares: np.ndarray, groups: Sequence[int]) -> tuple[float, float]:
    """Mean share of another node of the own group, and of a node of the other group."""
    same = np.equal.outer(np.array(groups), np.array(groups))
    other = ~np.eye(len(groups), dtype=bool)
    return float(shares[same & other].mean()), float(shares[~same].mean())
