"""What each claim of Omni-Fedge is judged on: one comparison per panel and reading of the paper.

The whole experiment is read in three ways: as the paper prints it, as the authors' code does it, and on equal terms.
Claims about local training are also read by how long it is and on which images its training accuracy is measured, and
rounds are counted to two accuracies. The functions take one value per seed for each reading, under the names of
``paper.toml``.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from fedrepro.algorithms.nodes.omni_fedge import weights_of
from fedrepro.reproduction.verdicts import Comparison, equal, less, more, unavailable

Values = Sequence[float] | np.ndarray
Axes = Mapping[str, str]
OURS = "Omni-Fedge"
ASKED_FOR, END_OF_FEDSGD = "the level asked for", "what FedSGD ends at"  # the accuracy to which rounds are counted
OF_THE_EXPERIMENT, LONGER = "as in the experiment", "ten times as long"  # local training
TRAINING_IMAGES, ALL_IMAGES = "training images", "all images"  # on which its training accuracy is measured
_AHEAD = {"words": ("ahead of", "behind")}


def by_reading(
    compare: Callable[..., Comparison],
    pairs: Mapping[str, tuple[Values, Values]],
    other: str,
    setting: str,
    further: Axes = MappingProxyType({}),
    **words,
) -> list[Comparison]:
    """Omni-Fedge and another method, under each reading of the experiment and given values of further axes."""
    return [
        compare(ours, theirs, setting=setting, names=(OURS, other), reading={"experiment": reading, **further}, **words)
        for reading, (ours, theirs) in pairs.items()
    ]


def beats(
    pairs: Mapping[str, tuple[Values, Values]], other: str, setting: str, further: Axes = MappingProxyType({})
) -> list[Comparison]:
    """Omni-Fedge has a higher accuracy than the other method, under each reading."""
    return by_reading(more, pairs, other, setting, further, **_AHEAD)


def fewer_rounds(pairs: Mapping[str, tuple[Values, Values]], level: str, setting: str) -> list[Comparison]:
    """Omni-Fedge needs fewer rounds than FedSGD to an accuracy, under each reading."""
    return by_reading(less, pairs, "FedSGD", setting, {"level": level}, **_AHEAD)


def smaller_gap(
    pairs: Mapping[str, tuple[Values, Values]], other: str, setting: str, further: Axes = MappingProxyType({})
) -> list[Comparison]:
    """Omni-Fedge loses less between training and test data than the other method, under each reading."""
    return by_reading(less, pairs, other, setting, further)


def equal_weights(deviations: Mapping[str, Values], tolerance: float, setting: str) -> list[Comparison]:
    """The largest deviation of N·share from 1 is within the tolerance, under each reading."""
    return [
        equal(
            1 + np.asarray(values),
            1.0,
            tolerance,
            setting=setting,
            names=("the share that is farthest off", "an equal one"),
            reading={"experiment": reading},
        )
        for reading, values in deviations.items()
    ]


def higher_weights(shares: Mapping[str, tuple[Values, Values]], setting: str) -> list[Comparison]:
    """The mean share within a group is above that across groups, under each reading."""
    return [
        more(
            within,
            across,
            setting=setting,
            names=("the share within a group", "that across groups"),
            reading={"experiment": reading},
        )
        for reading, (within, across) in shares.items()
    ]


def tautology() -> list[Comparison]:
    """Theorem 1 is no evidence: for every family of networks its right side is at least its left side."""
    why = (
        "It cannot fail: the complexity (3) is a supremum that contains the risk of each network, and its product of "
        "losses cancels the objective (4), so that for any family of networks, trained or not, the right side is at "
        "least the least risk; its divergence is infinite besides. Nothing that could be measured would contradict it."
    )
    return [unavailable("any family of networks", why)]


# --- from traces to numbers ------------------------------------------------------------------------------------------


def at_the_end(rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean over the evaluations in the last tenth of the rounds, of each run (row)."""
    return np.atleast_2d(values)[:, rounds >= 0.9 * rounds[-1]].mean(axis=1)


def rounds_to(targets: float | np.ndarray, rounds: np.ndarray, accuracies: np.ndarray) -> np.ndarray:
    """When each run (row) first reaches the accuracy, or its own one, interpolated; infinity where it never does."""
    found = []
    runs = np.atleast_2d(accuracies)
    for run, target in zip(runs, np.broadcast_to(targets, len(runs)), strict=True):
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
    """Mean share of another node of the own group, and of a node of the other group.

    A group of one node has no other node; with two groups of one, the share of the node itself stands for it.
    """
    same = np.equal.outer(np.array(groups), np.array(groups))
    other = ~np.eye(len(groups), dtype=bool)
    within = same & other if (same & other).any() else same
    return float(shares[within].mean()), float(shares[~same].mean())
