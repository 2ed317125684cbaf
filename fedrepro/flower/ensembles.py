"""FedBoost and EFL-FG as strategies of Flower: the servers of `fedrepro.algorithms.ensembles`.

The arrays of a run are the predictors: what stands before the first slash of an array's name is the name of its
predictor. To them comes ``weights``, what is learned. A round sends only the predictors that it has drawn.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flwr.serverapp.exception import InconsistentMessageReplies

from fedrepro.algorithms.arguments import check_known, check_positive, checked_budget, checked_costs, chosen
from fedrepro.algorithms.ensembles.efl_fg import _rules, check_affordable
from fedrepro.algorithms.ensembles.streaming import budgets_of_rounds
from fedrepro.errors import UserError
from fedrepro.flower import records as key
from fedrepro.flower.clients import predictors_of
from fedrepro.flower.records import WEIGHTS, Arrays, floats, record_of
from fedrepro.flower.strategy import Repeatable, Reply
from fedrepro.kernels import efl_fg as graph_of
from fedrepro.kernels import fedboost as rounds_of
from fedrepro.kernels.fedboost import Gradient
from fedrepro.kernels.fedboost.gradients import weigh_gradient
from fedrepro.kernels.mirror import MIRROR_MAPS, Mirror
from fedrepro.kernels.mixture import Loss
from fedrepro.kernels.sampling import Sampling, sample_without_replacement
from fedrepro.streams import stream


class _Ensemble(Repeatable):
    """Learns the weights of predictors, which are sent by chance."""

    arrays_needed = None  # nodes reply with numbers, not with models

    def __init__(self, *, seed: int, **flower: Any):
        super().__init__(seed=seed, **flower)
        self._predictors: dict[str, Arrays] = {}
        self._sent = np.zeros(0, dtype=np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        """The predictors, in the order of their weights."""
        return tuple(self._predictors)

    def _take(self, arrays: Arrays) -> int:
        """Read the predictors of a new run; how many there are."""
        self._predictors = predictors_of(arrays)
        if not self._predictors:
            raise UserError("There is no predictor to send: give their arrays as initial_arrays.")
        return len(self._predictors)

    def _sending(self, sent: np.ndarray, coefficients: np.ndarray, config: dict) -> tuple[dict, Callable[[int], dict]]:
        """The records and the configuration of a round that sends these predictors."""
        self._sent = sent.copy()
        parts = {name: array for k in sent for name, array in self._predictors[self.names[k]].items()}
        config |= {key.SENT: [int(k) for k in sent], key.COEFFICIENTS: floats(coefficients)}
        return {self.arrayrecord_key: record_of(parts)}, lambda node: config

    def _numbers(self, reply: Reply, name: str) -> np.ndarray:
        """What a node says about each predictor that it was sent."""
        numbers = np.array(reply.facts[name], dtype=np.float64)
        if numbers.shape != self._sent.shape:
            raise InconsistentMessageReplies(
                f"{type(self).__name__} sent {self._sent.size} predictors to node {reply.node}, whose reply has "
                f"{numbers.size} numbers in {name!r}. Skipping aggregation."
            )
        return numbers

    def _whole(self, weights: np.ndarray) -> Arrays:
        return {name: array for parts in self._predictors.values() for name, array in parts.items()} | {
            WEIGHTS: weights
        }


class FedBoost(_Ensemble):
    """Mirror descent on the weights of an ensemble whose members are sent by chance (`fedrepro.algorithms.fedboost`).

    Parameters
    ----------
    step, budget, sampling, loss, mirror, costs, client_weighting
        As in `fedrepro.algorithms.fedboost`; a node's share is that of its number of examples.
    gradient
        ``"sent"``, as in Figure 1, or ``"importance"``, that divided by the probability of being sent.
    seed
        Varies the draws of predictors and nodes.
    flower
        The keyword arguments of Flower's FedAvg, such as ``fraction_train``.

    Attributes
    ----------
    average
        The average of the weights over the rounds.
    """

    method = "fedboost"
    needs = (key.GRADIENT,)

    def __init__(
        self,
        *,
        step: float,
        budget: float | None = None,
        sampling: str = "weighted",
        loss: str = "log",
        mirror: str = "entropy",
        gradient: str = "sent",
        costs: Sequence[float] | None = None,
        client_weighting: str = "sampled",
        seed: int = 0,
        **flower: Any,
    ):
        super().__init__(seed=seed, **flower)
        check_positive("step", step)
        check_known("gradient", gradient, ("sent", "importance"))
        check_known("client_weighting", client_weighting, ("sampled", "unbiased"))
        check_known("loss", loss, Loss.labels())
        check_known("mirror", mirror, Mirror.labels())
        check_known("sampling", sampling, Sampling.labels())
        if loss == "log" and not MIRROR_MAPS[mirror].keeps_positive:
            raise UserError(f"mirror={mirror!r} leaves the log loss's domain as soon as a weight is 0: use 'entropy'.")
        checked_budget(budget, sampling, np.ones(1))
        self.step, self.budget, self.sampling, self.loss, self.mirror = step, budget, sampling, loss, mirror
        self.gradient, self.costs, self.client_weighting = gradient, costs, client_weighting

    def begin(self, arrays: Arrays) -> None:
        """Even weights."""
        q = self._take(arrays)
        prices = checked_costs(self.costs, q)
        unit = prices.min()
        self._rules = rounds_of.Rules(
            loss=chosen("loss", self.loss, Loss),
            sampling=chosen("sampling", self.sampling, Sampling),
            mirror=chosen("mirror", self.mirror, Mirror),
            gradient=chosen("gradient", self.gradient, Gradient),
            budget=checked_budget(self.budget, self.sampling, prices) / unit,
            step=float(self.step),
        )
        self._prices = rounds_of.prices_of(prices / unit)
        self._state, self._work = rounds_of.start(q), rounds_of.workspace(q, 1)
        self._draws = stream("fedboost", "sampling", self.seed)
        self._node_draws = stream("fedboost", "batch", self.seed)

    @property
    def average(self) -> np.ndarray:
        """The mean of the weights over the rounds."""
        return rounds_of.average_weights(self._state)

    def evaluation(self) -> dict:
        """Nodes evaluate the loss that is learned."""
        return {key.LOSS: self.loss}

    def instructions(self, server_round: int, nodes: Sequence[int]) -> tuple[dict, Callable[[int], dict]] | None:
        """Steps 2 and 3a."""
        state, work, q = self._state, self._work, len(self._predictors)
        uniforms = np.zeros(0) if self.sampling == "none" else self._draws.random(q)
        n = rounds_of.draw_predictors(self._rules, state, self._prices, uniforms, work)
        rounds_of.weigh_sent(state, work, n)
        given = self._sending(work.sent[:n], work.coefficients[:n], {key.LOSS: self.loss})
        return given if n else None

    def learn(self, server_round: int, replies: list[Reply]) -> Arrays:
        """Steps 4 and 5."""
        state, work, n = self._state, self._work, self._sent.size
        examples = [reply.examples for reply in replies]
        total = float(sum(examples))
        if self.client_weighting == "unbiased":
            total = self._examples_of_all(total) * len(replies) / max(1, len(self._known))
        gradient = np.zeros(n)
        for reply, own in zip(replies, examples, strict=True):
            gradient += own / total * self._numbers(reply, key.GRADIENT)
        work.gradient[:n] = gradient
        if self.gradient == "importance":
            weigh_gradient(self._rules, state, np.zeros(0), work, n)
        rounds_of.count_round(state)
        rounds_of.mirror_update(self._rules, state, work, n)
        return self._whole(rounds_of.current_weights(state, self._rules.mirror))

    def _examples_of_all(self, otherwise: float) -> float:
        """m, over all nodes that are known; that of the replies where some have not said."""
        of_all = [self.node(node).examples for node in self._known]
        known = [examples for examples in of_all if examples is not None]
        return float(sum(known)) if len(known) == len(of_all) else otherwise

    def _drawn(self, server_round: int, count: int, everyone: int) -> Sequence[int]:
        """Step 1, as our engine draws clients."""
        if count == everyone:
            return range(everyone)
        return sample_without_replacement(self._node_draws.random(everyone), count).tolist()


class EFLFG(_Ensemble):
    """EFL-FG: sends what a budget allows, by a graph of who is sent with whom (`fedrepro.algorithms.efl_fg`).

    In round t a node uses its t-th sample; one that has none left is passed over.

    Parameters
    ----------
    budget
        B, or one B_t per round; it must pay for every predictor alone (assumption a3).
    costs, limit, losses
        As in `fedrepro.algorithms.efl_fg`.
    rate, exploration
        η and ξ; by default 1/√T with the number of rounds that `start` is given.
    seed
        Varies which predictors are drawn.
    flower
        The keyword arguments of Flower's FedAvg, such as ``fraction_train``.

    Attributes
    ----------
    squared_errors
        For every round with a reply, the mean squared error of the ensemble that was sent, over the nodes that replied.
    """

    method = "efl-fg"
    needs = key.MODEL_LOSSES, key.ENSEMBLE_LOSS, key.SQUARED_ERROR

    def __init__(
        self,
        *,
        budget: float | Sequence[float],
        costs: Sequence[float] | None = None,
        rate: float | None = None,
        exploration: float | None = None,
        limit: str = "current",
        losses: str = "sum",
        seed: int = 0,
        **flower: Any,
    ):
        super().__init__(seed=seed, **flower)
        self.budget, self.costs, self.rate, self.exploration = budget, costs, rate, exploration
        self.limit, self.losses = limit, losses
        _rules(1.0 if rate is None else rate, 1.0 if exploration is None else exploration, limit, losses)
        self.squared_errors: list[float] = []

    def begin(self, arrays: Arrays) -> None:
        """Even weights, and no graph yet."""
        q = self._take(arrays)
        if self._rounds is None:
            raise UserError("EFLFG has to know the number of rounds: run it by strategy.start(…, num_rounds=…).")
        usual = 1 / np.sqrt(self._rounds)
        rate, exploration = (usual if one is None else one for one in (self.rate, self.exploration))
        self._rules = _rules(float(rate), float(exploration), self.limit, self.losses)
        self._prices, self._budgets = checked_costs(self.costs, q), budgets_of_rounds(self.budget, self._rounds)
        check_affordable(self._prices, float(self._budgets.min()), self.names)
        self._state, self._plan = graph_of.start(q), graph_of.new_plan(q)
        self._draws, self._node, self.squared_errors = stream("efl_fg", "sampling", self.seed), 0, []

    def evaluation(self) -> dict:
        """Nodes evaluate the squared loss."""
        return {key.LOSS: "squared"}

    def instructions(self, server_round: int, nodes: Sequence[int]) -> tuple[dict, Callable[[int], dict]]:
        """The graph, a drawn predictor, and those that are sent with it."""
        state, shares = self._state, np.zeros(self._prices.size)
        graph_of.plan_round(state, self._rules, self._prices, float(self._budgets[server_round - 1]), self._plan)
        self._node = graph_of.drawn_model(self._plan.probabilities, self._draws.random())
        graph_of.fill_shares(state, self._node, shares)
        sent = np.flatnonzero(state.graph[self._node])
        return self._sending(sent, shares[sent], {})

    def learn(self, server_round: int, replies: list[Reply]) -> Arrays:
        """(6) to (9)."""
        playing = [reply for reply in replies if reply.examples > 0]
        losses, of_ensemble, errors = np.zeros(self._prices.size), 0.0, 0.0
        for reply in playing:
            losses[self._sent] += self._numbers(reply, key.MODEL_LOSSES)
            of_ensemble += reply.facts[key.ENSEMBLE_LOSS]
            errors += reply.facts[key.SQUARED_ERROR]
        if playing:
            share = len(playing) if self._rules.means else 1
            graph_of.learn(self._state, self._rules, self._plan, self._node, losses / share, of_ensemble / share)
        self.squared_errors.append(errors / len(playing) if playing else float("nan"))
        weights = np.exp(self._state.log_weights)
        return self._whole(weights / weights.sum())
