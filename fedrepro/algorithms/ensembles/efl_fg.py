"""EFL-FG: an ensemble of pre-trained models of which each round sends what a budget allows.

Pouya M. Ghari, Yanning Shen. Graph-Assisted Communication-Efficient Ensemble Federated Learning. 2022,
arXiv:2202.13447. Algorithms 1 and 2 are compiled, in `fedrepro.kernels.feedback_graph` and `fedrepro.kernels.efl_fg`.

`efl_fg` runs on a federation whose models' predictions are known; `OnlineEnsemble` serves a user's own models while
samples arrive. Both call the same kernels.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrepro.algorithms.arguments import check_known, check_positive, checked_costs, chosen
from fedrepro.algorithms.ensembles.streaming import (
    SampleStream,
    budgets_of_rounds,
    evaluated,
    running_mean,
    sample_stream,
)
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import efl_fg as rounds_of
from fedrepro.models.ensemble import Ensemble
from fedrepro.models.trained.mixture import Mixture
from fedrepro.streams import stream
from fedrepro.trace import Callback, Recorder, Trace

LARGEST_EXACT = 64  # models up to which the independence number is computed


def regret_bound(
    *,
    models: int,
    first_neighbours: int,
    inverse_observed: float,
    rounds: int,
    clients: int,
    rate: float,
    exploration: float,
    corrected: bool = True,
) -> float:
    """Theorem 1: the right side of (11).

    Parameters
    ----------
    models, rounds, clients, rate, exploration
        K, T, N, η and ξ.
    first_neighbours
        |N_{k*,1}|: how many out-neighbours the best model has in the first round.
    inverse_observed
        The sum over the rounds of 1/q̄_{k*,t}.
    corrected
        Exploring costs up to N per round and not up to 1: ξ(N − ηN²/2) in place of the printed ξ(1 − ηN²/2).
    """
    exploring = exploration * ((clients if corrected else 1) - rate / 2 * clients**2)
    learning = rate / 2 * clients**2
    return (
        math.log(models * first_neighbours) / rate
        + rounds * (exploring + learning * models)
        + (learning * inverse_observed)
    )


@checked
def efl_fg(
    federation: Federation,
    ensemble: Ensemble,
    *,
    budget: float | Sequence[float],
    costs: Sequence[float] | np.ndarray | None = None,
    rounds: int | None = None,
    rate: float | None = None,
    exploration: float | None = None,
    limit: str = "current",
    losses: str = "sum",
    theory: bool = False,
    replay: bool = False,
    participants: int | None = None,
    evaluate: int | Sequence[int] = 50,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Learn which models to send by EFL-FG, under the squared loss clipped at 1.

    Parameters
    ----------
    federation, ensemble
        A client's samples arrive in their order, one per round; the ensemble holds the models' predictions on them
        (`fedrepro.models.ensemble.from_predictions`).
    budget
        B, or one B_t per round; it must pay for every model alone (assumption a3).
    costs
        Cost of sending each model (one each by default).
    rounds
        How many rounds; by default until the samples are used up.
    rate, exploration
        η and ξ; by default 1/√T, as in Section IV.
    limit
        What a neighbourhood may weigh in (2). ``"current"``: as much as last round's neighbourhood weighs now, which is
        what the proof needs; ``"value"``: as much as it weighed in the last round; ``"none"``: no limit.
    losses
        ``"sum"``: (6) and (8) as printed, sums over the clients; ``"mean"``: means over them.
    theory
        Also record the regret (10), the bound (11) and the independence number of each graph (at most 64 models).
    replay
        Whether more rounds may be asked for than there are: rounds are then played again, drawn at random.
    participants
        How many clients the server draws in each round (Section II), uniformly; by default all take part.
    evaluate
        How many rounds, or which, have a row in the trace.
    callbacks
        Functions that are called after every evaluated round (`fedrepro.callbacks`).
    seed
        Varies which models and which clients are drawn.

    Returns
    -------
    Trace
        Columns ``round``, ``mse`` (MSE_t of eq. 14), ``cost``, ``models`` and ``dominating`` (cost and number of the
        models sent in that round, size of the dominating set), ``weights`` (w, summing to 1), ``sent`` (cost, by the
        server to all clients, cumulative), ``received`` (losses, cumulative); with ``theory`` also ``regret``,
        ``bound``, ``printed_bound``, ``independence``. ``final`` holds for every round ``costs`` and ``budgets``
        (with ``theory`` also ``independence`` and ``dominating``), the last ``graph`` (with its ``probabilities``),
        and ``clipped``: how many of the losses that clients reported were above 1 and were counted as 1.
    """
    played_again = stream("efl_fg", "batch", seed) if replay else None
    arriving = sample_stream(federation, ensemble, rounds, played_again, participants, seed)
    prices = checked_costs(costs, len(ensemble))
    budgets = budgets_of_rounds(budget, arriving.rounds)
    check_affordable(prices, budgets.min())
    if theory and prices.size > LARGEST_EXACT:
        raise UserError(f"theory=True is for at most {LARGEST_EXACT} models: the independence number is exact.")
    rules = _rules(
        1 / math.sqrt(arriving.rounds) if rate is None else rate,
        1 / math.sqrt(arriving.rounds) if exploration is None else exploration,
        limit,
        losses,
    )
    run = _Run(arriving, prices, budgets, rules, theory, stream("efl_fg", "sampling", seed))
    recorder = Recorder(callbacks=callbacks)
    if (saved := recorder.resumed()) is not None:
        run.restore(saved)
    for stop in recorder.due(evaluated(evaluate, arriving.rounds).tolist()):
        run.advance(stop)
        recorder.row(**run.row())
        recorder.tell(run.reached)
    return recorder.trace(run.final(), model=Mixture.of("weights", ensemble, "squared"))


