"""Tiny trials of every algorithm, whose fingerprints say whether two machines give the same bits.

``fedrepro doctor`` compares them with the committed ones of ``fingerprints.json``, and the tests compare emulated
processors. The trials need no data set. Sizes are small, but large enough for the libraries to take their blocked,
vectorised paths.

``tools/fingerprints.py`` writes ``fingerprints.json``: run it in an environment of each branch of ``requirements.lock``
when a pin changes, or when a commit that says so changes what an algorithm computes.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Iterable
from importlib import metadata, resources

import numpy as np

from fedrepro import algorithms
from fedrepro.data.federation import Federation
from fedrepro.models.ensemble import Ensemble, from_predictions, unigrams
from fedrepro.models.lstm import LSTM
from fedrepro.models.networks import CNN, MLP
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression
from fedrepro.models.regressors import train_zoo, zoo_members
from fedrepro.trace import Trace

_LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "scikit-learn", "jaxlib")


def fedboost() -> Trace:
    texts = _texts()
    return algorithms.fedboost(texts, unigrams(texts), rounds=300, step=0.05, budget=3, evaluate=5)


def aflboost() -> Trace:
    texts = _texts()
    given = {"rounds": 300, "step": 0.05, "step_domains": 0.05, "budget": 3, "loss": "squared", "mirror": "euclidean"}
    return algorithms.aflboost(texts, unigrams(texts), **given, evaluate=5)


def afl() -> Trace:
    given = {"steps": 500, "step": 0.05, "step_domains": 0.02, "batch": 3, "optimiser": "adam"}
    return algorithms.afl(_samples(classes=2), LogisticRegression(), **given, evaluate=5)


def _averaging(name: str, **settings) -> Trace:
    algorithm = getattr(algorithms, name)
    given = {"rounds": 5, "step": 0.1, "epochs": 2, "batch": 7, "evaluate": 5}
    return algorithm(_samples(dtype="float32"), SoftmaxRegression(5), **given, **settings)


def fedavg() -> Trace:
    return _averaging("fedavg", server_optimiser="adam", server_step=0.1)


def scaffold() -> Trace:
    return _averaging("scaffold")


def agnostic_fedavg() -> Trace:
    return _averaging("agnostic_fedavg", step_domains=0.05)


def approx_fedavg() -> Trace:
    return _averaging("approx_fedavg", mu=0.1)


def efl_fg() -> Trace:
    stream, zoo = _stream_and_zoo()
    return algorithms.efl_fg(stream, zoo, budget=3.0, rate=0.1, exploration=0.1, evaluate=5)


def online_fedboost() -> Trace:
    stream, zoo = _stream_and_zoo()
    return algorithms.online_fedboost(stream, zoo, budget=3.0, step=0.05, evaluate=5)


def multiboost() -> Trace:
    return algorithms.multiboost(_samples(classes=2), rounds=10, evaluate=5)


def fed_multiboost() -> Trace:
    given = {"rounds": 10, "initial_step": 0.4, "clients_per_round": 3, "stumps_per_round": 40}
    return algorithms.fed_multiboost(_samples(classes=2), **given, evaluate=5)


def irm_regression() -> Trace:
    given = {"steps": 30, "step": 0.05, "penalty": 10.0, "batch": 16}
    return algorithms.irm(_samples(classes=2), LogisticRegression(), **given, evaluate=5)


def irm_network() -> Trace:
    given = {"steps": 5, "step": 0.01, "penalty": 10.0, "batch": 64}
    return algorithms.irm(_images(), MLP(5, hidden=(48,)), **given, evaluate=2)


def cnn() -> Trace:
    given = {"steps": 3, "step": 0.05, "step_domains": 0.01, "batch": 20}
    return algorithms.afl(_images(), CNN(5, filters=8, dense=32), **given, evaluate=2)


def lstm() -> Trace:
    model = LSTM(vocabulary=300, units=64, layers=1, window=20, dropout=0.2)
    words = _generator().integers(300, size=2000)
    texts = Federation.from_arrays(None, words, domains=_generator().permutation(2000) % 2)
    return algorithms.afl(texts, model, steps=3, step=0.5, step_domains=0.01, batch=10, clip=1.0, evaluate=2)


def omni_fedge() -> Trace:
    model = CNN(5, filters=4, dense=16)
    return algorithms.omni_fedge(_images(), model, rounds=3, step=0.05, batches=5, evaluate=2)


TRIALS: dict[str, Callable[[], Trace]] = {
    trial.__name__: trial
    for trial in (
        fedboost,
        aflboost,
        afl,
        fedavg,
        scaffold,
        agnostic_fedavg,
        approx_fedavg,
        efl_fg,
        online_fedboost,
        multiboost,
        fed_multiboost,
        irm_regression,
        irm_network,
        cnn,
        lstm,
        omni_fedge,
    )
}


def computed(names: Iterable[str] = TRIALS) -> dict[str, str]:
    """The fingerprints that this process gives: hashes of the bytes of traces."""
    return {name: hashlib.sha256(_measured(TRIALS[name]())).hexdigest()[:16] for name in names}


def _measured(trace: Trace) -> bytes:
    """What was measured and learned, without names and model."""
    return Trace(trace.columns, trace.final).to_bytes()


def committed() -> dict[str, dict[str, str]]:
    """The fingerprints to expect, by `versions`."""
    return json.loads(resources.files("fedrepro").joinpath("fingerprints.json").read_text(encoding="utf-8"))


def versions() -> str:
    """The versions that bits depend on."""
    return ", ".join(f"{name} {metadata.version(name)}" for name in _LIBRARIES)


# --- what the trials learn from --------------------------------------------------------------------------------------


def _generator() -> np.random.Generator:
    return np.random.default_rng(0)


def _texts() -> Federation:
    rng = _generator()
    words = (rng.random(900) ** 2 * 40).astype(np.int64)
    return Federation.from_arrays(None, words, clients=np.arange(900) % 9, domains=np.arange(900) % 3)


def _samples(classes: int = 5, dtype: str = "float64") -> Federation:
    rng = _generator()
    x, y = rng.normal(size=(400, 30)), np.arange(400) % classes
    x[:, :classes] += np.eye(classes)[y]
    return Federation.from_arrays(
        x.astype(dtype), y, clients=rng.permutation(400) % 8, domains=rng.integers(3, size=400)
    )


def _images() -> Federation:
    rng = _generator()
    x, y = rng.random((120, 28, 28), dtype=np.float32), np.arange(120) % 5
    return Federation.from_arrays(x, y, clients=np.arange(120) % 3, domains=np.arange(120) % 3)


@functools.cache
def _stream_and_zoo() -> tuple[Federation, Ensemble]:
    rng = _generator()
    x = rng.normal(size=(300, 6))
    y = np.tanh(x @ rng.normal(size=6)) + 0.1 * rng.normal(size=300)
    zoo = train_zoo(zoo_members(), x[:100], y[:100], ridge=1.0, seed=0)
    stream = Federation.from_arrays(x[100:], y[100:], clients=np.arange(200) % 10)
    # Column t goes to row t of the stream, as when these fingerprints were taken; only repeatability counts here.
    return stream, from_predictions(
        zoo.predict(x[100:]).T[:, np.argsort(np.asarray(stream.order, dtype=np.int64))], stream
    )
