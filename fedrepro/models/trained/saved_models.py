"""Models of this package as JSON: the name of their class and its settings."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module

import numpy as np

# Those that are described by their settings alone; a file that names anything else is refused.
HOME_OF = {
    "AveragedNetwork": "fedrepro.models.averaged",
    "CNN": "fedrepro.models.networks",
    "LSTM": "fedrepro.models.lstm",
    "LeastSquares": "fedrepro.models.least_squares",
    "LogisticRegression": "fedrepro.models.regression",
    "MLP": "fedrepro.models.networks",
    "OneLogit": "fedrepro.models.one_logit",
    "ScikitLearnModel": "fedrepro.models.foreign.from_sklearn",
    "SoftmaxRegression": "fedrepro.models.regression",
}


def described(model) -> dict | None:
    """A model as JSON; None if it is code of the user's own."""
    if HOME_OF.get(type(model).__name__) != type(model).__module__ or not is_dataclass(model):
        return None
    return {
        "class": type(model).__name__,
        "settings": {field.name: _plain(getattr(model, field.name)) for field in fields(model)},
    }


def built(description: Mapping):
    """The model that was described."""
    name = description["class"]
    if name not in HOME_OF:
        raise ValueError(f"a model of an unknown class, {name!r}")
    settings = {key: built(one) if _is_model(one) else one for key, one in description["settings"].items()}
    return getattr(import_module(HOME_OF[name]), name)(**settings)


def _is_model(value) -> bool:
    return isinstance(value, Mapping) and set(value) == {"class", "settings"}


def _plain(value):
    """Numbers, lists and models as JSON has them."""
    if (model := described(value)) is not None:
        return model
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
