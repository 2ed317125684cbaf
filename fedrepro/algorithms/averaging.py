"""What the averaging algorithms share: clients that are drawn, batches that they make, local steps, and the record.

Draws are keyed by seed, client and round and never by the algorithm: FedAvg, SCAFFOLD, AgnosticFedAvg and ApproxFedAvg
with the same seed see the same clients and the same batches.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_known, check_positive, checked_clients, evaluation_steps
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import optimisers
from fedrepro.kernels.local_batches import fill_shuffled
from fedrepro.kernels.yogi import yogi_step
from fedrepro.models.local import LocalProblem, on_clients
from fedrepro.models.problem import Model, Problem
from fedrepro.streams import stream
from fedrepro.trace import Recorder, Trace

CLIENT_OPTIMISERS = {
    "sgd": optimisers.SGD,
    "momentum": optimisers.MOMENTUM,
    "adagrad": optimisers.ADAGRAD,
    "adam": optimisers.ADAM,
}
SERVER_OPTIMISERS = (*CLIENT_OPTIMISERS, "yogi")

Weigh = Callable[[np.ndarray, np.ndarray], np.ndarray]  # from w and the rows of a batch to the samples' weights


class Optimiser:
    """CLIENTOPT or SERVEROPT: makes steps from gradients, and remembers what its rule needs.

    Parameters
    ----------
    name
        One of `SERVER_OPTIMISERS`.
    w
        The parameters before the first step.
    step, momentum
        Step size, and the share of the velocity that ``"momentum"`` keeps.
    """

    def __init__(self, name: str, w: np.ndarray, step: float, momentum: float = 0.9):
        self._number = CLIENT_OPTIMISERS.get(name, optimisers.ADAM)  # Yogi remembers what Adam does
        self._yogi = name == "yogi"
        self._memory = optimisers.new_memory(self._number, w)
        self._step, self._momentum, self._done = float(step), float(momentum), 0

    def step(self, w: np.ndarray, gradient: np.ndarray) -> None:
        """Change w in place."""
        self._done += 1
        if self._yogi:
            yogi_step(w, gradient, *self._memory, self._step, float(self._done))
        else:
            optimisers.optimiser_step(
                self._number, w, gradient, self._memory, self._step, self._momentum, float(self._done)
            )


class Clients:
    """The clients of a federation at work on a model.

    Attributes
    ----------
    problem
        The model on the data of the federation.
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
    ):
        self.federation, self._seed = federation, seed
        self._epochs, self._local_steps = _checked_length(epochs, local_steps)
        if batch is not None:
            check_count("batch", batch)
        self._batch = None if batch is None else int(batch)
        self.count = checked_clients(clients_per_round, federation.n_clients)
        self.weights = federation.client_weights
        self._check_domains()
        self.problem = on_clients(model, federation)
        self._keys: tuple[int, np.ndarray] = (-1, np.empty(0, dtype=np.uint64))  # of the round that was asked for last

    def drawn(self, t: int) -> np.ndarray:
        """The clients of round t, in ascending order: each set of c clients is equally likely."""
        everyone = self.federation.n_clients
        if self.count == everyone:
            return np.arange(everyone)
        chosen = stream("averaging", "sampling", self._seed, round=t).choice(everyone, self.count, replace=False)
        return np.sort(chosen)

    def keys(self, t: int) -> np.ndarray:
        """What decides how each client shuffles its samples in round t, whoever takes part."""
        if self._keys[0] != t:
            generator = stream("averaging", "batch", self._seed, round=t)
            self._keys = t, generator.integers(0, 2**64, size=self.federation.n_clients, dtype=np.uint64)
        return self._keys[1]

    def rows(self, i: int) -> np.ndarray:
        """S_i, the samples of client i."""
        return np.arange(self.federation.offsets[i], self.federation.offsets[i + 1])

    def batches(self, i: int, t: int) -> list[np.ndarray]:
        """The rows of each local step of client i in round t.

        The samples are split into batches once a round, and every epoch goes through the same batches; the last one
        may be smaller. A number of local steps goes through them again and again.
        """
        split = self._split(i, t)
        if self._local_steps is None:
            return split * self._epochs
        return [split[k % len(split)] for k in range(self._local_steps)]

    def _split(self, i: int, t: int) -> list[np.ndarray]:
        rows = self.rows(i)
        if self._batch is None or self._batch >= rows.size:
            return [rows]
        order = np.empty(rows.size, dtype=np.int64)
        fill_shuffled(self.keys(t)[i], rows[0], order)
        return [order[at : at + self._batch] for at in range(0, order.size, self._batch)]

    def steps_of(self, i: int) -> int:
        """τ_i, the number of local steps of client i."""
        if self._local_steps is not None:
            return self._local_steps
        size = int(self.federation.sizes[i])
        return self._epochs * (1 if self._batch is None else -(-size // self._batch))

    def averages_at_once(self) -> bool:
        """Whether the model trains all clients of a round in one call."""
        return hasattr(self.problem, "averaged_change")

    def averaged_change(self, x: np.ndarray, chosen: np.ndarray, t: int, step: float) -> np.ndarray:
        """The mean of what plain local steps of the chosen clients change in round t, by their weights."""
        length = self._batch, self._epochs, self._local_steps
        return self.problem.averaged_change(
            x, self.federation.offsets, chosen, self.weights[chosen], self.keys(t), *length, step
        )

    def domain_sums(self, w: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        """|S_i ∩ D_k| · L(w, S_i ∩ D_k) and |S_i ∩ D_k| for every domain k."""
        rows = self.rows(i)
        domains, p = self.federation.domains[rows], self.federation.n_domains
        sums = np.bincount(domains, self.problem.sample_losses(w, rows), minlength=p)
        return sums, np.bincount(domains, minlength=p).astype(np.float64)

    def _check_domains(self) -> None:
        present = np.bincount(self.federation.domains, minlength=self.federation.n_domains)
        if present.min() == 0:
            empty = self.federation.domain_names[int(np.argmin(present))]
            raise UserError(f"The domain {empty!r} has no samples: leave it out.")


def evenly(w: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The weights of a batch's mean loss."""
    return np.full(rows.size, 1.0 / rows.size)


def descend(
    problem: LocalProblem,
    w: np.ndarray,
    batches: Sequence[np.ndarray],
    step: float,
    weigh: Weigh = evenly,
    *,
    correction: np.ndarray | None = None,
) -> np.ndarray:
    """Where plain local steps lead from w, one for each batch: w ← w - step (Σ_j weights_j ∇ℓ_j + correction).

    Parameters
    ----------
    problem, w, batches, step
        What is learned, from where, on which rows, with which step size.
    weigh
        The weights of the samples of a batch. They do not depend on w where the model takes all steps at once.
    correction
        What is added to every gradient; None for nothing.
    """
    if hasattr(problem, "descend"):
        return problem.descend(w, batches, [weigh(w, rows) for rows in batches], step, correction)
    return descend_one_by_one(problem, w, batches, step, weigh, correction)


def descend_one_by_one(
    problem: LocalProblem,
    w: np.ndarray,
    batches: Sequence[np.ndarray],
    step: float,
    weigh: Weigh,
    correction: np.ndarray | None = None,
) -> np.ndarray:
    """The same for any model, and for weights that depend on w."""
    local = w.copy()
    for rows in batches:
        gradient = problem.gradient(local, rows, weigh(local, rows).astype(local.dtype))
        if correction is not None:
            gradient = gradient + correction
        local -= local.dtype.type(step) * gradient
    return local


class Journal:
    """The record of a run: what was learned after the rounds that are evaluated, and all scalars that went by.

    Parameters
    ----------
    clients, rounds
        The run.
    evaluate, test, training_losses
        As the algorithms' own parameters.
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
    ):
        check_count("rounds", rounds)
        self._problem = clients.problem if training_losses else None
        self._examiner = None if test is None else _problem_of_test(model, clients, test)
        self._due = set(evaluation_steps(evaluate, rounds))
        self._recorder = Recorder()
        self._sent = self._received = 0.0

    def count(self, *, sent: float, received: float) -> None:
        """Scalars that the server sent and received."""
        self._sent += sent
        self._received += received

    def enter(self, t: int, w: np.ndarray, **more: np.ndarray) -> None:
        """What there is after t rounds; written down where it is due."""
        if not np.all(np.isfinite(w)):
            raise UserError(f"The parameters are no longer finite after {t} rounds: choose a smaller step.")
        if t not in self._due:
            return
        found = {} if self._problem is None else {"loss": self._problem.domain_losses(w)}
        if self._examiner is not None:
            found |= {f"test_{name}": values for name, values in self._examiner.metrics(w).items()}
        for name, values in found.items():
            if not np.all(np.isfinite(values)):
                raise UserError(f"{name} is no longer finite after {t} rounds: choose a smaller step.")
        self._recorder.row(round=float(t), **found, **more, sent=self._sent, received=self._received)

    def trace(self, final: Mapping[str, np.ndarray]) -> Trace:
        """The whole record."""
        return self._recorder.trace(final)


def check_optimisers(client_optimiser: str, server_optimiser: str) -> None:
    """Both names are known; clients do not use Yogi."""
    check_known("client_optimiser", client_optimiser, CLIENT_OPTIMISERS)
    check_known("server_optimiser", server_optimiser, SERVER_OPTIMISERS)


def check_steps(**steps: float) -> None:
    """The step sizes are positive."""
    for name, value in steps.items():
        check_positive(name, value)


def _checked_length(epochs: int | None, local_steps: int | None) -> tuple[int | None, int | None]:
    if (epochs is None) == (local_steps is None):
        raise UserError("Give either epochs or local_steps (and None for the other): they say how long clients train.")
    if epochs is not None:
        check_count("epochs", epochs)
        return int(epochs), None
    check_count("local_steps", local_steps)
    return None, int(local_steps)


def _problem_of_test(model: Model, clients: Clients, test: Federation) -> Problem:
    if test.domain_names != clients.federation.domain_names:
        raise UserError("The test data must have the domains of the federation, under the same names.")
    examiner = on_clients(model, test)
    if examiner.n_parameters != clients.problem.n_parameters:
        raise UserError("The test data must have the features of the federation: the model has another size on them.")
    return examiner
