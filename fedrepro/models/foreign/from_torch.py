"""A model from a module of PyTorch, through functional calls. PyTorch is no dependency: who has modules has it."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
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

_AT_ONCE = 1024  # larger requests are answered in pieces, so that their memory is bounded


@checked
def from_torch(module, loss: str | Callable[[Any, Any], Any] = CROSS_ENTROPY) -> "TorchModel":
    """A model from a module of PyTorch.

    Training starts from the module's own parameters; the module itself is copied and stays as it is. It is called as
    in ``eval()``: dropout is off. To have the trained one, hand ``trace.final["w"]`` to
    `torch.nn.utils.vector_to_parameters`.

    Parameters
    ----------
    module
        A `torch.nn.Module` from features, one row per sample, to outputs: one for each class, or one number. Its
        parameters are float32, on the CPU; running statistics, as of batch normalisation, have no place in averages
        and are refused.
    loss
        From outputs and targets to one loss for each sample (``reduction="none"``); or ``"cross-entropy"``, or
        ``"squared"`` (half of the squared difference).
    """
    check_loss(loss)
    torch = _torch()
    if isinstance(module, type) or not isinstance(module, torch.nn.Module):
        raise UserError(f"from_torch takes a torch.nn.Module, not {type(module).__name__}.")
    if any(True for _ in module.buffers()):
        raise UserError(
            "The module has buffers, such as the running statistics of batch normalisation, which cannot be averaged "
            "as parameters are: use group or layer normalisation."
        )
    parameters = list(module.parameters())
    if not parameters or any(one.dtype != torch.float32 or one.device.type != "cpu" for one in parameters):
        raise UserError("The module must have parameters, all of them float32 and on the CPU.")
    return TorchModel(copy.deepcopy(module).eval(), loss)


@dataclass(frozen=True, eq=False)
class TorchModel:
    """What `from_torch` makes; the parameters are one vector, in the order of ``module.parameters()``."""

    module: Any
    loss: str | Callable
    shapes: dict[str, tuple[int, ...]] = field(init=False)

    def __post_init__(self):
        shapes = {name: tuple(one.shape) for name, one in self.module.named_parameters()}
        object.__setattr__(self, "shapes", shapes)

    def on(self, federation: Federation) -> "TorchProblem":
        """The model on these data."""
        return TorchProblem(self, federation)

    def predict(self, w: np.ndarray, x) -> np.ndarray:
        """The class with the largest output, or the output."""
        return predicted(self._asked(w, x))

    def predict_proba(self, w: np.ndarray, x) -> np.ndarray:
        """The softmax of the outputs."""
        return chances(self._asked(w, x))

    def parameters_of(self, w):
        """A vector as the module's parameters, by name."""
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        cut = _torch().split(w, sizes)
        return {name: part.reshape(shape) for part, (name, shape) in zip(cut, self.shapes.items(), strict=True)}

    def outputs(self, w, x):
        """What the module makes of samples."""
        try:
            return _torch().func.functional_call(self.module, self.parameters_of(w), (x,))
        except RuntimeError as error:
            raise UserError(f"x does not suit the module: {str(error).splitlines()[0]}") from error

    def losses(self, outputs, y):
        """One loss for each sample."""
        if callable(self.loss):
            return self.loss(outputs, y)
        if self.loss == CROSS_ENTROPY:
            return _torch().nn.functional.cross_entropy(outputs, y.long(), reduction="none")
        return 0.5 * (outputs.reshape(y.shape) - y) ** 2

    def _asked(self, w: np.ndarray, x) -> np.ndarray:
        torch, x = _torch(), checked_samples(x).astype(np.float32)
        with torch.no_grad():
            vector = torch.from_numpy(np.array(w, np.float32))
            pieces = [
                self.outputs(vector, torch.from_numpy(x[at : at + _AT_ONCE])).numpy()
                for at in range(0, len(x), _AT_ONCE)
            ]
        return np.concatenate(pieces) if pieces else np.zeros(0)


