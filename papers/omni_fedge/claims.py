"""Omni-Fedge's claims, each as a function from measured numbers to comparisons.

Algorithm 1 and the authors' code are two readings of the method: every claim about Omni-Fedge is judged under both. The
functions take one value per seed for each reading, under the names of ``paper.toml``.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fedrepro.algorithms.nodes.omni_fedge import weights_of
from fedrepro.reproduction.verdicts import Comparison, bound, equal, less, more

ALGORITHM_1, AUTHORS = "Algorithm 1", "authors' code"
OURS = {ALGORITHM_1: "Omni-Fedge", AUTHORS: "the authors' code"}  # what a reading is called in a sentence


def beats(
    omni_fedge: Mapping[str, Sequence[float]], other: Sequence[float], name: str, setting: str
) -> list[Comparison]:
    """Omni-Fedge has a higher accuracy than the other method, under each reading."""
    return [
        more(
            values,
            other,
            setting=setting,
            names=(OURS[reading], name),
            reading={"algorithm": reading},
            words=("ahead of", "behind"),
        )
        for reading, values in omni_fedge.items()
    ]


def fewer_rounds(omni_fedge: Mapping[str, Sequence[float]], fedsgd: Sequence[float], setting: str) -> list[Comparison]:
    """Omni-Fedge needs fewer rounds than FedSGD, under each reading."""
    return [
        less(
            values,
            fedsgd,
            setting=setting,
            names=(OURS[reading], "FedSGD"),
            reading={"algorithm": reading},
            words=("ahead of", "behind"),
        )
        for reading, values in omni_fedge.items()
    ]


def equal_weights(deviations: Mapping[str, Sequence[float]], tolerance: float, setting: str) -> list[Comparison]:
    """The largest deviation of N·share from 1 is within the tolerance, under each reading."""
    return [
        equal(
            1 + np.asarray(values),
            1.0,
            tolerance,
            setting=setting,
            names=("the share that is farthest off", "an equal one"),
            reading={"algorithm": reading},
        )
        for reading, values in deviations.items()
    ]


def higher_weights(shares: Mapping[str, tuple[Sequence[float], Sequence[float]]], setting: str) -> list[Comparison]:
    """The mean share within a group is above that across groups, under each reading."""
    return [
        more(
            within,
            across,
            setting=setting,
            names=("the share within a group", "that across groups"),
            reading={"algorithm": reading},
        )
        for reading, (within, across) in shares.items()
    ]


def bound_holds(cases: Mapping[str, tuple[Sequence[float], Sequence[float]]], tolerance: float) -> list[Comparison]:
    """In each case the risk is at most the bound, for every network."""
    return [bound(risk, limit, tolerance, setting=name, name="risk") for name, (risk, limit) in cases.items()]


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
