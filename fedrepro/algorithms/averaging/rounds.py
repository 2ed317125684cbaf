"""What the averaging algorithms share: clients that are drawn, the work that they get, and the record.

Draws are keyed by seed, client and round and never by the algorithm: with the same seed all of them see the same
clients and the same batches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_known, check_positive, checked_clients, evaluation_steps
from fedrepro.checks import is_number, shown
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import optimisers
from fedrepro.models.local_work import LocalWork
from fedrepro.models.problem import CLIENTS, Model, Problem, problem_of
from fedrepro.models.trained.parametric import Parametric
from fedrepro.streams import stream
from fedrepro.trace import Callback, Recorder, Trace, Trained


class Optimiser:
    """CLIENTOPT or SERVEROPT: makes steps from gradients, and remembers what its rule needs.

    Parameters
    ----------
    name
        One of `fedrepro.kernels.optimisers.OPTIMISERS`.
    w
        The parameters before the first step.
    step, momentum
        Step size, and the share of the velocity that ``"momentum"`` keeps.
    """

    def __init__(self, name: str, w: np.ndarray, step: float, momentum: float = 0.9):
        self._number = optimisers.Optimiser.number(name)
        self._memory = optimisers.new_memory(self._number, w)
        self._step, self._momentum, self._done = float(step), float(momentum), 0

    def state(self) -> dict:
        """What it remembers."""
        return {"memory": self._memory, "done": self._done}

    def restore(self, saved: Mapping) -> None:
        """Remember what another one did."""
        self._memory[...], self._done = saved["memory"], saved["done"]

    def step(self, w: np.ndarray, gradient: np.ndarray) -> None:
        """Change w in place."""
        self._done += 1
        optimisers.optimiser_step(
            self._number, w, gradient, self._memory, self._step, self._momentum, float(self._done)
        )


class Clients:
    """The clients of a federation at work on a model.

    Attributes
    ----------
    federation, problem
        The data, and the model on them.
    count
        c, how many clients take part in a round.
    weights
        p_i, the weight of each client in the objective.
    """

    def __init__(
        self,
        federation: Federation,
        model: Model,
        *,
        epochs: int | None,
        local_steps: int | None,
        batch: int | None,
        clients_per_round: int | None,
        seed: int,
        threads: int = 1,
    ):
        self.federation, self._seed = federation, seed
        self._epochs, self._local_steps = _checked_length(epochs, local_steps)
        if batch is not None:
            check_count("batch", batch)
        self._batch = None if batch is None else int(batch)
        self.count = checked_clients(clients_per_round, federation.n_clients)
        self.weights = federation.client_weights
        self.problem = problem_of(model, federation, CLIENTS)
        self._threads = _checked_threads(threads, model, self.problem)

    def drawn(self, t: int) -> np.ndarray:
        """The clients of round t, in ascending order: each set of c clients is equally likely."""
        everyone = self.federation.n_clients
        if self.count == everyone:
            return np.arange(everyone)
        chosen = stream("averaging", "sampling", self._seed, round=t).choice(everyone, self.count, replace=False)
        return np.sort(chosen)

    def uniforms(self, t: int, count: int) -> np.ndarray:
        """So many uniform numbers of round t, for what else an algorithm draws."""
        return stream("averaging", "sampling", self._seed, client=1, round=t).random(count)

    def probe(self, t: int, client: int) -> np.ndarray:
        """A batch of a client's samples in round t that is drawn apart from those that it trains on."""
        first, size = self.federation.offsets[client], int(self.federation.sizes[client])
        if self._batch is None or self._batch >= size:
            return np.arange(first, first + size)
        draws = stream("averaging", "batch", self._seed, client=client + 1, round=t)
        return first + draws.choice(size, self._batch, replace=False)

    def work(self, t: int, step: float) -> LocalWork:
        """What the clients of round t do. The shuffles of a client do not depend on who else takes part."""
        generator = stream("averaging", "batch", self._seed, round=t)
        keys = generator.integers(0, 2**64, size=self.federation.n_clients, dtype=np.uint64)
        return LocalWork(
            clients=self.drawn(t),
            offsets=self.federation.offsets,
            keys=keys,
            batch=self._batch,
            epochs=self._epochs,
            local_steps=self._local_steps,
            step=float(step),
            threads=self._threads,
        )


