"""Strategies for Flower (flwr): our algorithms with its Message API, with bits that repeat.

On the server a strategy, on the nodes `client_app` or `ensemble_app` (or a client of your own, whose replies `Task`
makes); in between Flower's own engines, or `LocalGrid`, which runs the nodes in this process::

    from fedrepro.flower import AgnosticFedAvg, LocalGrid, client_app, initial_arrays

    app = client_app(federation, model, step=0.1, batch=10)
    strategy = AgnosticFedAvg(domains=3, step_domains=0.1, fraction_evaluate=0.0)
    result = strategy.start(LocalGrid(app, 20), initial_arrays(federation, model), num_rounds=30)
"""

from fedrepro.extras import optional

with optional():
    import flwr as flwr

from fedrepro.flower.afl import AFL
from fedrepro.flower.averaging import AgnosticFedAvg, ApproxFedAvg, Scaffold
from fedrepro.flower.clients import client_app, ensemble_app, initial_arrays
from fedrepro.flower.ensembles import EFLFG, FedBoost
from fedrepro.flower.grid import LocalGrid
from fedrepro.flower.task import Task, answer_roll_call

__all__ = [
    "AFL",
    "EFLFG",
    "AgnosticFedAvg",
    "ApproxFedAvg",
    "FedBoost",
    "LocalGrid",
    "Scaffold",
    "Task",
    "answer_roll_call",
    "client_app",
    "ensemble_app",
    "initial_arrays",
]
