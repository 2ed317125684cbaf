"""Invariant Risk Minimisation Games: environments that play for an ensemble which none of them would change alone.

Kartik Ahuja, Karthikeyan Shanmugam, Kush R. Varshney, Amit Dhurandhar. Invariant Risk Minimization Games. ICML 2020
(arXiv:2002.04692); and Sharut Gupta, Kartik Ahuja, Mohammad Havaei, Niladri Chatterjee, Yoshua Bengio. FL Games: A
Federated Learning Framework for Distribution Shifts. 2022 (arXiv:2205.11101): the survey's references [1] and [4].

Every environment k has a predictor w_k; all use their mean, on a representation Φ that they share. Environment k seeks

    min over w_k of R_k( (w_k + Σ_{q ≠ k} w_q) / K ∘ Φ ),

and at an equilibrium the mean predictor is one that every environment would choose. *F-IRM* keeps Φ the identity;
*V-IRM* learns it on the sum of all risks, here their mean (which scales its step).

On a federation of one's own::

    from fedrepro import Federation
    from fedrepro.algorithms import irm_games
    from fedrepro.models import MLP
    federation = Federation.from_arrays(x, y, domains=device)
    network = MLP(2, hidden=(64,))
    trace = irm_games(federation, network, rounds=500, step=0.001)  # F-IRM
    trace = irm_games(federation, network, rounds=500, step=0.001, representation=1)  # V-IRM
    trace = irm_games(federation, network, rounds=500, step=0.001, response="parallel", buffer=5)  # FL Games

Where it comes from; no code was taken over. The objective: Section 4 of Ahuja et al. The order of turns (one step of
Adam of one player, the representation's turn first, with a tenth of the step), and the rule that ends a run where the
training accuracy falls below a threshold: their public code (github.com/IBM/OoD, IRM_games/IRM_methods.py; the
dropout layers there do nothing, as they are called without ``training``). That players may move at once, and respond
to past predictors of the others as well, 1/|B_p| Σ_j w_{p,j} for each of them, and that Φ may take steps on all
samples: FL Games, from a public summary of it, as its text and code were not at hand. Ours: minibatches are drawn with
replacement, the rule of ending looks at a sample of the training data, and predictions are those of the mean of the
present predictors, with and without buffers.
"""

from collections.abc import Sequence

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_known, check_positive, evaluation_steps
from fedrepro.algorithms.averaging.rounds import Optimiser
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.checks import is_number
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels.optimisers import OPTIMISERS
from fedrepro.models.averaged import AveragedNetwork, AveragedProblem
from fedrepro.models.networks import Network
from fedrepro.models.problem import Model, problem_of
from fedrepro.models.trained.parametric import Parametric
from fedrepro.streams import stream
from fedrepro.trace import Callback, Recorder, Trace

RESPONSES = ("sequential", "parallel")
SLOWER = 0.1  # the representation's step, as a share of the predictors'


