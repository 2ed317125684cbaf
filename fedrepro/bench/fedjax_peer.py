"""FedAvg of a softmax regression in FedJAX, timed; a script that needs FedJAX, JAX and NumPy only.

It is run in the environment of the benchmark, as `flower_peer` is, reads the same files and leaves ``found.npz``. Its
clients hold the samples in the order of the round, so that FedJAX, told not to shuffle, makes the same batches.
"""

import os
import sys
import time
from pathlib import Path

os.environ |= {"NPROC": "1", "OPENBLAS_NUM_THREADS": "1"}  # one thread, as ours has

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms import fed_avg

FOLDER = Path(sys.argv[1])

if not hasattr(jax, "tree_map"):  # FedJAX 0.0.17 calls it by a name that JAX has dropped
    jax.tree_map = jax.tree_util.tree_map


def loss(parameters, batch, rng):
    scores = batch["x"] @ parameters["weights"].T + parameters["biases"]
    chosen = jnp.take_along_axis(scores, batch["y"][:, None], axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(scores, axis=1) - chosen)


def main():
    settings = np.load(FOLDER / "settings.npz")
    rounds, clients, batch = (settings[name].item() for name in ("rounds", "clients", "batch"))
    x, y, orders = (np.load(FOLDER / f"{name}.npy") for name in ("x", "y", "orders"))
    algorithm = fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(settings["step"].item()),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=batch, num_epochs=1, skip_shuffle=True),
    )
    state = algorithm.init({name: jnp.asarray(settings[name]) for name in ("weights", "biases")})
    keys, seconds, processor = jax.random.split(jax.random.PRNGKey(0), clients), [], []
    for order in orders[:rounds]:
        held = [
            (number, fedjax.ClientDataset({"x": x[order[first:last]], "y": y[order[first:last]]}), keys[number])
            for number, (first, last) in enumerate(zip(settings["offsets"], settings["offsets"][1:], strict=False))
        ]
        start, processor_start = time.perf_counter(), time.process_time()
        state, _ = algorithm.apply(state, held)
        jax.block_until_ready(state.params)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - processor_start)
    # The first round compiles.
    found = {name: np.asarray(value) for name, value in state.params.items()}
    np.savez(FOLDER / "found.npz", seconds=seconds[1:], processor=processor[1:], **found)


if __name__ == "__main__":
    main()