class _Run:
    """A run on a stream: where it stands, and what it has recorded so far."""

    def __init__(self, arriving: SampleStream, costs, budgets, rules, theory: bool, draws: np.random.Generator):
        rounds, size = arriving.rounds, costs.size
        of_rounds, of_models = (rounds, size) if theory else (0, 0)
        self.arriving, self.costs, self.budgets, self.rules = arriving, costs, budgets, rules
        self.state, self.plan = rounds_of.start(size), rounds_of.new_plan(size)
        self.uniforms, self.done = draws.random(rounds), 0
        self.record = rounds_of.Record(
            squared_error=np.zeros(rounds),
            cost=np.zeros(rounds),
            sent=np.zeros(rounds, np.int64),
            dominating=np.zeros(rounds, np.int64),
            clipped=np.zeros(1, np.int64),
            expected_loss=np.zeros(of_rounds),
            independence=np.zeros(of_rounds, np.int64),
            model_losses=np.zeros(of_models),
            inverse_observed=np.zeros(of_models),
            first_neighbours=np.zeros(of_models, np.int64),
        )

    def reached(self) -> dict:
        """What is needed to go on from here."""
        return {"done": self.done, "changing": [self.state, self.plan, self.record]}

    def restore(self, saved: dict) -> None:
        """Go on where another run stood."""
        self.done = saved["done"]
        restore([self.state, self.plan, self.record], saved["changing"])

    def advance(self, stop: int) -> None:
        """Play the rounds up to ``stop``, in one compiled call."""
        here = slice(self.done, stop)
        part = rounds_of.Rounds(
            self.arriving.predictions,
            self.arriving.targets,
            self.arriving.first[here],
            self.arriving.last[here],
            self.budgets[here],
            self.uniforms[here],
        )
        by_round = ("squared_error", "cost", "sent", "dominating", "expected_loss", "independence")
        record = self.record._replace(**{name: getattr(self.record, name)[here] for name in by_round})
        rounds_of.efl_fg_rounds(part, self.rules, self.costs, self.state, self.plan, record)
        self.done = stop

    def row(self) -> dict:
        """The trace's row of the last round that was played."""
        last, clients = self.done - 1, self.arriving.clients[: self.done]
        record = self.record
        weights = np.exp(self.state.log_weights)
        values = {
            "round": self.done,
            "mse": running_mean(record.squared_error[: self.done], clients)[-1],
            "cost": record.cost[last],
            "models": record.sent[last],
            "dominating": record.dominating[last],
            "weights": weights / weights.sum(),
            "sent": float(record.cost[: self.done] @ clients),
            "received": float((record.sent[: self.done] + 1) @ clients),
        }
        return values | (self._theory(last) if record.expected_loss.size else {})

    def _theory(self, last: int) -> dict:
        record, best = self.record, int(np.argmin(self.record.model_losses))
        known = {
            "models": self.costs.size,
            "first_neighbours": int(record.first_neighbours[best]),
            "inverse_observed": float(record.inverse_observed[best]),
            "rounds": self.done,
            "clients": 1 if self.rules.means else int(self.arriving.clients.max()),
            "rate": self.rules.rate,
            "exploration": self.rules.exploration,
        }
        return {
            "regret": float(record.expected_loss[: self.done].sum() - record.model_losses[best]),
            "bound": regret_bound(**known),
            "printed_bound": regret_bound(**known, corrected=False),
            "independence": record.independence[last],
        }

    def final(self) -> dict:
        """What the run leaves behind."""
        left = {
            "costs": self.record.cost[: self.done],
            "budgets": self.budgets[: self.done],
            "graph": self.state.graph,
            "probabilities": self.plan.probabilities,
            "clipped": int(self.record.clipped[0]),
        }
        if not self.record.independence.size:
            return left
        of_rounds = {name: getattr(self.record, name)[: self.done] for name in ("independence", "dominating")}
        return left | of_rounds


