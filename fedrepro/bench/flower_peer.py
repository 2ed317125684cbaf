"""FedAvg of a softmax regression in Flower's simulation engine, timed; a script that needs Flower and NumPy only.

Flower asks for other versions of our dependencies, so that it lives in an environment of its own, and this script is
run there: ``python flower_peer.py FOLDER`` reads what `fedrepro.bench.fedavg` wrote into the folder and leaves
``found.npz`` with the seconds of each round and the parameters after the last one.

The clients are what one writes for Flower: a NumPyClient whose local epoch is a loop over batches in NumPy.
"""

import os
import sys
import time
from pathlib import Path

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation

FOLDER = Path(sys.argv[1])
SETTINGS = dict(np.load(FOLDER / "settings.npz"))  # plain arrays, which go to the workers
ROUNDS, CLIENTS, BATCH, STEP = (SETTINGS[name].item() for name in ("rounds", "clients", "batch", "step"))


def local_epoch(x, y, order, weights, biases):
    """One epoch of minibatch gradient descent, in the given order."""
    weights, biases = weights.copy(), biases.copy()
    for at in range(0, order.size, BATCH):
        rows = order[at : at + BATCH]
        features = x[rows]
        scores = features @ weights.T + biases
        slopes = np.exp(scores - scores.max(axis=1, keepdims=True))
        slopes /= slopes.sum(axis=1, keepdims=True)
        slopes[np.arange(rows.size), y[rows]] -= 1.0
        slopes *= np.float32(STEP / rows.size)
        weights -= slopes.T @ features
        biases -= slopes.sum(axis=0)
    return weights, biases


class Client(NumPyClient):
    def __init__(self, number):
        offsets = SETTINGS["offsets"]
        self.here = slice(offsets[number], offsets[number + 1])

    def fit(self, parameters, config):
        x, y = (np.load(FOLDER / f"{name}.npy", mmap_mode="r")[self.here] for name in ("x", "y"))
        order = np.load(FOLDER / "orders.npy", mmap_mode="r")[config["round"] - 1, self.here] - self.here.start
        return list(local_epoch(x, y, order, *parameters)), len(y), {}


class Timed(FedAvg):
    """Flower's own strategy, which notes when each round was aggregated."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.clock, self.last = [], None

    def aggregate_fit(self, server_round, results, failures):
        if failures or len(results) != CLIENTS:
            raise RuntimeError(f"{len(failures)} clients failed in round {server_round}: {failures[:1]}")
        aggregated = super().aggregate_fit(server_round, results, failures)
        self.clock.append(time.perf_counter())
        self.last = parameters_to_ndarrays(aggregated[0])
        return aggregated


def main():
    strategy = Timed(
        fraction_fit=1.0,
        fraction_evaluate=0.0,
        min_fit_clients=CLIENTS,
        min_available_clients=CLIENTS,
        initial_parameters=ndarrays_to_parameters([SETTINGS["weights"], SETTINGS["biases"]]),
        on_fit_config_fn=lambda number: {"round": number},
    )
    server = ServerApp(
        server_fn=lambda context: ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=ROUNDS))
    )
    client = ClientApp(client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client())
    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    # The first round also starts Ray's workers: only those after it are timed.
    np.savez(FOLDER / "found.npz", seconds=np.diff(strategy.clock), weights=strategy.last[0], biases=strategy.last[1])


if __name__ == "__main__":
    main()
