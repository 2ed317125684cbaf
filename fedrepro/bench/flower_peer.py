"""FedAvg of a softmax regression in Flower's simulation engine, timed; a script that needs Flower and NumPy only.

Flower asks for other versions of our dependencies, so that it lives in an environment of its own, and this script is
run there: ``python flower_peer.py FOLDER`` reads what `fedrepro.bench.fedavg` wrote into the folder and leaves
``found.npz`` with the seconds of each round and the parameters after the last one.

The clients are what one writes for Flower today: an app that answers messages, with a loop over batches in NumPy.
"""

import os
import sys
import time
from pathlib import Path

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
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


client = ClientApp()


@client.train()
def train(message, context):
    number = int(context.node_config["partition-id"])
    here = slice(SETTINGS["offsets"][number], SETTINGS["offsets"][number + 1])
    x, y = (np.load(FOLDER / f"{name}.npy", mmap_mode="r")[here] for name in ("x", "y"))
    at = message.content["config"]["server-round"] - 1
    order = np.load(FOLDER / "orders.npy", mmap_mode="r")[at, here] - here.start
    learned = local_epoch(x, y, order, *message.content["arrays"].to_numpy_ndarrays())
    answer = {"arrays": ArrayRecord(list(learned)), "metrics": MetricRecord({"num-examples": len(y)})}
    return Message(content=RecordDict(answer), reply_to=message)


class Timed(FedAvg):
    """Flower's own strategy, which notes when each round was aggregated."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.clock = []

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        failed = [reply.error for reply in replies if reply.has_error()]
        if failed or len(replies) != CLIENTS:
            raise RuntimeError(f"{len(failed)} of {len(replies)} clients failed in round {server_round}: {failed[:1]}")
        aggregated = super().aggregate_train(server_round, replies)
        self.clock.append(time.perf_counter())
        return aggregated


server = ServerApp()


@server.main()
def main(grid, context):
    strategy = Timed(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
    start = ArrayRecord([SETTINGS["weights"], SETTINGS["biases"]])
    weights, biases = strategy.start(grid, start, num_rounds=ROUNDS).arrays.to_numpy_ndarrays()
    # The first round also starts Ray's workers: only those after it are timed.
    np.savez(FOLDER / "found.npz", seconds=np.diff(strategy.clock), weights=weights, biases=biases)


if __name__ == "__main__":
    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