@checked
def irm_games(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float,
    representation: int = 0,
    step_representation: float | None = None,
    response: str = "sequential",
    buffer: int = 0,
    batch: int = 256,
    representation_batch: int | None = 256,
    optimiser: str = "adam",
    momentum: float = 0.9,
    l2: float = 0.0,
    stop_below: float | None = None,
    warm_up: int = 100,
    watched: int = 2048,
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train an ensemble with one predictor for each environment, by best responses.

    Parameters
    ----------
    federation, model
        The data, whose domains are the players, and the network that each of them has: `MLP` or `CNN`.
    rounds
        How many turns are played.
    step, optimiser, momentum
        Of a player's step, one in each of its turns.
    representation, step_representation
        How many of the first layers all players share and learn together (0: F-IRM), and the size of these steps, by
        default a tenth of the players'.
    response
        ``"sequential"``: in a turn one player moves, or the representation, one after the other; ``"parallel"`` (FL
        Games): all players move at once, knowing the others of the turn before, and the representation in every other
        turn.
    buffer
        To how many past predictors of each other player one responds besides the present one; 0: none.
    batch, representation_batch
        Samples of each environment for a step of its player, and of the representation; None: all of them.
    l2
        Adds ``l2 / 2 · |·|²`` of what moves to its objective.
    stop_below, warm_up, watched
        The game ends when, after ``warm_up`` turns, the training accuracy falls below this share; it is measured on so
        many training samples. None: it does not end.
    evaluate, test
        How many times the losses are evaluated, or after which turns; and data on which they are evaluated as well,
        whose domains may be others.
    callbacks
        Functions that are called after every evaluated turn (`fedrepro.callbacks`).
    seed
        Varies minibatches and the initial networks.

    Returns
    -------
    Trace
        Columns ``round`` (turns, whether or not the game has ended before), ``played`` (turns that were played),
        ``loss`` and ``accuracy`` of each environment, with ``test`` also ``test_loss`` and ``test_accuracy``; ``sent``
        and ``received`` (scalars, by the server, cumulative): whoever moves gets all predictors and the representation,
        and returns its own predictor, or a gradient of the representation. ``final`` holds ``w`` and ``played``.
    """
    _check(rounds, step, step_representation, response, buffer, batch, representation_batch, optimiser, momentum, l2)
    _check_end(stop_below, warm_up, watched)
    check_count("representation", representation, least=0)
    problem_of(model, federation)  # what is no model is told
    if not isinstance(model, Network):
        raise UserError("irm_games averages outputs of networks: give it an MLP or a CNN.")
    if federation.n_domains < 2:
        raise UserError("A game needs players: give the federation at least two domains.")
    ensemble = AveragedNetwork(model, federation.n_domains, representation)
    game = _Game(
        ensemble.on(federation), federation, step, step_representation or SLOWER * step, response == "parallel",
        buffer, batch, representation_batch, optimiser, momentum, l2, seed,
    )  # fmt: skip
    on_test = None if test is None else _problem_on_test(ensemble, game.problem, test)
    recorder = Recorder(federation.domain_names, None if test is None else test.domain_names, callbacks)
    watching = _watched(federation, int(watched), seed)
    done, ended = 0, False
    if (saved := recorder.resumed()) is not None:
        done, ended = saved["done"], saved["ended"]
        game.restore(saved["game"])

    def reached() -> dict:
        return {"done": done, "ended": ended, "game": game.state()}

    for stop in recorder.due(evaluation_steps(evaluate, rounds)):
        while done < stop and not ended:
            game.turn()
            done += 1
            _check_finite(game.w, game.played)
            if stop_below is not None and game.played >= warm_up:
                ended = game.problem.accuracy(game.w, watching) < stop_below
        done = stop
        row = game.problem.metrics(game.w)
        if on_test is not None:
            row |= {f"test_{name}": values for name, values in on_test.metrics(game.w).items()}
        sent, received = game.traffic
        recorder.row(round=float(done), played=float(game.played), **row, sent=float(sent), received=float(received))
        recorder.tell(reached)
    return recorder.trace(final={"w": game.w, "played": float(game.played)}, model=Parametric.of(ensemble))


class _Game:
    """The players' predictors, what they remember of each other, and whose turn it is."""

    def __init__(
        self, problem: AveragedProblem, federation: Federation, step, slower, parallel, buffer, batch,
        representation_batch, optimiser, momentum, l2, seed,
    ):  # fmt: skip
        self.problem, self.w, self.played, self.traffic = problem, problem.initial(seed), 0, np.zeros(2)
        players = problem.members
        self._rows = [np.flatnonzero(federation.domains == k) for k in range(players)]
        self._draws = [stream("irm_games", "batch", seed, client=k) for k in range(players)]
        self._own = [Optimiser(optimiser, self.w[problem.own(k)], step, momentum) for k in range(players)]
        self._shared = Optimiser(optimiser, self.w[: problem.boundary], slower, momentum)
        size = problem.own(0).stop - problem.own(0).start
        self._past = np.zeros((players, int(buffer), size), dtype=np.float32)  # the newest first
        self._remembered = np.zeros(players, dtype=np.int64)
        self._parallel, self._batch, self._of_shared, self._l2 = parallel, batch, representation_batch, l2

    def turn(self) -> None:
        """The next turn: of one player, of all players, or of the representation."""
        players, learns = self.problem.members, self.problem.boundary > 0
        turns = (1 if self._parallel else players) + learns
        place = self.played % turns
        if learns and place == 0:
            self._represent()
        elif self._parallel:
            self._respond(range(players))
        else:
            self._respond([place - learns])
        self.played += 1

    def state(self) -> dict:
        """What the next turns depend on."""
        arrays = [self.w, self.traffic, self._draws, self._past, self._remembered]
        return {"played": self.played, "arrays": arrays, "own": [one.state() for one in self._own],
                "shared": self._shared.state()}  # fmt: skip

    def restore(self, saved: dict) -> None:
        """Go on where another game stood."""
        self.played = saved["played"]
        restore([self.w, self.traffic, self._draws, self._past, self._remembered], saved["arrays"])
        for one, of_saved in zip(self._own, saved["own"], strict=True):
            one.restore(of_saved)
        self._shared.restore(saved["shared"])

    def _respond(self, players: Sequence[int]) -> None:
        """Each of the players makes a step, knowing what the others were before."""
        before = self.w.copy()
        for k in players:
            rows, own = self._drawn(k, self._batch), self.problem.own(k)
            weights = np.full(rows.size, 1.0 / rows.size)
            gradient = self.problem.of_member(before, k, rows, weights, self._others(before, k))
            self._own[k].step(self.w[own], gradient + np.float32(self._l2) * before[own])
        for k in players:
            self._remember(k, before[self.problem.own(k)])
        everything = self.w.size
        own = self.problem.own(0)
        self.traffic += len(players) * np.array([everything, own.stop - own.start])

    def _represent(self) -> None:
        """A step of the representation on the mean of all risks."""
        drawn = [self._drawn(k, self._of_shared) for k in range(self.problem.members)]
        weights = np.concatenate([np.full(rows.size, 1.0 / (rows.size * len(drawn))) for rows in drawn])
        shared = self.w[: self.problem.boundary]
        gradient = self.problem.of_shared(self.w, np.concatenate(drawn), weights)
        self._shared.step(shared, gradient + np.float32(self._l2) * shared)
        self.traffic += len(drawn) * np.array([self.w.size, self.problem.boundary])

    def _others(self, w: np.ndarray, k: int) -> list[tuple[np.ndarray, float]]:
        """To whom player k responds: the others as they are, and the mean of what each of them was."""
        found = []
        for other in range(self.problem.members):
            if other == k:
                continue
            found.append((w[self.problem.own(other)], 1.0))
            known = int(self._remembered[other])
            # A buffer that is not full is filled up with weight 0: one number of networks is compiled.
            found += [(past, 1.0 / known if at < known else 0.0) for at, past in enumerate(self._past[other])]
        return found

    def _remember(self, k: int, predictor: np.ndarray) -> None:
        room = self._past.shape[1]
        if room:
            self._past[k, 1:] = self._past[k, :-1].copy()
            self._past[k, 0] = predictor
            self._remembered[k] = min(room, self._remembered[k] + 1)

    def _drawn(self, k: int, batch: int | None) -> np.ndarray:
        rows = self._rows[k]
        return rows if batch is None else rows[(self._draws[k].random(int(batch)) * rows.size).astype(np.int64)]


def _watched(federation: Federation, count: int, seed: int) -> np.ndarray:
    """Training samples on which the accuracy is watched."""
    order = stream("irm_games", "sampling", seed).permutation(len(federation))
    return np.sort(order[:count])


def _problem_on_test(model: AveragedNetwork, problem: AveragedProblem, test: Federation) -> AveragedProblem:
    on_test = model.on(test)
    if on_test.n_parameters != problem.n_parameters:
        raise UserError("The test data must have the features of the federation: the model has another size on them.")
    return on_test


def _check_finite(w: np.ndarray, played: int) -> None:
    if not np.isfinite(w).all():
        raise UserError(f"The parameters are no longer finite after {played} turns: choose a smaller step.")


def _check(rounds, step, slower, response, buffer, batch, representation_batch, optimiser, momentum, l2) -> None:
    check_count("rounds", rounds)
    check_positive("step", step)
    check_known("response", response, RESPONSES)
    check_known("optimiser", optimiser, OPTIMISERS)
    check_count("buffer", buffer, least=0)
    check_count("batch", batch)
    if slower is not None:
        check_positive("step_representation", slower)
    if representation_batch is not None:
        check_count("representation_batch", representation_batch)
    if not (np.isfinite(l2) and l2 >= 0):
        raise UserError(f"l2={l2} is not a finite number of at least 0.")
    if not 0 <= momentum < 1:
        raise UserError(f"momentum={momentum} is not a share: choose from 0 to below 1.")


def _check_end(stop_below, warm_up, watched) -> None:
    check_count("warm_up", warm_up, least=0)
    check_count("watched", watched)
    if stop_below is not None and not (is_number(stop_below) and 0 < stop_below <= 1):
        raise UserError(f"stop_below={stop_below} is not a share above 0: the least training accuracy to go on with.")
