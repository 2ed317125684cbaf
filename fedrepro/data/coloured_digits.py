"""Coloured digits: MNIST with a colour that follows the label, more or less, depending on the environment.

The problem of Arjovsky, Bottou, Gulrajani and Lopez-Paz (Invariant Risk Minimization, arXiv:1907.02893, Section 5.2):
say whether a digit is at least 5. A quarter of the labels is wrong, so that the shape is right in 75 % of the cases;
the colour agrees with the label in 90 % and 80 % of them where one learns, and in 10 % where one is tested. Who relies
on the colour is better than who relies on the shape, until it is reversed.

Images have 14 × 14 pixels (every other one) in two channels, of which the colour leaves one empty. Other than there,
the test environments are made from MNIST's test images, and a validation environment, whose colour says nothing, from
training images that are not used otherwise.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.data.sources import finder
from fedrepro.errors import UserError
from fedrepro.streams import stream

TRAINING = (0.9, 0.8)  # how often the colour agrees with the label
VALIDATION = (0.9, 0.8, 0.5)
REVERSED = 0.1
LABEL_NOISE = 0.25
_TRAINING, _VALIDATION, _TEST = 0, 1, 2


class ColouredDigits(NamedTuple):
    """Federations whose domains, and clients, are the environments, named by how often colour and label agree."""

    train: Federation  # the two training environments
    valid: Federation  # held-out training images: both training environments, and one whose colour says nothing
    test: Federation  # test images in the training environments, for what is learned of them
    reversed: Federation  # the same images, with colours that say the opposite


def coloured_digits(
    variant: str | None = None, *, seed: int = 0, per_environment: int = 25_000, validation: int = 10_000
) -> ColouredDigits:
    """The environments for one seed, which varies who is where, the wrong labels and the colours.

    Parameters
    ----------
    variant
        Of the data set ``mnist``; by default the first that can be had.
    per_environment
        Images of each training environment; 25,000 in the original.
    validation
        Further training images, which all validation environments share.
    """
    mnist = finder.load("mnist", variant)
    return colour(
        (mnist.x_train, mnist.y_train),
        (mnist.x_test, mnist.y_test),
        seed=seed,
        per_environment=per_environment,
        validation=validation,
    )


def colour(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    seed: int,
    per_environment: int,
    validation: int,
) -> ColouredDigits:
    """The same for given images (n, 28, 28) with their digits."""
    wanted = len(TRAINING) * per_environment + validation
    if per_environment < 1 or validation < 1:
        raise UserError("per_environment and validation are numbers of images: give at least 1 of each.")
    if wanted > len(train[1]):
        raise UserError(
            f"{len(TRAINING)} environments of {per_environment} images and {validation} for validation are more than "
            f"the {len(train[1])} training images: ask for fewer."
        )
    order = stream("coloured_digits", "split", seed).permutation(len(train[1]))
    parts = [order[at * per_environment :][:per_environment] for at in range(len(TRAINING))]
    held_out = order[wanted - validation : wanted]
    everyone = np.arange(len(test[1]))
    environments = [_environment(train, *one, seed, _TRAINING) for one in zip(parts, TRAINING, strict=True)]
    return ColouredDigits(
        train=_joined(environments, TRAINING),
        valid=_joined([_environment(train, held_out, share, seed, _VALIDATION) for share in VALIDATION], VALIDATION),
        test=_joined([_environment(test, everyone, share, seed, _TEST) for share in TRAINING], TRAINING),
        reversed=_joined([_environment(test, everyone, REVERSED, seed, _TEST)], (REVERSED,)),
    )


def without_colour(federation: Federation) -> Federation:
    """The same digits in grey, both channels alike: what a model can learn that cannot be led astray."""
    grey = np.repeat(federation.features.sum(axis=-1, keepdims=True), 2, axis=-1)
    grey.flags.writeable = False
    return replace(federation, x=grey)


def name_of(agreement: float) -> str:
    """An environment's name."""
    return f"{round(100 * agreement)} %"


def _environment(
    images: tuple[np.ndarray, np.ndarray], rows: np.ndarray, agreement: float, seed: int, use: int
) -> tuple[np.ndarray, np.ndarray]:
    """Coloured images and labels; the draws are those of this use, agreement and seed."""
    x, digits = images[0][rows], images[1][rows]
    draws = stream("coloured_digits", "sampling", seed, client=round(100 * agreement), round=use)
    flipped, disagrees = draws.random(rows.size) < LABEL_NOISE, draws.random(rows.size) >= agreement
    labels = ((digits >= 5) ^ flipped).astype(np.int64)
    colours = labels ^ disagrees
    pixels = x[:, ::2, ::2].astype(np.float32) / np.float32(255)
    coloured = np.zeros((*pixels.shape, 2), dtype=np.float32)
    coloured[np.arange(rows.size), :, :, colours] = pixels
    return coloured, labels


def _joined(environments: Sequence[tuple[np.ndarray, np.ndarray]], agreements: Sequence[float]) -> Federation:
    owner = np.repeat(np.arange(len(agreements)), [len(labels) for _, labels in environments])
    names = tuple(map(name_of, agreements))
    return Federation.from_arrays(
        np.concatenate([x for x, _ in environments]),
        np.concatenate([labels for _, labels in environments]),
        clients=owner,
        domains=owner,
        client_names=names,
        domain_names=names,
    )
