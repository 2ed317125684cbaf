"""AgnosticFedAvg, ApproxFedAvg and SCAFFOLD as strategies of Flower: the servers of `fedrepro.algorithms.averaging`.

The line numbers are those of the pseudo-code, as there. The lines of the clients stand in `fedrepro.flower.task`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from logging import WARNING
from typing import Any

import numpy as np
from flwr.common.logger import log

from fedrepro.algorithms.arguments import check_count, check_known
from fedrepro.algorithms.averaging.agnostic_fedavg import (
    NORMALISERS,
    _ascended,
    _estimated,
    _first_counts,
    _first_mixture,
)
from fedrepro.algorithms.averaging.rounds import check_steps
from fedrepro.algorithms.averaging.scaffold import OPTIONS
from fedrepro.errors import UserError
from fedrepro.flower import records as key
from fedrepro.flower.records import Arrays, arrays_of, floats, record_of
from fedrepro.flower.strategy import Repeatable, Reply, averaged, moved

AGGREGATES = ("soft-max", "samples")


class AgnosticFedAvg(Repeatable):
    """Agnostic federated averaging: against the worst mixture of the domains (`fedrepro.algorithms.agnostic_fedavg`).

    Parameters
    ----------
    domains
        p, how many domains there are; nodes number theirs from 0.
    step_domains
        γ_λ, the step size of the mixture of domains.
    window, initial_mixture, initial_counts, normalise
        As in `fedrepro.algorithms.agnostic_fedavg`.
    seed
        Varies which nodes are drawn.
    flower
        The keyword arguments of Flower's FedAvg, such as ``fraction_train``.

    Attributes
    ----------
    mixture
        λ after the last round.
    """

    method = "agnostic-fedavg"
    needs = key.BETA, key.DOMAIN_LOSSES, key.DOMAIN_COUNTS

    def __init__(
        self,
        *,
        domains: int,
        step_domains: float,
        window: int = 1,
        initial_mixture: Sequence[float] | None = None,
        initial_counts: Sequence[float] | None = None,
        normalise: str = "client",
        seed: int = 0,
        **flower: Any,
    ):
        super().__init__(seed=seed, **flower)
        check_count("domains", domains)
        check_steps(step_domains=step_domains)
        check_count("window", window)
        check_known("normalise", normalise, NORMALISERS)
        self.domains, self.step_domains, self.window, self.normalise = domains, step_domains, window, normalise
        self._first = _first_mixture(initial_mixture, domains), _first_counts(initial_counts, domains)
        self.mixture, self._estimate = self._first
        self._counts: deque[np.ndarray] = deque(maxlen=int(window))

    def begin(self, arrays: Arrays) -> None:
        """Lines S1 and S2."""
        self.mixture, self._estimate = self._first
        self._counts = deque([self._estimate], maxlen=int(self.window))

    def instructions(self, server_round: int, nodes: Sequence[int]) -> tuple[dict, Callable[[int], dict]]:
        """Line S4: α goes to every node."""
        self._estimate = _estimated(self._counts, self._estimate)
        config = {key.SHARES: floats(self.mixture / self._estimate), key.NORMALISE: self.normalise}
        return {}, lambda node: config

    def learn(self, server_round: int, replies: list[Reply]) -> Arrays:
        """Lines S6 to S12."""
        beta, losses, seen = 0.0, np.zeros(self.domains), np.zeros(self.domains)
        for reply in replies:  # line S6
            beta += reply.facts[key.BETA]
            losses += reply.facts[key.DOMAIN_LOSSES]
            seen += reply.facts[key.DOMAIN_COUNTS]  # line S10
        change = averaged(self._arrays, replies, [reply.facts[key.BETA] for reply in replies], self.arrayrecord_key)
        self._counts.append(seen)
        self.mixture = _ascended(self.mixture, losses, seen, self.step_domains)  # lines S11, S12
        return {name: moved(w, change[name] / beta) for name, w in self._arrays.items()}  # line S9


class ApproxFedAvg(Repeatable):
    """Federated averaging on a soft maximum of the domains' losses (`fedrepro.algorithms.approx_fedavg`).

    Parameters
    ----------
    domains
        p, how many domains there are; nodes number theirs from 0.
    mu
        μ: the larger, the nearer to the maximum over the domains.
    aggregate
        β^k, the weight of a node: ``"soft-max"``, Σ_i exp(μ F_i), or ``"samples"``, its number of samples.
    seed, flower
        As in `AgnosticFedAvg`.
    """

    method = "approx-fedavg"
    needs = (key.LOG_BETA,)

    def __init__(self, *, domains: int, mu: float, aggregate: str = "soft-max", seed: int = 0, **flower: Any):
        super().__init__(seed=seed, **flower)
        check_count("domains", domains)
        check_steps(mu=mu)
        check_known("aggregate", aggregate, AGGREGATES)
        self.domains, self.mu, self.aggregate = domains, mu, aggregate

    def begin(self, arrays: Arrays) -> None:
        """Nothing but the model lasts from round to round."""

    def instructions(self, server_round: int, nodes: Sequence[int]) -> tuple[dict, Callable[[int], dict]]:
        """Line S5."""
        config = {key.MU: float(self.mu), key.DOMAINS: int(self.domains), key.AGGREGATE: self.aggregate}
        return {}, lambda node: config

    def learn(self, server_round: int, replies: list[Reply]) -> Arrays:
        """Line S7."""
        log_beta = np.array([reply.facts[key.LOG_BETA] for reply in replies])
        beta = np.exp(log_beta - log_beta.max())  # their ratios are all that counts
        change = averaged(self._arrays, replies, beta, self.arrayrecord_key)
        return {name: moved(w, change[name] / beta.sum()) for name, w in self._arrays.items()}


class Scaffold(Repeatable):
    """Averaging whose nodes correct their steps for what sets them apart (`fedrepro.algorithms.scaffold`).

    A node keeps its control variate in the state of its context. What it makes of it in a round counts once the server
    has accepted the reply: after a reply that came too late, it starts again from the one before.

    Parameters
    ----------
    server_step
        η_g, the step size of the server.
    option
        A node's new control variate: ``"ii"``, from the way that its local steps went, or ``"i"``, its gradient.
    seed, flower
        As in `AgnosticFedAvg`.

    Attributes
    ----------
    control
        The server's control variate after the last round, by the names of the model's arrays.
    """

    method = "scaffold"
    arrays_needed = (key.CONTROL,)

    def __init__(self, *, server_step: float = 1.0, option: str = "ii", seed: int = 0, **flower: Any):
        super().__init__(seed=seed, **flower)
        check_steps(server_step=server_step)
        check_known("option", option, OPTIONS)
        self.server_step, self.option = server_step, option
        self.control: Arrays = {}
        self._accepted: dict[int, int] = {}

    def begin(self, arrays: Arrays) -> None:
        """No control variates yet."""
        self.control, self._accepted = {name: np.zeros_like(x) for name, x in arrays.items()}, {}

    def instructions(self, server_round: int, nodes: Sequence[int]) -> tuple[dict, Callable[[int], dict]]:
        """Line 3: x and c go to every node; beside them, which of its replies counted last."""
        if len(nodes) < len(self._known) and any(self.node(node).examples is None for node in self._known):
            raise UserError(
                "Scaffold on a part of the nodes has to know how many examples each of them holds: let the ClientApp "
                "answer the roll call (fedrepro.flower.answer_roll_call), or set fraction_train=1.0."
            )
        common = {key.OPTION: self.option}
        records = {key.CONTROL: record_of(self.control)}
        return records, lambda node: common | {key.ACCEPTED: self._accepted.get(node, 0)}

    def learn(self, server_round: int, replies: list[Reply]) -> Arrays:
        """Lines 14 and 15."""
        weights = self._weights(replies)
        change = averaged(self._arrays, replies, weights, self.arrayrecord_key)
        for name, c in self.control.items():
            change_of_control = np.zeros(c.shape)
            for reply, weight in zip(replies, weights, strict=True):
                change_of_control += weight * arrays_of(reply.content[key.CONTROL])[name]
            self.control[name] = c + change_of_control.astype(c.dtype)
        self._accepted |= {reply.node: server_round for reply in replies}
        factor = self.server_step / weights.sum()
        return {name: moved(x, factor * change[name]) for name, x in self._arrays.items()}  # line 15

    def _weights(self, replies: list[Reply]) -> np.ndarray:
        """p_i: the share of each reply's node of the examples of all nodes.

        A node that answers no roll call says with its first reply how many it holds; until then it counts as the mean.
        """
        for reply in replies:
            if self.node(reply.node).examples is None:
                self._known[reply.node] = replace(self.node(reply.node), examples=reply.examples)
        known = [node.examples for node in self._known.values() if node.examples is not None]
        silent = len(self._known) - len(known)
        if silent > 0:
            log(
                WARNING,
                "%d of %d nodes have not said how many examples they hold, and count as the mean of the others: let "
                "the ClientApp answer the roll call (fedrepro.flower.answer_roll_call).",
                silent,
                len(self._known),
            )
        total = sum(known) if silent == 0 else sum(known) / len(known) * len(self._known)
        return np.array([reply.examples / total for reply in replies])
