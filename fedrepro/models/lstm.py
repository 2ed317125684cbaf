"""A language model: embedded words, layers of long short-term memory, and a softmax over the vocabulary.

Text is read as W. Zaremba, I. Sutskever and O. Vinyals do (Recurrent neural network regularization, arXiv:1409.2329):
in rows that go on from minibatch to minibatch, so that the memory is carried on while gradients stop at the window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from numbers import Integral
from typing import NamedTuple

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.models.problem import Problem
from fedrepro.streams import stream
from fedrepro.target import settle_xla

with optional():
    import jax
    import jax.numpy as jnp

settle_xla()

EVALUATION_ROWS = 20
# 8 MB of float32. With all logits of 20 rows at once a step took 77 MB instead of 45 MB of memory of its own, which the
# system hands out anew in every step: 43 ms instead of 24 ms.
LOGITS_AT_ONCE = 2_000_000
FOLDS = 4  # how often a row of logits is halved before its largest is looked for


@dataclass(frozen=True)
class LSTM:
    """A word-level language model.

    Parameters
    ----------
    vocabulary
        Number of words; their ids are 0, 1, …, vocabulary - 1.
    units, layers
        Width of the embedding and of each layer, and number of layers.
    window
        Steps of truncated back-propagation.
    dropout
        Share of the inputs of each layer and of the softmax that is left out of a training step (none by default);
        the memory itself is kept, as Zaremba et al. do.
    scale
        Initial weights are uniform on [-scale, scale].
    """

    vocabulary: int = 10_000
    units: int = 200
    layers: int = 2
    window: int = 35
    dropout: float = 0.0
    scale: float = 0.1

    def __post_init__(self):
        for name, least in (("vocabulary", 2), ("units", 1), ("layers", 1), ("window", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise UserError(f"{name}={value!r} is not a whole number of at least {least}.")
        if not 0 <= self.dropout < 1:
            raise UserError(f"dropout={self.dropout} is not a share: choose it from 0 (none) to below 1.")
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise UserError(f"scale={self.scale} is not a positive number.")

    def on(self, federation: Federation) -> "LanguageProblem":
        return LanguageProblem(self, federation)


class LanguageProblem(Problem):
    """A language model on the texts of a federation.

    The samples of a domain are its words in running order, as ``y`` has them. A domain's loss is the mean cross-entropy
    of its words, each predicted from those before it.

    Attributes
    ----------
    texts
        The ids of each domain.
    sizes
        m_k, the number of words of every domain.
    n_parameters
        Number of weights and biases.
    """

    def __init__(self, model: LSTM, federation: Federation):
        self.model = model
        self.texts = _texts(model, federation)
        super().__init__(federation)
        self.n_parameters = sum(prod(shape) for shape in _shapes(model).values())

    def initial(self, seed: int = 0) -> np.ndarray:
        """w_0, uniform on [-scale, scale]."""
        uniforms = stream("lstm", "init", seed).random(self.n_parameters, dtype=np.float32)
        return np.float32(2 * self.model.scale) * (uniforms - np.float32(0.5))

    def rows(self, batch: int) -> np.ndarray:
        """How many of the rows of a minibatch each domain has: as its share of the words, and at least one."""
        rows = np.maximum(1, np.rint(batch * self.sizes / self.sizes.sum()).astype(int))
        for text, count in zip(self.texts, rows, strict=True):
            if text.size < count * self.model.window:
                raise UserError(
                    f"A domain of {text.size} words is too short for {count} rows of {self.model.window} words: "
                    "give more text, or choose a smaller batch or window."
                )
        return rows

    def steps_per_epoch(self, batch: int) -> int:
        """How many minibatches read each word about once."""
        return int(np.ceil(self.sizes.sum() / (self.rows(batch).sum() * self.model.window)))

    def batches(self, batch: int, seed: int = 0, active: np.ndarray | None = None) -> "LanguageBatches":
        """Windows of ``batch`` rows of running text, which are shared out among the domains as `rows` says."""
        return LanguageBatches(self, batch, seed, active)

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss``, the mean cross-entropy of all words of each domain but the first, and ``perplexity``, exp of it.

        The text is read in 20 rows, each from an empty memory that is then carried through the row.
        """
        parameters = Parameters(*map(jnp.asarray, _split(self.model, self.checked(w, np.float32))))
        losses = np.array([self._loss(parameters, text) for text in self.texts])
        return {"loss": losses, "perplexity": np.exp(losses)}

    def _loss(self, parameters: "Parameters", text: np.ndarray) -> float:
        window, rows = self.model.window, EVALUATION_ROWS
        predicted = text.size - 1
        windows = -(-predicted // (rows * window))
        # The last row is shorter than the others: what it lacks is padded, and weighs nothing.
        padded = np.zeros(rows * windows * window + 1, dtype=np.int32)
        padded[: text.size] = text
        start = np.arange(rows)[:, None] * (windows * window)
        total, memory = 0.0, _empty_memory(self.model, rows)
        for at in range(0, windows * window, window):
            position = start + at + np.arange(window + 1)
            losses, memory = _word_losses(self.model, parameters, padded[position], memory)
            total += float(np.sum(np.asarray(losses), where=predicted >= position[:, 1:].T, dtype=np.float64))
        return total / predicted


class Window(NamedTuple):
    """A minibatch: successive words of some rows."""

    number: int
    domains: np.ndarray  # (n,): which domains
    rows: np.ndarray  # (r,): their rows
    words: np.ndarray  # (r, window + 1): what the rows read, and what comes next


class LanguageBatches:
    """An endless source of windows of running text, which remembers what each row has read.

    Each domain's text is a ring. Its rows begin at equal distances, from a random place on, and read on from window to
    window, whether they have come to where another row began or not. A window may be asked for its gradient more than
    once: it is always read with the memory that was there before it.
    """

    def __init__(self, problem: LanguageProblem, batch: int, seed: int, active: np.ndarray | None):
        self.problem = problem
        self._rows = problem.rows(batch)
        p = self._rows.size
        self._active = np.flatnonzero(np.ones(p, bool) if active is None else active)
        self._owner = np.repeat(np.arange(p), self._rows)
        self._at = np.concatenate([_starts(self._rows[k], problem.sizes[k], seed, k) for k in range(p)])
        self._memory = _empty_memory(problem.model, self._owner.size)
        self._drawn = 0
        self._read: Window | None = None  # the window that was read last, and the memory before it
        self._before = self._memory
        # The draws of dropout do not depend on where the rows begin.
        self._key = jax.random.key(int(stream("lstm", "sampling", seed).integers(2**32)))

    def next(self, domain: int | None = None) -> Window:
        """The next window of every active domain, or only of the given one."""
        domains = self._active if domain is None else np.array([domain])
        rows = np.flatnonzero(np.isin(self._owner, domains))
        length = self.problem.model.window
        words = np.empty((rows.size, length + 1), dtype=np.int32)
        for k in domains:
            text = self.problem.texts[k]
            mine = self._owner[rows] == k
            words[mine] = text[(self._at[rows[mine], None] + np.arange(length + 1)) % text.size]
        self._at[rows] += length
        self._drawn += 1
        return Window(self._drawn, domains, rows, words)

    def state(self) -> dict:
        """Where the rows read on, and what they remember."""
        return {"at": self._at, "memory": np.asarray(self._memory), "drawn": self._drawn}

    def restore(self, saved: dict) -> None:
        """Go on where another source stood."""
        self._at, self._memory, self._drawn = saved["at"], jnp.asarray(saved["memory"]), saved["drawn"]

    def losses_and_gradient(self, w: np.ndarray, batch: Window, mixture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L_k on the window of each domain, and Σ_k mixture_k ∇L_k over the domains of the window."""
        model, counts = self.problem.model, self._rows * self.problem.model.window
        if self._read is not batch:
            self._read, self._before = batch, self._memory
        owner = self._owner[batch.rows]
        whole = batch.rows.size == self._owner.size
        before = self._before if whole else self._before[:, :, batch.rows]
        weights = (np.asarray(mixture) / counts)[owner].astype(np.float32)
        key = jax.random.fold_in(self._key, batch.number) if model.dropout > 0 else None
        parameters = _split(model, self.problem.checked(w, np.float32))
        gradient, totals, memory = _gradient(model, parameters, batch.words, before, weights, key)
        self._memory = memory if whole else self._before.at[:, :, batch.rows].set(memory)
        losses = np.zeros(self._rows.size)
        losses[batch.domains] = np.bincount(owner, np.asarray(totals), self._rows.size)[batch.domains]
        losses /= counts
        losses[np.setdiff1d(np.arange(self._rows.size), self._active)] = np.nan
        return losses, _joined(gradient)


# --- parameters -------------------------------------------------------------------------------------------------------


class Parameters(NamedTuple):
    """The parts of the flat vector, or of its gradient."""

    embedding: jax.Array  # (vocabulary, units)
    inputs: jax.Array  # (layers, units, 4 units): to the input, forget and output gates and to the candidate
    recurrent: jax.Array  # (layers, units, 4 units)
    biases: jax.Array  # (layers, 4 units)
    softmax: jax.Array  # (units, vocabulary)
    softmax_bias: jax.Array  # (vocabulary,)


def _shapes(model: LSTM) -> dict[str, tuple[int, ...]]:
    v, u, n = model.vocabulary, model.units, model.layers
    return {
        "embedding": (v, u),
        "inputs": (n, u, 4 * u),
        "recurrent": (n, u, 4 * u),
        "biases": (n, 4 * u),
        "softmax": (u, v),
        "softmax_bias": (v,),
    }


# The vector is cut and joined here and not inside of the compiled step, where XLA would copy the parts once more
# (a step of 20 rows takes 35 MB of memory of its own instead of 51 MB).
def _split(model: LSTM, w: np.ndarray) -> Parameters:
    shapes = _shapes(model)
    ends = np.cumsum([prod(shape) for shape in shapes.values()])
    parts = np.split(w, ends[:-1])
    return Parameters._make(part.reshape(shape) for part, shape in zip(parts, shapes.values(), strict=True))


def _joined(parts: Parameters) -> np.ndarray:
    return np.concatenate([np.asarray(part).ravel() for part in parts])


def _empty_memory(model: LSTM, rows: int) -> jax.Array:
    """The output and the cell of every layer, unit and row."""
    return jnp.zeros((model.layers, 2, rows, model.units), dtype=jnp.float32)


# --- compiled ---------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames="model")
def _gradient(
    model: LSTM, parameters: Parameters, words: jax.Array, memory: jax.Array, weights: jax.Array, key: jax.Array | None
) -> tuple[Parameters, jax.Array, jax.Array]:
    """The gradient of Σ_r weights_r ℓ_r, the cross-entropies ℓ_r of the rows, and their memory after the window."""
    *recurrent, softmax, bias = parameters
    hidden, back, after = jax.vjp(
        lambda *parts: _hidden(model, parts, words[:, :-1].T, memory, key), *recurrent, has_aux=True
    )

    def piece(total, given):
        """Some steps of the window: the gradient of a softmax needs the probabilities, which are not kept."""
        hidden, target, weight = given
        shifted = _shifted_logits(hidden, softmax, bias)
        odds = jnp.exp(shifted)
        normaliser = odds.sum(axis=1)
        at = jnp.arange(target.size)
        losses = jnp.log(normaliser) - shifted[at, target]
        # ∂ loss / ∂ logits = (odds - normaliser · onehot) / normaliser; the factor goes to the smaller matrices.
        odds = odds.at[at, target].add(-normaliser, unique_indices=True)
        factor = weight / normaliser
        total = (total[0] + (hidden * factor[:, None]).T @ odds, total[1] + factor @ odds)
        return total, (losses, (odds @ softmax.T) * factor[:, None])

    every_step = jnp.broadcast_to(weights, (model.window, weights.size))
    given = _in_pieces(model, hidden, words[:, 1:].T, every_step)
    nothing = (jnp.zeros_like(softmax), jnp.zeros_like(bias))
    of_softmax, (losses, of_hidden) = jax.lax.scan(piece, nothing, given)
    gradient = Parameters._make((*back(of_hidden.reshape(hidden.shape)), *of_softmax))
    return gradient, losses.reshape(model.window, -1).sum(axis=0), after


@partial(jax.jit, static_argnames="model")
def _word_losses(
    model: LSTM, parameters: Parameters, words: jax.Array, memory: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The cross-entropy of every word, shape (window, rows), and the memory after the window; without dropout."""
    *recurrent, softmax, bias = parameters
    hidden, after = _hidden(model, recurrent, words[:, :-1].T, memory, None)

    def piece(given):
        hidden, target = given
        shifted = _shifted_logits(hidden, softmax, bias)
        return jnp.log(jnp.exp(shifted).sum(axis=1)) - shifted[jnp.arange(target.size), target]

    losses = jax.lax.map(piece, _in_pieces(model, hidden, words[:, 1:].T))
    return losses.reshape(model.window, -1), after


def _hidden(
    model: LSTM, recurrent: Sequence[jax.Array], words: jax.Array, memory: jax.Array, key: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """What the last layer gives to the softmax, shape (window, rows, units), and the memory after the window."""
    embedding, *layers = recurrent
    masks = [None] * (model.layers + 1) if key is None else jax.random.split(key, model.layers + 1)
    x, after = _dropped(model, embedding[words], masks[0]), []
    for layer, of_layer in enumerate(zip(*layers, strict=True)):
        x, last = _layer(x, memory[layer], *of_layer)
        x = _dropped(model, x, masks[layer + 1])
        after.append(last)
    return x, jnp.stack(after)


def _layer(x: jax.Array, memory: jax.Array, inputs: jax.Array, recurrent: jax.Array, bias: jax.Array):
    """A layer over all steps of the window; the inputs' share of all gates is one product ahead of the steps."""
    return _recurred(jnp.tensordot(x, inputs, 1) + bias, memory, recurrent)


# The derivative is written out: JAX's own adds up that of the recurrent weights step by step, 35 products of 20 rows,
# where one product of 700 rows does the same (a layer's way back takes 9.8 ms instead of 11.2 ms).
@jax.custom_vjp
def _recurred(ahead: jax.Array, memory: jax.Array, recurrent: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The outputs of all steps, and the memory after them, from the inputs' share of the gates."""
    return _forward(ahead, memory, recurrent)[0]


def _forward(ahead: jax.Array, memory: jax.Array, recurrent: jax.Array):
    """The same, and what the way back needs."""
    units = recurrent.shape[0]

    def step(memory, ahead):
        output, cell = memory
        total = ahead + output @ recurrent
        gates, candidate = jax.nn.sigmoid(total[:, : 3 * units]), jnp.tanh(total[:, 3 * units :])
        into, forget, out = jnp.split(gates, 3, axis=-1)
        new = forget * cell + into * candidate
        squashed = jnp.tanh(new)
        output = out * squashed
        return (output, new), (output, (gates, candidate, squashed, cell))

    last, (outputs, kept) = jax.lax.scan(step, tuple(memory), ahead)
    return (outputs, jnp.stack(last)), (kept, outputs, memory[0], recurrent)


def _backward(kept, given):
    """Derivatives by the inputs' share of the gates and by the recurrent weights; they stop at the window's ends."""
    of_steps, outputs, first, recurrent = kept
    of_outputs, _ = given

    def step(carried, given):
        through_output, through_cell = carried
        of_output, gates, candidate, squashed, cell = given
        into, forget, out = jnp.split(gates, 3, axis=-1)
        of_output = of_output + through_output
        of_cell = through_cell + of_output * out * (1.0 - squashed * squashed)
        of_total = jnp.concatenate(
            [
                of_cell * candidate * into * (1.0 - into),
                of_cell * cell * forget * (1.0 - forget),
                of_output * squashed * out * (1.0 - out),
                of_cell * into * (1.0 - candidate * candidate),
            ],
            axis=-1,
        )
        return (of_total @ recurrent.T, of_cell * forget), of_total

    nothing = jnp.zeros_like(first)
    _, of_ahead = jax.lax.scan(step, (nothing, nothing), (of_outputs, *of_steps), reverse=True)
    before = jnp.concatenate([first[None], outputs[:-1]])
    of_recurrent = jnp.tensordot(before, of_ahead, [[0, 1], [0, 1]])
    return of_ahead, jnp.zeros((2, *first.shape), first.dtype), of_recurrent


_recurred.defvjp(_forward, _backward)


def _dropped(model: LSTM, x: jax.Array, key: jax.Array | None) -> jax.Array:
    if key is None:
        return x
    kept = 1.0 - model.dropout
    return jnp.where(jax.random.bernoulli(key, kept, x.shape), x / kept, 0.0)


def _shifted_logits(hidden: jax.Array, softmax: jax.Array, bias: jax.Array) -> jax.Array:
    """Logits of which the largest is 0, so that no exponential overflows."""
    logits = hidden @ softmax + bias
    return logits - _largest(logits)


def _largest(logits: jax.Array) -> jax.Array:
    """The largest of each row, as a column.

    XLA compares the numbers of a row one by one, but two halves of it as vectors: of 700 rows of 10,000 numbers the
    largest are found in 0.8 ms instead of 5.8 ms. Halves overlap where a row is odd.
    """
    for _ in range(FOLDS):
        half = -(-logits.shape[1] // 2)
        logits = jnp.maximum(logits[:, :half], logits[:, logits.shape[1] - half :])
    return logits.max(axis=1, keepdims=True)


def _in_pieces(model: LSTM, *arrays: jax.Array) -> tuple[jax.Array, ...]:
    """Arrays of shape (window, rows, …) in equal pieces of whole steps, whose logits are not too many."""
    rows = arrays[0].shape[1]
    divisors = [d for d in range(1, model.window + 1) if model.window % d == 0]
    fitting = [d for d in divisors if model.window // d * rows * model.vocabulary <= LOGITS_AT_ONCE]
    pieces = fitting[0] if fitting else model.window
    return tuple(array.reshape(pieces, -1, *array.shape[2:]) for array in arrays)


# --- data -------------------------------------------------------------------------------------------------------------


def _texts(model: LSTM, federation: Federation) -> list[np.ndarray]:
    y = federation.y
    if federation.x is not None or y.ndim != 1 or y.dtype.kind not in "iu":
        raise UserError("A language model reads word ids: give whole numbers in y, in running order, and no x.")
    if y.min() < 0 or y.max() >= model.vocabulary:
        wrong = y.min() if y.min() < 0 else y.max()
        raise UserError(f"The word id {wrong} is not in the vocabulary: ids are 0 to {model.vocabulary - 1} here.")
    texts = [y[federation.domains == k].astype(np.int32) for k in range(federation.n_domains)]
    for name, text in zip(federation.domain_names, texts, strict=True):
        if text.size == 0:
            raise UserError(f"The domain {name!r} has no words: leave it out.")
        if text.size <= model.window:
            raise UserError(
                f"The domain {name!r} has {text.size} words, too few for a window of {model.window}: "
                "give more text, or choose a smaller window."
            )
    return texts


def _starts(rows: int, words: int, seed: int, domain: int) -> np.ndarray:
    """Where the rows of a domain begin to read."""
    offset = int(stream("lstm", "batch", seed, client=domain).integers(words))
    return offset + np.arange(rows) * words // rows
