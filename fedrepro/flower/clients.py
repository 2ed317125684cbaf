"""Clients for Flower made from the models of fedrepro: regressions, networks, and those of scikit-learn, JAX, PyTorch.

Their batches are those that our engine draws for the same seed, so that a run on Flower has the engine's bits.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from fedrepro.algorithms.arguments import check_count, check_positive
from fedrepro.algorithms.averaging.rounds import _checked_length
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.flower import records as key
from fedrepro.flower.records import WEIGHTS, Arrays, floats, record_of
from fedrepro.flower.task import Task, answer_roll_call
from fedrepro.models.local_work import LocalWork
from fedrepro.models.problem import CLIENTS, DrawnBatches, Minibatch, Model, Problem, problem_of
from fedrepro.streams import stream

W = "w"  # the name of the one array of a model of fedrepro

Loader = Callable[[int, int], tuple]
Data = Federation | Loader


class Samples:
    """What a node has: the samples of its partition."""

    def __init__(self, data: Data, context: Context):
        self.partition, self.partitions = _place(context)
        x, y, domains = _part(data, self.partition, self.partitions)
        self.federation = Federation.from_arrays(x, y)  # the model needs no domains, and some may be absent here
        self.domains = np.zeros(len(y), dtype=np.int64) if domains is None else np.asarray(domains, dtype=np.int64)
        self.domains = self.domains.view()
        self.domains.flags.writeable = False  # as a federation's own: kernels are compiled once for both

    def __len__(self) -> int:
        return len(self.federation)


class _Work:
    """The samples of a node, and the model on them; made once."""

    def __init__(self, data: Data, model: Model, context: Context):
        self.samples, self._model = Samples(data, context), model

    @cached_property
    def problem(self) -> Problem:
        return problem_of(self._model, self.samples.federation, CLIENTS)


def client_app(
    data: Data,
    model: Model,
    *,
    step: float | None = None,
    epochs: int | None = 1,
    local_steps: int | None = None,
    batch: int | None = None,
    seed: int = 0,
) -> ClientApp:
    """A ClientApp that trains a model for `AgnosticFedAvg`, `ApproxFedAvg`, `Scaffold`, `AFL` or Flower's own FedAvg.

    Parameters
    ----------
    data
        A federation, whose j-th client is the node with ``partition-id`` j; or a function from a partition and the
        number of partitions to that node's ``x, y`` or ``x, y, domains``, with domains as numbers from 0.
    model
        What learns: a model of `fedrepro.models`, ``from_jax(…)``, ``from_torch(…)``, or one of your own.
    step, epochs, local_steps, batch
        How a node trains, as in `fedrepro.algorithms.fedavg`. AFL takes ``batch`` alone: its nodes make no steps.
    seed
        Varies the batches.
    """
    length = _checked_length(epochs, local_steps)
    if batch is not None:
        check_count("batch", batch)
    if step is not None:
        check_positive("step", step)
    app, made = ClientApp(), {}

    def of(context: Context) -> _Work:
        if context.node_id not in made:
            made[context.node_id] = _Work(data, model, context)
        return made[context.node_id]

    @app.train()
    def train(message: Message, context: Context) -> Message:
        own = of(context)
        task = Task(message, context, examples=len(own.samples), domains=own.samples.domains)
        if task.method == "afl":
            return _gradient(task, own, batch, seed)
        if step is None:
            raise UserError("step is missing: client_app(…, step=…) says how long the steps of a node are.")
        return _trained(task, own, step, length, batch, seed)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        own = of(context)
        task = Task(message, context, examples=len(own.samples), domains=own.samples.domains)
        found = own.problem.client_metrics(_vector(task.arrays, own.problem))
        return task.reply_evaluated({name: float(values[0]) for name, values in found.items()})

    answer_roll_call(app, lambda context: len(of(context).samples))
    return app


def initial_arrays(data: Data, model: Model, *, seed: int = 0) -> ArrayRecord:
    """The parameters from which training starts: those of our engine for the same seed.

    Parameters
    ----------
    data, model, seed
        As in `client_app`; the data say how many features there are.
    """
    x, y, _ = _part(data, 0, data.n_clients if isinstance(data, Federation) else 1)
    return record_of({W: problem_of(model, Federation.from_arrays(x, y)).initial(seed)})


def ensemble_app(data: Data, predict: Callable[[list[np.ndarray], np.ndarray], Any]) -> ClientApp:
    """A ClientApp for `FedBoost` and `EFLFG`: a node evaluates the predictors that it is sent.

    Parameters
    ----------
    data
        As in `client_app`. For EFLFG, samples arrive in their order, one per round.
    predict
        From the arrays of a predictor and features, one row per sample, to predictions: one number for each sample
        (for the log loss the probability of what was observed), or one column with the probability of each class.
    """
    app, made = ClientApp(), {}

    def of(context: Context) -> Samples:
        if context.node_id not in made:
            made[context.node_id] = Samples(data, context)
        return made[context.node_id]

    @app.train()
    def train(message: Message, context: Context) -> Message:
        samples = of(context)
        task = Task(message, context, examples=len(samples))
        if task.method == "fedboost":
            return _gradient_of_mixture(task, samples, predict)
        if task.method == "efl-fg":
            return _losses_of_models(message, context, task, samples, predict)
        raise UserError(f"ensemble_app is for FedBoost and EFLFG, not for {task.method}: use client_app.")

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        samples = of(context)
        task = Task(message, context, examples=len(samples))
        return task.reply_evaluated({"loss": _loss_of_mixture(task, samples, predict)})

    answer_roll_call(app, lambda context: len(of(context)))
    return app


# --- models ----------------------------------------------------------------------------------------------------------


def _trained(
    task: Task, own: _Work, step: float, length: tuple[int | None, int | None], batch: int | None, seed: int
) -> Message:
    """Local steps from the parameters that were sent."""
    samples, problem = own.samples, own.problem
    w, rows = _vector(task.arrays, problem), np.arange(len(samples))
    keys = stream("averaging", "batch", seed, round=task.round - 1).integers(
        0, 2**64, size=samples.partitions, dtype=np.uint64
    )
    work = LocalWork(
        clients=np.zeros(1, dtype=np.int64),
        offsets=samples.federation.offsets,
        keys=keys[samples.partition :],
        batch=None if batch is None else int(batch),
        epochs=length[0],
        local_steps=length[1],
        step=float(step),
    )
    corrections = None if task.corrections is None else task.corrections[W][None]
    losses = problem.sample_losses(w, rows) if task.asks_for_losses else None
    gradient = None
    if task.config.get(key.OPTION) == "i":
        gradient = {W: problem.gradient(w, rows, np.full(rows.size, 1.0 / rows.size, dtype=w.dtype))}
    trained = next(iter(problem.local_models(w, work, task.objective(), corrections)))
    return task.reply({W: trained}, losses=losses, distance=work.steps(0) * step, gradient=gradient)


def _gradient(task: Task, own: _Work, batch: int | None, seed: int) -> Message:
    """The loss and the gradient on a minibatch, drawn with replacement; on all samples without a batch."""
    samples, problem = own.samples, own.problem
    w, n = _vector(task.arrays, problem), len(samples)
    batches = problem.batches(n if batch is None else int(batch), seed)
    if not isinstance(batches, DrawnBatches):
        raise UserError(f"AFL on Flower draws minibatches of samples, and {type(problem).__name__} draws its own.")
    rows = np.arange(n)
    if batch is not None:
        draws = stream(problem.draws, "batch", seed, client=samples.partition)
        assert isinstance(draws.bit_generator, np.random.PCG64)  # of which a uniform takes one step
        draws.bit_generator.advance((task.round - 1) * int(batch))
        rows = (draws.random(int(batch)) * n).astype(np.int64)
    drawn = Minibatch(np.zeros(1, dtype=np.int64), rows[None].astype(np.int32))
    losses, gradient = batches.losses_and_gradient(w, drawn, np.ones(1))
    return task.reply({W: gradient}, losses=losses)


def _vector(arrays: Arrays, problem: Problem) -> np.ndarray:
    if set(arrays) != {W} or arrays[W].shape != (problem.n_parameters,):
        raise UserError(
            f"The model has one array {W!r} with {problem.n_parameters} parameters, and others were sent: start from "
            "fedrepro.flower.initial_arrays."
        )
    return np.array(arrays[W])


# --- ensembles -------------------------------------------------------------------------------------------------------


def _gradient_of_mixture(task: Task, samples: Samples, predict: Callable) -> Message:
    """Steps 3b and 4 of FedBoost: the gradient of the node's mean loss by the coefficients that were sent."""
    outputs = _outputs(task, samples.federation, predict, np.arange(len(samples)))
    coefficients, y = np.array(task.config[key.COEFFICIENTS]), samples.federation.y
    mixture = coefficients @ outputs
    slopes = 2.0 * (mixture - y)
    if task.config[key.LOSS] == "log":
        slopes = -1.0 / np.where(mixture > 0.0, mixture, np.inf)  # what nobody covers pulls on nobody
    return task.reply(facts={key.GRADIENT: floats(outputs @ slopes / len(samples))})