# --- a user's own models -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """What a round sends to its clients.

    Attributes
    ----------
    models
        Names of the models.
    weights
        Their weights in the ensemble (5); they sum to 1.
    cost, budget
        What they cost, and what they may cost.
    """

    models: tuple[str, ...]
    weights: np.ndarray
    cost: float
    budget: float


@dataclass(frozen=True)
class Played:
    """What a round has shown: the ensemble's mean loss over its clients, how many they are, and the clipped losses."""

    loss: float
    clients: int
    clipped: int


def squared_loss(prediction: float, target: float) -> float:
    """(ŷ − y)²."""
    return (prediction - target) ** 2


class OnlineEnsemble:
    """EFL-FG for your own models: any callables with costs, a stream of samples, a budget that may change.

    Parameters
    ----------
    models
        Name to callable; a callable takes one x and returns a number.
    costs
        Name to the cost of sending that model.
    rate, exploration
        η > 0 and ξ in (0, 1]; the paper takes 1/√T for both.
    limit, losses
        As in `efl_fg`.
    loss
        ``loss(prediction, y)``, convex in the prediction. Theorem 1 needs it in [0, 1]: above 1 it counts as 1 (and is
        counted, see ``clipped``), below 0 it is an error.
    seed
        Varies which models are drawn.

    Examples
    --------
    >>> models = {"mean": lambda x: 0.5, "slope": lambda x: 0.9 * x}
    >>> online = OnlineEnsemble(models, {"mean": 0.1, "slope": 1.0}, rate=0.1, exploration=0.1)
    >>> trace = online.play(((client, x, x) for x in (0.1, 0.4, 0.8) for client in "ab"), budget=1.0)
    >>> len(trace), bool((trace["cost"] <= 1.0).all())
    (3, True)
    """

    @checked
    def __init__(
        self,
        models: Mapping[str, Callable[[Any], float]],
        costs: Mapping[str, float],
        *,
        rate: float,
        exploration: float,
        limit: str = "current",
        losses: str = "sum",
        loss: Callable[[float, float], float] = squared_loss,
        seed: int = 0,
    ):
        if not models:
            raise UserError("There is no model to send: give at least one callable.")
        if set(costs) != set(models):
            wrong = sorted({str(name) for name in set(costs) ^ set(models)})
            raise UserError(f"Models and costs have different names ({', '.join(wrong)}): give every model one cost.")
        self._models = dict(models)
        self._names = tuple(models)
        self._costs = checked_costs([costs[name] for name in models], len(models))
        self._rules = _rules(rate, exploration, limit, losses)
        self._loss = loss
        self._state, self._plan = rounds_of.start(len(models)), rounds_of.new_plan(len(models))
        self._draws = stream("efl_fg", "sampling", seed)
        self._node: int | None = None
        self._shares = np.zeros(len(models))
        self.clipped = 0

    @property
    def weights(self) -> dict[str, float]:
        """How much each model is trusted, summing to 1."""
        weights = np.exp(self._state.log_weights)
        return dict(zip(self._names, (weights / weights.sum()).tolist(), strict=True))

    @property
    def graph(self) -> dict[str, tuple[str, ...]]:
        """The last round's feedback graph: each model with what is sent when it is drawn."""
        rows = (np.flatnonzero(row) for row in self._state.graph)
        return {name: tuple(self._names[j] for j in row) for name, row in zip(self._names, rows, strict=True)}

    def send(self, budget: float) -> Sent:
        """Open a round: draw a model, and say which models its clients are sent."""
        if self._node is not None:
            raise UserError("A round is open: hand its samples to learn() before the next send().")
        budget = float(budgets_of_rounds(budget, 1)[0])
        check_affordable(self._costs, budget, self._names)
        rounds_of.plan_round(self._state, self._rules, self._costs, budget, self._plan)
        self._node = rounds_of.drawn_model(self._plan.probabilities, self._draws.random())
        rounds_of.fill_shares(self._state, self._node, self._shares)
        members = np.flatnonzero(self._state.graph[self._node])
        names = tuple(self._names[k] for k in members)
        return Sent(names, self._shares[members], float(self._costs[members].sum()), budget)

    def predict(self, x) -> float:
        """What the ensemble says about one x.

        While a round is open, that is the ensemble that was sent; between rounds, all models by their ``weights``,
        which may cost more than a budget allows.
        """
        shares = list(self.weights.values()) if self._node is None else self._shares
        return float(sum(shares[k] * value for k, value in self._predictions(x).items()))

    def learn(self, samples: Iterable[tuple[Any, Any, float]]) -> Played:
        """Close the round with its samples, ``(client, x, y)`` of each client that took part."""
        if self._node is None:
            raise UserError("No round is open: call send() first.")
        losses, ensemble_loss, clients, clipped = np.zeros(len(self._names)), 0.0, 0, self.clipped
        for _, x, y in samples:
            predictions = self._predictions(x)
            for k, value in predictions.items():
                losses[k] += self._checked_loss(value, y, f"model {self._names[k]!r}")
            mixed = sum(self._shares[k] * value for k, value in predictions.items())
            ensemble_loss += self._checked_loss(mixed, y, "the ensemble")
            clients += 1
        if clients == 0:
            raise UserError("A round needs at least one sample: leave out rounds in which no client takes part.")
        share = 1.0 / clients if self._rules.means else 1.0
        rounds_of.learn(self._state, self._rules, self._plan, self._node, share * losses, share * ensemble_loss)
        self._node = None
        return Played(ensemble_loss / clients, clients, self.clipped - clipped)

    def play(
        self,
        samples: Iterable[tuple[Any, Any, float]],
        budget: float | Iterable[float] | Callable[[int], float],
    ) -> Trace:
        """Play a stream of ``(client, x, y)`` to its end.

        Parameters
        ----------
        samples
            A round ends when a client comes for the second time.
        budget
            One number, an iterable with one per round, or a function from the round (1, 2, …) to its budget.

        Returns
        -------
        Trace
            One row per round: ``round``, ``loss`` (the mean over its clients, clipped), ``average_loss`` (over the
            rounds so far), ``cost``, ``budget``, ``models`` (their number), ``sent`` (cost times clients, cumulative),
            ``received`` (losses, cumulative), ``clipped`` (cumulative), ``weights``.
        """
        recorder, budgets = Recorder(), _budgets(budget)
        total_loss = sent_cost = received = 0.0
        number = 0
        for number, batch in enumerate(_rounds_of_stream(samples), start=1):
            try:
                sent = self.send(next(budgets))
            except StopIteration:
                raise UserError(f"There is no budget for round {number}: give one for every round.") from None
            played = self.learn(batch)
            total_loss += played.loss
            sent_cost += sent.cost * played.clients
            received += (len(sent.models) + 1) * played.clients
            recorder.row(
                round=number, loss=played.loss, average_loss=total_loss / number, cost=sent.cost, budget=sent.budget,
                models=len(sent.models), sent=sent_cost, received=received, clipped=self.clipped,
                weights=np.array(list(self.weights.values())),
            )  # fmt: skip
        if number == 0:
            raise UserError("The stream has no sample: there is nothing to learn from.")
        return recorder.trace()

    def _predictions(self, x) -> dict[int, float]:
        """What the sent models say about one x; between rounds, all of them."""
        found = {}
        asked = range(len(self._names)) if self._node is None else np.flatnonzero(self._state.graph[self._node])
        for k in asked:
            value = float(self._models[self._names[k]](x))
            if not math.isfinite(value):
                raise UserError(f"Model {self._names[k]!r} predicts {value}, which is not a finite number: fix it.")
            found[int(k)] = value
        return found

    def _checked_loss(self, prediction: float, y: float, who: str) -> float:
        loss = float(self._loss(prediction, y))
        if not (math.isfinite(loss) and loss >= 0):
            raise UserError(f"The loss of {who} is {loss}: it must be a number from 0 to 1 (above 1 counts as 1).")
        self.clipped += loss > 1.0
        return min(loss, 1.0)