class TorchProblem(Problem):
    """A module of PyTorch on the data of a federation."""

    def __init__(self, model: TorchModel, federation: Federation):
        super().__init__(federation)
        torch, self._model = _torch(), model
        x, y = features_and_targets(federation, model.loss)
        self._x, self._y = torch.from_numpy(x), torch.from_numpy(y)
        self.n_parameters = sum(int(np.prod(shape)) for shape in model.shapes.values())
        with torch.no_grad():
            outputs = model.outputs(torch.from_numpy(self.initial()), self._x[:2])
            check_outputs(tuple(outputs.shape), y, model.loss, len(x[:2]))
            check_losses(tuple(model.losses(outputs, self._y[:2]).shape), len(x[:2]))

    def initial(self, seed: int = 0) -> np.ndarray:
        """The module's own parameters, for every seed."""
        parts = [one.detach().numpy().ravel() for one in self._model.module.parameters()]
        return np.concatenate(parts).astype(np.float32)

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
        torch, weights = _torch(), np.asarray(weights, np.float32)
        total, losses = np.zeros(self.n_parameters, np.float32), np.empty(rows.size, np.float32)
        for piece in _pieces(rows.size):
            vector = self._vector(w)
            found, _ = self._forward(vector, rows[piece])
            (slope,) = torch.autograd.grad((torch.from_numpy(weights[piece]) * found).sum(), vector)
            total += slope.numpy()
            losses[piece] = found.detach().numpy()
        return losses, total

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss`` of each domain, and ``accuracy`` of a classifier."""
        return metrics(self, *self._answers(w, np.arange(self.domains.size)), self._y.numpy())

    def dilations(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As in `Problem`."""
        pieces = [self._dilated(self._vector(w), rows[piece])[1] for piece in _pieces(rows.size)]
        return np.concatenate([found.detach().numpy().astype(np.float64) for found in pieces])

    def dilated_gradient(self, w: np.ndarray, rows: np.ndarray, of_losses: float, of_dilations: float) -> np.ndarray:
        """As in `Problem`."""
        torch, total = _torch(), np.zeros(self.n_parameters, np.float32)
        for piece in _pieces(rows.size):
            vector = self._vector(w)
            losses, dilations = self._dilated(vector, rows[piece])
            objective = of_losses * losses.sum() + of_dilations * dilations.sum()
            total += torch.autograd.grad(objective, vector)[0].numpy()
        return total

    def _dilated(self, vector, rows: np.ndarray):
        """The losses of the rows, and their derivatives by a factor of the outputs."""
        torch = _torch()
        outputs, y = self._model.outputs(vector, self._x[rows]), self._y[rows]
        factor = torch.ones((len(rows),) + (1,) * (outputs.ndim - 1), requires_grad=True)
        losses = self._model.losses(factor * outputs, y)
        (slope,) = torch.autograd.grad(losses.sum(), factor, create_graph=True)
        return losses, slope.reshape(-1)

    def _vector(self, w: np.ndarray):
        return _torch().tensor(self.checked(w, np.float32), requires_grad=True)

    def _forward(self, vector, rows):
        """Losses and outputs of the rows."""
        outputs = self._model.outputs(vector, self._x[rows])
        return self._model.losses(outputs, self._y[rows]), outputs

    def _answers(self, w: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        torch = _torch()
        with torch.no_grad():
            vector = torch.from_numpy(np.array(self.checked(w, np.float32)))
            found = [self._forward(vector, rows[piece]) for piece in _pieces(rows.size)]
        losses, outputs = zip(*found, strict=True)
        return np.concatenate([one.numpy() for one in losses]), np.concatenate([one.numpy() for one in outputs])


def _pieces(count: int) -> list[slice]:
    return [slice(at, min(at + _AT_ONCE, count)) for at in range(0, count, _AT_ONCE)]


def _torch():
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise UserError("from_torch needs PyTorch, which is not installed: pip install torch.") from None
    return torch