def _loss_of_mixture(task: Task, samples: Samples, predict: Callable) -> float:
    """The mean loss of the whole ensemble by its learned weights."""
    mixture = task.arrays[WEIGHTS] @ _outputs(task, samples.federation, predict, np.arange(len(samples)))
    if task.config[key.LOSS] == "log":
        with np.errstate(divide="ignore"):
            return float(-np.log(mixture).mean())
    return float(((mixture - samples.federation.y) ** 2).mean())


def _losses_of_models(message: Message, context: Context, task: Task, samples: Samples, predict: Callable) -> Message:
    """What EFL-FG learns from a node in a round: its losses, clipped at 1, on the sample that has just arrived."""
    at = task.round - 1
    shares = np.array(task.config[key.COEFFICIENTS])
    if at >= len(samples):  # used up: the node has nothing to say any more
        nothing = {key.MODEL_LOSSES: floats(0.0 * shares), key.ENSEMBLE_LOSS: 0.0, key.SQUARED_ERROR: 0.0}
        return Task(message, context, examples=0).reply(facts=nothing)
    predictions = _outputs(task, samples.federation, predict, np.array([at]))[:, 0]
    y = float(samples.federation.y[at])
    mixed = 0.0
    for share, prediction in zip(shares, predictions, strict=True):
        mixed += share * prediction
    error = float((mixed - y) ** 2)
    facts = {
        key.MODEL_LOSSES: floats(np.minimum((predictions - y) ** 2, 1.0)),
        key.ENSEMBLE_LOSS: min(error, 1.0),
        key.SQUARED_ERROR: error,
    }
    return Task(message, context, examples=1).reply(facts=facts)


