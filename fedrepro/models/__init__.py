"""Models: what a client trains or evaluates. Those of the algorithms that train one are imported from here.

Only what is asked for is loaded (PEP 562): regressions do without JAX. `fedrepro.models.problem` is the contract, and
shows how to write a model of one's own.
"""

from importlib import import_module

_HOME_OF = {
    "CNN": "fedrepro.models.networks",
    "LSTM": "fedrepro.models.lstm",
    "LeastSquares": "fedrepro.models.least_squares",
    "LogisticRegression": "fedrepro.models.regression",
    "MLP": "fedrepro.models.networks",
    "Model": "fedrepro.models.problem",
    "OneLogit": "fedrepro.models.one_logit",
    "Problem": "fedrepro.models.problem",
    "SoftmaxRegression": "fedrepro.models.regression",
    "from_jax": "fedrepro.models.foreign.from_jax",
    "from_sklearn": "fedrepro.models.foreign.from_sklearn",
    "from_torch": "fedrepro.models.foreign.from_torch",
}
__all__ = [*_HOME_OF]


def __getattr__(name: str):
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'fedrepro.models' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
