"""A model from two functions of JAX, as flax, equinox, haiku and stax give them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.models.architecture import cross_entropies
from fedrepro.models.foreign.outputs import (
    CROSS_ENTROPY,
    chances,
    check_loss,
    check_losses,
    check_outputs,
    features_and_targets,
    metrics,
    predicted,
)
from fedrepro.models.problem import Problem
from fedrepro.models.samples import checked_samples

with optional():
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

_AT_ONCE = 256  # larger requests are answered in pieces, so that their memory is bounded


@checked
def from_jax(
    init: Callable[[Any], Any], apply: Callable[[Any, Any], Any], loss: str | Callable[[Any, Any], Any] = CROSS_ENTROPY
) -> "JaxModel":
    """A model from a pair of functions of JAX.

    Parameters
    ----------
    init
        From a key of `jax.random` to the parameters: float32 arrays in any nesting. The seed of a run makes the key.
    apply
        From parameters and features, one row per sample, to outputs: one for each class, or one number.
    loss
        From outputs and targets to one loss for each sample, not to their mean; or ``"cross-entropy"`` (of the softmax
        of the outputs), or ``"squared"`` (half of the squared difference).

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> def init(key):
    ...     return {"w": 0.1 * jax.random.normal(key, (4, 3)), "b": jnp.zeros(3)}
    >>> def apply(parameters, x):
    ...     return x @ parameters["w"] + parameters["b"]
    >>> model = from_jax(init, apply)
    """
    check_loss(loss)
    return JaxModel(init, apply, loss)


@dataclass(frozen=True, eq=False)
class JaxModel:
    """What `from_jax` makes; the parameters are one vector, as `jax.flatten_util.ravel_pytree` lays them out."""

    init: Callable
    apply: Callable
    loss: str | Callable

    def on(self, federation: Federation) -> "JaxProblem":
        """The model on these data."""
        return JaxProblem(self, federation)

    def predict(self, w: np.ndarray, x) -> np.ndarray:
        """The class with the largest output, or the output."""
        return predicted(self._outputs(w, x))

    def predict_proba(self, w: np.ndarray, x) -> np.ndarray:
        """The softmax of the outputs."""
        return chances(self._outputs(w, x))

    def losses(self, outputs: jax.Array, y: jax.Array) -> jax.Array:
        """One loss for each sample."""
        if callable(self.loss):
            return self.loss(outputs, y)
        return cross_entropies(outputs, y) if self.loss == CROSS_ENTROPY else 0.5 * (outputs.reshape(y.shape) - y) ** 2

    @cached_property
    def parameters_of(self) -> Callable[[Any], Any]:
        """From a vector to the parameters as ``apply`` takes them."""
        return ravel_pytree(self.init(jax.random.key(0)))[1]

    @cached_property
    def compiled(self) -> "Compiled":
        """The functions of this model, compiled once."""
        return Compiled(self)

    def _outputs(self, w: np.ndarray, x) -> np.ndarray:
        x = checked_samples(x).astype(np.float32)
        try:
            pieces = [np.asarray(self.compiled.outputs(w, x[at : at + _AT_ONCE])) for at in range(0, len(x), _AT_ONCE)]
        except TypeError as error:
            raise UserError(f"x does not suit the model: {str(error).splitlines()[0]}") from error
        return np.concatenate(pieces) if pieces else np.zeros(0)


class Compiled:
    """The functions of a model as XLA has them; samples of weight 0 fill requests up to a power of two."""

    def __init__(self, model: JaxModel):
        def outputs(w, x):
            return model.apply(model.parameters_of(w), x)

        def losses(w, x, y):
            found = outputs(w, x)
            return model.losses(found, y), found

        def weighted(w, x, y, weights):
            found = losses(w, x, y)[0]
            return (weights * found).sum(), found

        def dilations(w, x, y):
            found = outputs(w, x)
            return jax.jvp(partial(model.losses, y=y), (found,), (found,))[1]

        def dilated(w, x, y, weights):
            return (weights[0] * losses(w, x, y)[0] + weights[1] * dilations(w, x, y)).sum()

        self.outputs, self.losses, self.dilations = map(jax.jit, (outputs, losses, dilations))
        self.gradient, self.dilated = jax.jit(jax.grad(weighted, has_aux=True)), jax.jit(jax.grad(dilated))


class JaxProblem(Problem):
    """A model of JAX on the data of a federation."""

    def __init__(self, model: JaxModel, federation: Federation):
        super().__init__(federation)
        self._model, self._compiled = model, model.compiled
        self._x, self._y = features_and_targets(federation, model.loss)
        start = self.initial(0)
        self.n_parameters = start.size
        outputs = jax.eval_shape(self._compiled.outputs, start, self._x[:2])
        check_outputs(outputs.shape, self._y, model.loss, len(self._x[:2]))
        losses, _ = jax.eval_shape(self._compiled.losses, start, self._x[:2], self._y[:2])
        check_losses(losses.shape, len(self._x[:2]))

    def initial(self, seed: int = 0) -> np.ndarray:
        """The parameters that ``init`` draws from the key ``seed``."""
        parameters = self._model.init(jax.random.key(seed))
        if any(jnp.result_type(leaf) != jnp.float32 for leaf in jax.tree.leaves(parameters)):
            raise UserError(
                "init must give parameters in float32: convert the others, or leave out what is no parameter."
            )
        return np.array(ravel_pytree(parameters)[0])

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As in `Problem`."""
        return self._answers(w, rows)[0]

    def gradient(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """As in `Problem`."""
        return self.losses_and_gradient(w, rows, weights)[1]

    def losses_and_gradient(
        self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """As in `Problem`."""
        w, weights = self.checked(w, np.float32), np.asarray(weights, np.float32)
        total, losses = np.zeros(self.n_parameters, np.float32), np.empty(rows.size, np.float32)
        for piece in _pieces(rows.size):
            asked, room = _padded(rows[piece])
            gradient, found = self._compiled.gradient(
                w, self._x[asked], self._y[asked], np.pad(weights[piece], (0, room))
            )
            total += np.asarray(gradient)
            losses[piece] = np.asarray(found)[: rows[piece].size]
        return losses, total

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss`` of each domain, and ``accuracy`` of a classifier."""
        return metrics(self, *self._answers(w, np.arange(self.domains.size)), self._y)

    def dilations(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As in `Problem`."""
        w, found = self.checked(w, np.float32), np.empty(rows.size)
        for piece in _pieces(rows.size):
            asked = _padded(rows[piece])[0]
            values = self._compiled.dilations(w, self._x[asked], self._y[asked])
            found[piece] = np.asarray(values)[: rows[piece].size]
        return found

    def dilated_gradient(self, w: np.ndarray, rows: np.ndarray, of_losses: float, of_dilations: float) -> np.ndarray:
        """As in `Problem`."""
        w, total = self.checked(w, np.float32), np.zeros(self.n_parameters, np.float32)
        for piece in _pieces(rows.size):
            asked, room = _padded(rows[piece])
            weights = np.outer([of_losses, of_dilations], np.arange(asked.size) < asked.size - room)
            total += np.asarray(self._compiled.dilated(w, self._x[asked], self._y[asked], weights.astype(np.float32)))
        return total

    def _answers(self, w: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Losses and outputs of the rows."""
        w, losses, outputs = self.checked(w, np.float32), [], []
        for piece in _pieces(rows.size):
            asked = _padded(rows[piece])[0]
            found = self._compiled.losses(w, self._x[asked], self._y[asked])
            losses.append(np.asarray(found[0])[: rows[piece].size])
            outputs.append(np.asarray(found[1])[: rows[piece].size])
        return np.concatenate(losses), np.concatenate(outputs)


def _pieces(count: int) -> list[slice]:
    return [slice(at, min(at + _AT_ONCE, count)) for at in range(0, count, _AT_ONCE)]


def _padded(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """The rows and as many repetitions of the last as fill a power of two: no more than nine sizes are compiled."""
    room = (1 << (rows.size - 1).bit_length()) - rows.size
    return np.pad(rows, (0, room), mode="edge"), room