def _outputs(task: Task, federation: Federation, predict: Callable, rows: np.ndarray) -> np.ndarray:
    """What each predictor that was sent says about the rows; of probabilities of classes, that of the observed one."""
    x, y = federation.features[rows], federation.y[rows]
    found = []
    for parts in predictors_of(task.arrays).values():
        said = np.asarray(predict(list(parts.values()), x), dtype=np.float64)
        if said.ndim not in (1, 2) or len(said) != len(rows):
            raise UserError(
                f"predict gives the shape {said.shape} for {len(rows)} samples: one row for each is needed."
            )
        if said.ndim == 2:
            said = said[:, 0] if said.shape[1] == 1 else said[np.arange(len(rows)), y]
        found.append(said)
    return np.array(found)


def predictors_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Arrays]:
    """The arrays of each predictor, by its name: what stands before the first slash of an array's name."""
    found: dict[str, Arrays] = {}
    for name, array in arrays.items():
        if name != WEIGHTS:
            found.setdefault(name.partition("/")[0], {})[name] = array
    return found


# --- data ------------------------------------------------------------------------------------------------------------


def _place(context: Context) -> tuple[int, int]:
    try:
        return int(context.node_config[key.PARTITION]), int(context.node_config[key.PARTITIONS])
    except KeyError as missing:
        raise UserError(
            f"The node does not know its {missing.args[0]}: start it with --node-config "
            "'partition-id=0 num-partitions=20', as Flower's deployment guide says."
        ) from None


def _part(data: Data, partition: int, partitions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """x, y and domains of a partition."""
    if isinstance(data, Federation):
        if partitions != data.n_clients:
            raise UserError(f"There are {partitions} nodes, and the federation has {data.n_clients} clients.")
        x, y = data.client(partition)
        return (
            data.features[:0] if x is None else x,
            y,
            data.domains[data.offsets[partition] : data.offsets[partition + 1]],
        )
    if not callable(data):
        raise UserError(f"data is neither a Federation nor a function, but {type(data).__name__}.")
    found: Sequence = data(partition, partitions)
    if not isinstance(found, tuple) or len(found) not in (2, 3):
        raise UserError("The function that loads data must return x, y or x, y, domains of a partition.")
    return found[0], found[1], found[2] if len(found) == 3 else None
