"""What models of JAX and PyTorch have in common: what their outputs mean, and losses by name."""

import numpy as np

from fedrepro.checks import shown
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.link import softmax
from fedrepro.models.problem import Problem

CROSS_ENTROPY, SQUARED = "cross-entropy", "squared"


def check_loss(loss) -> None:
    """The loss is known by name, or a function."""
    if not callable(loss) and not (isinstance(loss, str) and loss in (CROSS_ENTROPY, SQUARED)):
        raise UserError(
            f"loss={shown(loss)} is not known: choose '{CROSS_ENTROPY}' or '{SQUARED}', or give a function from "
            "outputs and targets to one loss for each sample."
        )


def features_and_targets(federation: Federation, loss) -> tuple[np.ndarray, np.ndarray]:
    """Features in single precision; targets as whole numbers where they are classes, in single precision elsewhere."""
    x, y = federation.features, federation.y
    if loss == CROSS_ENTROPY and (y.dtype.kind not in "biu" or y.min() < 0):
        raise UserError("The cross-entropy needs one class per sample: y must hold the whole numbers 0, 1, …")
    whole = y.dtype.kind in "biu" and loss != SQUARED
    return x.astype(np.float32), y.astype(np.int32 if whole else np.float32)


def check_outputs(shape: tuple[int, ...], y: np.ndarray, loss, samples: int) -> None:
    """The model gives a row or a number for each sample, and one output for each class."""
    if len(shape) not in (1, 2) or shape[0] != samples:
        raise UserError(f"For {samples} samples the model gives outputs of shape {shape}: a row or a number for each.")
    if loss == CROSS_ENTROPY and (len(shape) != 2 or shape[1] <= y.max()):
        raise UserError(f"The cross-entropy needs one output for each of the {y.max() + 1} classes, not {shape[1:]}.")
    if loss == SQUARED and shape not in ((samples,), (samples, 1)):
        raise UserError(f"The squared loss needs one output for each sample, and the model has the shape {shape}.")


def check_losses(shape: tuple[int, ...], samples: int) -> None:
    """The loss is one number for each sample."""
    if shape != (samples,):
        raise UserError(f"For {samples} samples the loss has the shape {shape}: give one for each, and do not average.")


def predicted(outputs: np.ndarray) -> np.ndarray:
    """The class with the largest output, or the only output."""
    several = outputs.ndim == 2 and outputs.shape[1] > 1
    return outputs.argmax(axis=1) if several else outputs.reshape(len(outputs))


def chances(outputs: np.ndarray) -> np.ndarray:
    """The softmax of several outputs."""
    if outputs.ndim != 2 or outputs.shape[1] < 2:
        raise UserError("This model predicts numbers, which have no probabilities: use predict(x).")
    return softmax(outputs.astype(np.float64))


def metrics(problem: Problem, losses: np.ndarray, outputs: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """``loss`` of each domain, and ``accuracy`` of a classifier."""
    found = {"loss": losses}
    if outputs.ndim == 2 and outputs.shape[1] > 1 and y.dtype.kind == "i":
        found["accuracy"] = outputs.argmax(axis=1) == y
    sums = {name: np.bincount(problem.domains, values, problem.sizes.size) for name, values in found.items()}
    return {name: total / problem.sizes for name, total in sums.items()}
