"""AFL as a strategy of Flower: the server of `fedrepro.algorithms.afl`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedrepro.algorithms.afl import _check_numbers, _check_step_domains, _first_mixture
from fedrepro.algorithms.arguments import check_count, chosen
from fedrepro.algorithms.domains import Mixtures, Point, Simplex
from fedrepro.flower import records as key
from fedrepro.flower.records import Arrays, arrays_of
from fedrepro.flower.strategy import Repeatable, Reply
from fedrepro.kernels import afl as steps_of
from fedrepro.kernels.afl import Gradient, GradientDomains, Version
from fedrepro.kernels.mirror import Mirror, mirror_step
from fedrepro.kernels.optimisers import Optimiser


class AFL(Repeatable):
    """Stochastic-AFL: a round is a step against the worst mixture of the domains (`fedrepro.algorithms.afl`).

    A node has samples of one domain, and replies with the loss and the gradient on a minibatch of them. Where several
    nodes hold a domain, theirs are averaged by their numbers of examples. A domain of which no node replies leaves its
    part out of the gradient of the round, and its loss counts as 0.

    Parameters
    ----------
    domains
        p, how many domains there are; nodes number theirs from 0.
    step, step_domains, mixtures, initial_mixture, mirror, optimiser, momentum, radius, penalty, clip
        As in `fedrepro.algorithms.afl`.
    seed
        Varies which nodes are drawn.
    flower
        The keyword arguments of Flower's FedAvg, such as ``fraction_train``.

    Attributes
    ----------
    mixture, average_mixture
        λ after the last round, and its average over the rounds.
    average
        The average of the parameters over the rounds, by the names of the model's arrays.
    """

    method = "afl"
    needs = key.DOMAIN, "loss"

    def __init__(
        self,
        *,
        domains: int,
        step: float,
        step_domains: float | None = None,
        mixtures: Mixtures | None = None,
        initial_mixture: Sequence[float] | None = None,
        mirror: str = "euclidean",
        optimiser: str = "sgd",
        momentum: float = 0.9,
        radius: float | None = None,
        penalty: float = 0.0,
        clip: float | None = None,
        seed: int = 0,
        **flower: Any,
    ):
        super().__init__(seed=seed, **flower)
        check_count("domains", domains)
        _check_numbers(1, step, 1, momentum, radius, penalty, 0.0, clip)
        self.domains, self.mixtures = domains, Simplex() if mixtures is None else mixtures
        if not isinstance(self.mixtures, Point):
            _check_step_domains(step_domains)
        self._first = _first_mixture(self.mixtures, initial_mixture, domains)
        self._rules = steps_of.Rules(
            version=Version.STOCHASTIC.value,
            gradient=Gradient.PER_DOMAIN.value,
            gradient_domains=GradientDomains.BATCH.value,
            moves=not isinstance(self.mixtures, Point),
            mirror=chosen("mirror", mirror, Mirror),
            optimiser=chosen("optimiser", optimiser, Optimiser),
            step=float(step),
            step_domains=float(step_domains or 0.0),
            momentum=float(momentum),
            radius=np.inf if radius is None else float(radius),
            penalty=float(penalty),
            clip=np.inf if clip is None else float(clip),
        )
        self._state = steps_of.start(self._rules, np.zeros(0), self._first)

    @property
    def mixture(self) -> np.ndarray:
        """λ after the last round."""
        return self._state.mixture.copy()

    @property
    def average_mixture(self) -> np.ndarray:
        """λ^A so far."""
        return self._state.mixture_sum / self._state.clock[1] if self._state.clock[1] else self.mixture

    @property
    def average(self) -> Arrays:
        """w^A so far."""
        state, total = self._state, self._state.clock[1]
        return self._shaped((state.w_sum / total).astype(state.w.dtype) if total else state.w)

    def begin(self, arrays: Arrays) -> None:
        """The first iterates."""
        self._state = steps_of.start(self._rules, _flat(arrays), self._first)

    def instructions(self, server_round: int, nodes: Sequence[int]) -> tuple[dict, Callable[[int], dict]]:
        """The parameters go to every node."""
        config = {key.DOMAINS: int(self.domains)}
        return {}, lambda node: config

    def learn(self, server_round: int, replies: list[Reply]) -> Arrays:
        """Steps 1 to 3 of Figure 3."""
        state, rules = self._state, self._rules
        held = np.zeros(self.domains)
        for reply in replies:
            held[reply.facts[key.DOMAIN]] += reply.examples
        state.gradient[:], state.ascent[:] = 0.0, 0.0
        for reply in replies:  # step 1
            domain = reply.facts[key.DOMAIN]
            share = reply.examples / held[domain]
            state.gradient[:] += state.mixture[domain] * share * _flat(arrays_of(reply.content[self.arrayrecord_key]))
            state.ascent[domain] += share * reply.facts["loss"]
        steps_of.descend(rules, state)  # step 2
        if rules.moves:  # step 3
            moved = np.empty_like(state.mixture)
            mirror_step(rules.mirror, state.mixture, state.ascent, rules.step_domains, moved)
            state.mixture[:] = self.mixtures.project(moved, Mirror.labels()[rules.mirror])
        steps_of.enter_average(rules, state)
        return self._shaped(state.w)

    def _shaped(self, w: np.ndarray) -> Arrays:
        """The flat parameters as the model's arrays."""
        ends = np.cumsum([array.size for array in self._arrays.values()])[:-1]
        parts = zip(self._arrays.items(), np.split(w, ends), strict=True)
        return {name: part.reshape(array.shape).astype(array.dtype) for (name, array), part in parts}


def _flat(arrays: Arrays) -> np.ndarray:
    return np.concatenate([array.ravel() for array in arrays.values()])