def check_affordable(costs: np.ndarray, budget: float, names: Sequence[str] | None = None) -> None:
    """Assumption (a3): the budget pays for every model alone."""
    dearest = int(np.argmax(costs))
    if costs[dearest] > budget:
        who = f"number {dearest}" if names is None else repr(names[dearest])
        raise UserError(
            f"Model {who} costs {costs[dearest]:g} and the budget is {budget:g}: raise the budget or leave the model "
            "out (assumption a3)."
        )


def _rules(rate: float, exploration: float, limit: str, losses: str) -> rounds_of.Rules:
    check_positive("rate", rate)
    check_positive("exploration", exploration)
    if exploration > 1:
        raise UserError(f"exploration={exploration} is not a share: choose it above 0 and up to 1.")
    check_known("losses", losses, ("sum", "mean"))
    return rounds_of.Rules(float(rate), float(exploration), chosen("limit", limit, rounds_of.Limit), losses == "mean")


def _budgets(budget: float | Iterable[float] | Callable[[int], float]) -> Iterator[float]:
    if callable(budget):
        return map(budget, itertools.count(1))
    if isinstance(budget, Iterable):
        return iter(budget)
    return itertools.repeat(budget)


def _rounds_of_stream(samples: Iterable[tuple[Any, Any, float]]) -> Iterator[list[tuple[Any, Any, float]]]:
    """Groups of samples with at most one of each client."""
    batch: list[tuple[Any, Any, float]] = []
    seen = set()
    for client, x, y in samples:
        if client in seen:
            yield batch
            batch, seen = [], set()
        batch.append((client, x, y))
        seen.add(client)
    if batch:
        yield batch