class Journal:
    """The record of a run: what was learned after the rounds that are evaluated, and all scalars that went by.

    Parameters
    ----------
    clients, rounds
        The run.
    evaluate, test, training_losses, callbacks
        As the algorithms' own parameters.
    entries_of
        As in `fedrepro.trace.Recorder`.
    """

    def __init__(
        self,
        clients: Clients,
        model: Model,
        *,
        rounds: int,
        evaluate: int | Sequence[int],
        test: Federation | None,
        training_losses: bool,
        callbacks: Sequence[Callback],
        entries_of: Mapping[str, Sequence[str]] | None = None,
    ):
        check_count("rounds", rounds)
        self._model, self._rounds = model, int(rounds)
        self._problem = clients.problem if training_losses else None
        self._problem_on_test = None if test is None else _problem_of_test(model, clients, test)
        self._due = set(evaluation_steps(evaluate, rounds))
        self._recorder = Recorder(clients.federation.domain_names, callbacks=callbacks, entries_of=entries_of)
        self._sent = self._received = 0.0
        self._resumed_at = -1

    def resumed(self) -> dict | None:
        """The state in which an earlier run ended, if this one goes on there."""
        saved = self._recorder.resumed()
        if saved is None:
            return None
        self._sent, self._received, self._resumed_at = saved["sent"], saved["received"], saved["done"]
        return saved["state"]

    def rounds(self) -> Iterator[int]:
        """The rounds that are to be run: 0, 1, … or from where an earlier run ended, until a callback stops them."""
        return self._recorder.going(range(max(0, self._resumed_at), self._rounds))

    def count(self, *, sent: float, received: float) -> None:
        """Scalars that the server sent and received."""
        self._sent += sent
        self._received += received

    def enter(
        self,
        t: int,
        w: np.ndarray,
        state: Callable[[], dict],
        measured: Callable[[], dict[str, np.ndarray]] = dict,
        **more: np.ndarray,
    ) -> None:
        """What there is after t rounds; written down where it is due.

        Parameters
        ----------
        t, w
            How many rounds are done, and the parameters.
        state
            Gives what the next round needs.
        measured, more
            Further columns: those that take time, worked out where they are due, and those that are at hand.
        """
        if not np.all(np.isfinite(w)):
            raise UserError(f"The parameters are no longer finite after {t} rounds: choose a smaller step.")
        if t not in self._due or t <= self._resumed_at:
            return
        found = {} if self._problem is None else {"loss": self._problem.client_metrics(w)["loss"]}
        if self._problem_on_test is not None:
            found |= {f"test_{name}": values for name, values in self._problem_on_test.client_metrics(w).items()}
        found |= measured()
        for name, values in found.items():
            if not np.all(np.isfinite(values)):
                raise UserError(f"{name} is no longer finite after {t} rounds: choose a smaller step.")
        self._recorder.row(round=float(t), **found, **more, sent=self._sent, received=self._received)
        self._recorder.tell(lambda: {"done": t, "sent": self._sent, "received": self._received, "state": state()})

    def trace(self, final: Mapping[str, np.ndarray], model: Trained | None = None) -> Trace:
        """The whole record; the parameters are those of one model for all, unless a ``model`` is given."""
        return self._recorder.trace(final, model=model or Parametric.of(self._model))


def begin(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    epochs: int | None,
    local_steps: int | None,
    batch: int | None,
    clients_per_round: int | None,
    evaluate: int | Sequence[int],
    test: Federation | None,
    training_losses: bool,
    threads: int,
    callbacks: Sequence[Callback],
    seed: int,
    entries_of: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Clients, Journal]:
    """The clients and the journal of a run, from the parameters that the averaging algorithms share."""
    clients = Clients(
        federation,
        model,
        epochs=epochs,
        local_steps=local_steps,
        batch=batch,
        clients_per_round=clients_per_round,
        seed=seed,
        threads=threads,
    )
    journal = Journal(
        clients,
        model,
        rounds=rounds,
        evaluate=evaluate,
        test=test,
        training_losses=training_losses,
        callbacks=callbacks,
        entries_of=entries_of,
    )
    return clients, journal


def mean_losses(losses: np.ndarray, work: LocalWork) -> np.ndarray:
    """F_k of the clients that train: the mean loss of each, from the sums by domain that local work gives."""
    return losses.sum(axis=1) / work.sizes()


def check_optimisers(client_optimiser: str, server_optimiser: str) -> None:
    """Both names are known."""
    check_known("client_optimiser", client_optimiser, optimisers.OPTIMISERS)
    check_known("server_optimiser", server_optimiser, optimisers.OPTIMISERS)


def check_not_negative(**values: float) -> None:
    """The values are finite numbers of at least 0."""
    for name, value in values.items():
        if not (is_number(value) and 0 <= value < np.inf):
            raise UserError(f"{name}={shown(value)} is not a finite number of at least 0.")


def check_steps(**steps: float) -> None:
    """The step sizes are positive."""
    for name, value in steps.items():
        check_positive(name, value)


def _checked_length(epochs: int | None, local_steps: int | None) -> tuple[int | None, int | None]:
    if epochs is not None and local_steps is None:
        check_count("epochs", epochs)
        return int(epochs), None
    if local_steps is not None and epochs is None:
        check_count("local_steps", local_steps)
        return None, int(local_steps)
    raise UserError("Give either epochs or local_steps (and None for the other): they say how long clients train.")


def _checked_threads(threads: int, model: Model, problem: Problem) -> int:
    check_count("threads", threads)
    if threads > 1 and not problem.threaded:
        raise UserError(
            f"threads={threads}: {type(model).__name__} trains its clients one after the other; logistic and softmax "
            "regression train them in threads."
        )
    return int(threads)


def _problem_of_test(model: Model, clients: Clients, test: Federation) -> Problem:
    if test.domain_names != clients.federation.domain_names:
        raise UserError("The test data must have the domains of the federation, under the same names.")
    on_test = problem_of(model, test)
    if on_test.n_parameters != clients.problem.n_parameters:
        raise UserError("The test data must have the features of the federation: the model has another size on them.")
    return on_test
