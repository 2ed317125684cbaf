"""How a public function answers a call that it cannot make sense of: one sentence, with the right name.

``@checked`` compares the arguments with the signature and its annotations before the function sees them. Which values
of a type make sense (a positive step, a budget that pays for a model) is for the function to check.
"""

import collections.abc
import difflib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, ParamSpec, TypeVar, Union

import numpy as np

from fedrepro.checks import check_known, is_number, is_whole, shown
from fedrepro.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

# What other libraries call a setting -> what it is, and what it may be called here.
_ELSEWHERE = {
    ("lr", "learning_rate", "client_lr", "client_learning_rate", "local_lr", "step_size", "eta", "gamma"): (
        "the learning rate",
        ("step", "initial_step", "rate"),
    ),
    ("server_lr", "server_learning_rate", "global_lr"): ("the learning rate of the server", ("server_step",)),
    ("batch_size", "minibatch_size", "local_batch_size", "train_batch_size"): ("the batch size", ("batch", "batches")),
    ("n_rounds", "num_rounds", "comm_rounds", "global_rounds", "total_rounds", "num_server_rounds", "n_estimators"): (
        "the number of rounds",
        ("rounds", "steps"),
    ),
    ("n_steps", "num_steps", "n_iter", "num_iter", "max_iter", "iterations", "rounds", "steps"): (
        "the number of steps",
        ("steps", "rounds"),
    ),
    ("epochs", "num_epochs", "n_epochs", "local_epochs", "client_epochs"): (
        "the length of training",
        ("epochs", "steps", "rounds"),
    ),
    ("optimizer", "client_optimizer", "client_opt", "opt"): ("the optimiser", ("client_optimiser", "optimiser")),
    ("server_optimizer", "server_opt"): ("the optimiser of the server", ("server_optimiser",)),
    ("num_clients", "n_clients", "num_clients_per_round", "sample_clients", "fraction_fit", "client_fraction"): (
        "the number of clients in a round",
        ("clients_per_round",),
    ),
    ("random_state", "random_seed", "rng", "key"): ("the seed", ("seed",)),
    ("test_data", "test_set", "eval_data", "validation_data"): ("the test data", ("test",)),
    ("data", "dataset", "clients", "train", "train_data"): ("the data set", ("federation",)),
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Answer arguments that do not fit the signature with one sentence; the signature and the docs stay as they are."""
    parameters = inspect.signature(function).parameters
    name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = _arguments(name, parameters, args, kwargs)
        for parameter, value in given.items():
            _check_suits(parameter, value, parameters[parameter].annotation)
        _check_complete(name, parameters, given)
        for callback in given.get("callbacks", ()):
            if hasattr(callback, "begins"):
                callback.begins(name, {key: one.default for key, one in parameters.items()} | given)
        try:
            return function(*args, **kwargs)
        except MemoryError as error:
            raise UserError(f"{name} with these settings does not fit into the memory ({error}).") from error

    return call


def _arguments(name: str, parameters: Mapping[str, inspect.Parameter], args: tuple, kwargs: Mapping) -> dict[str, Any]:
    """Parameter to argument."""
    by_position = [key for key, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    named = [key for key in parameters if key != "self"]
    for given in kwargs:
        if given not in parameters:
            raise UserError(f"{name} has no {given!r}: {_right_name(given, named)}.")
    if len(args) > len(by_position):
        first = " and ".join(key for key in by_position if key != "self")
        raise UserError(f"{name} takes {first} by position and everything else by name, as in {named[-1]}=….")
    given = dict(zip(by_position, args, strict=False))
    for key in given.keys() & kwargs.keys():
        raise UserError(f"{name} is given {key!r} twice.")
    return {**given, **kwargs}


def _check_complete(name: str, parameters: Mapping[str, inspect.Parameter], given: Mapping) -> None:
    missing = [key for key, one in parameters.items() if one.default is one.empty and key not in given]
    if missing:
        raise UserError(f"{name} needs {' and '.join(missing)}.")


def _right_name(given: str, named: list[str]) -> str:
    for elsewhere, (meaning, here) in _ELSEWHERE.items():
        ours = [key for key in here if key in named]
        if given in elsewhere and ours:
            return f"{meaning} is called {ours[0]!r}"
    close = difflib.get_close_matches(given, named, n=1, cutoff=0.7)
    return f"the nearest name is {close[0]!r}" if close else f"its settings are {', '.join(named)}"


def _check_suits(name: str, value, annotation) -> None:
    if annotation is inspect.Parameter.empty or _suits(value, annotation):
        return
    if name == "model":  # `fedrepro.models.problem.problem_of` says what it lacks
        return
    if typing.get_origin(annotation) is Literal:
        check_known(name, value, typing.get_args(annotation))
    advice = getattr(annotation, "how_to_make", None)  # of a class of ours that is not made by its constructor
    raise UserError(f"{name}={shown(value)} is not {_described(annotation)}{f': {advice}' if advice else ''}.")


def _suits(value, annotation) -> bool:
    """Whether a value is of the annotated kind; kinds that are not known here suit."""
    kind, parts = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if kind is Any:
        return True
    if kind in (Union, types.UnionType):
        return any(_suits(value, part) for part in parts)
    if kind is Literal:
        return isinstance(value, str) and value in parts
    if kind is int:
        return is_whole(value)
    if kind is float:
        return is_number(value)
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is np.ndarray or (kind is collections.abc.Sequence and parts[0] in (int, float)):
        return _are_numbers(value, dimensions=1 if kind is not np.ndarray else None)
    if kind is collections.abc.Callable:
        return callable(value) and not isinstance(value, type)
    if kind is collections.abc.Sequence and typing.get_origin(parts[0]) is collections.abc.Callable:
        return isinstance(value, list | tuple) and all(_suits(one, parts[0]) for one in value)
    if kind is collections.abc.Mapping:
        return isinstance(value, Mapping) and all(_suits(one, parts[1]) for one in value.values())
    if getattr(kind, "_is_protocol", False):
        return not isinstance(value, type) and callable(getattr(value, _first_method(kind), None))
    return kind is collections.abc.Sequence or not isinstance(kind, type) or isinstance(value, kind)


def _are_numbers(value, dimensions: int | None) -> bool:
    if isinstance(value, str | bytes | collections.abc.Set | Mapping) or np.ma.isMaskedArray(value):
        return False
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return False
    return array.dtype.kind in "iuf" and array.ndim > 0 and dimensions in (None, array.ndim)


def _first_method(protocol: type) -> str:
    """What an object must have at the least to be taken for one of this kind."""
    return next(key for key in vars(protocol) if not key.startswith("_"))


def _described(annotation) -> str:
    kind, parts = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if kind in (Union, types.UnionType):
        return " or ".join(_described(part) for part in parts)
    if kind is Literal:
        return " or ".join(map(repr, parts))
    if kind is collections.abc.Mapping:
        return f"a dict whose values are each {_described(parts[1])}"
    if getattr(kind, "_is_protocol", False):
        return f"one of the {kind.__name__} of fedrepro, or an object like them with {_first_method(kind)}()"
    if kind is collections.abc.Sequence and typing.get_origin(parts[0]) is collections.abc.Callable:
        return "a list of functions"
    known = {
        int: "a whole number",
        float: "a number of 64 bits",
        bool: "True or False",
        types.NoneType: "None",
        collections.abc.Sequence: "a list of numbers",
        np.ndarray: "an array of numbers",
        collections.abc.Callable: "a function",
    }
    return known.get(kind) or f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"
