"""Rounds of FedAvg on MNIST against Flower's simulation engine and a plain loop in NumPy, and up to a million clients.

All take the same batches, and what they learn is compared before they are timed.
"""

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from fedrepro.algorithms.averaging.rounds import Clients
from fedrepro.bench.harness import Row, ratio, row
from fedrepro.data.federation import Federation
from fedrepro.models.regression import SoftmaxRegression
from fedrepro.settings import usable_cores

GROUP = "FedAvg"
BATCH, STEP, CLASSES = 10, 0.05, 10


def mnist(clients: int = 100) -> Federation:
    """The training images of MNIST, dealt out evenly.

    Raises
    ------
    DataUnavailable
        Where no source has MNIST.
    """
    from fedrepro.data.sources import finder

    images = finder.load("mnist")
    x = images.x_train.reshape(len(images.y_train), -1).astype(np.float32) / np.float32(255)
    return Federation.from_arrays(x, images.y_train.astype(np.int64), clients=np.arange(len(x)) * clients // len(x))


def at_work(federation: Federation, threads: int = 1) -> Clients:
    """All clients of the federation, with an epoch of softmax regression for each round."""
    length = {"epochs": 1, "local_steps": None, "batch": BATCH, "clients_per_round": None}
    return Clients(federation, SoftmaxRegression(CLASSES), **length, threads=threads, seed=0)


def our_round(clients: Clients, w: np.ndarray, t: int) -> np.ndarray:
    """The parameters after a round of FedAvg, draws included."""
    work = clients.work(t, STEP)
    return w + clients.problem.averaged_change(w, work, clients.weights[work.clients])


def numpy_round(clients: Clients, orders: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The same as one writes it in NumPy; the order of the samples is given."""
    federation, outputs = clients.federation, CLASSES
    x, y = federation.features, federation.y
    start, start_biases = (part.astype(np.float32) for part in (w[:-outputs].reshape(outputs, -1), w[-outputs:]))
    total, total_biases = np.zeros(start.shape), np.zeros(outputs)
    for i in range(federation.n_clients):
        weights, biases = start.copy(), start_biases.copy()
        order = orders[federation.offsets[i] : federation.offsets[i + 1]]
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
        total += federation.client_weights[i] * (weights - start)
        total_biases += federation.client_weights[i] * (biases - start_biases)
    return w + np.concatenate([total.ravel(), total_biases])


def orders_of(clients: Clients, t: int) -> np.ndarray:
    """The samples of all clients in the order of their batches in round t."""
    work = clients.work(t, STEP)
    return np.concatenate([rows for i in work.clients for rows in work.batches(i)])


def mnist_rows(federation: Federation | None = None, *, repeats: int = 5) -> list[Row]:
    """A round of FedAvg on MNIST: 100 clients, one local epoch, batches of 10."""
    clients = at_work(mnist() if federation is None else federation)
    w, orders = np.zeros(clients.problem.n_parameters), orders_of(clients, 0)
    # Both compute in single precision, in another order: 60 steps of a client leave rounding of 1e-6.
    np.testing.assert_allclose(our_round(clients, w, 0), numpy_round(clients, orders, w), atol=1e-5)
    measured = ratio(lambda: our_round(clients, w, 0), lambda: numpy_round(clients, orders, w), repeats=repeats)
    return [row(GROUP, _case(clients), measured, target=4.0, peer_name="NumPy")]


def _case(clients: Clients) -> str:
    return f"{clients.federation.n_clients} clients, a round of an epoch, batches of {BATCH}"


# --- Flower ----------------------------------------------------------------------------------------------------------


def flower_python() -> Path:
    """The Python of the environment that ``make bench`` makes for Flower, beside our own."""
    python = Path(sys.prefix).with_name(".venv-bench") / "bin" / "python"
    if not python.exists():
        raise ImportError("Flower is not installed: make bench installs it into .venv-bench.")
    return python


def flower_rows(federation: Federation | None = None, *, rounds: int = 4) -> list[Row]:
    """The same rounds in Flower's simulation engine, in processes of its own; ours are timed before and after.

    Both use all cores. The first row is the promise; the second is ours with a single thread.

    Raises
    ------
    ImportError
        Where Flower is not installed, or does not work.
    """
    python = flower_python()
    federation, cores = mnist() if federation is None else federation, usable_cores()
    clients = {threads: at_work(federation, threads) for threads in (cores, 1)}
    before = {threads: _our_rounds(clients[threads], rounds) for threads in clients}
    with tempfile.TemporaryDirectory() as folder:
        _write_for_flower(Path(folder), clients[1], rounds)
        _run_flower(python, folder)
        with np.load(Path(folder) / "found.npz") as found:
            theirs = found["seconds"].tolist()
            learned = np.concatenate([found["weights"].ravel(), found["biases"]])
    rows = []
    for target, threads in ((30.0, cores), (None, 1)):
        seconds, ours = before[threads]
        np.testing.assert_allclose(ours, learned, atol=1e-4)  # Flower keeps single precision between rounds as well
        seconds = seconds + _our_rounds(clients[threads], rounds)[0]
        mine, peer = statistics.median(seconds), statistics.median(theirs)
        rows.append(
            Row(
                group=GROUP,
                case=f"{_case(clients[1])}, {threads} thread{'s' if threads > 1 else ''}",
                ours_seconds=mine,
                peer_seconds=peer,
                ratio=peer / mine,
                target=target,
                peer_name="Flower",
                note=f"its rounds take {min(theirs):.2f} to {max(theirs):.2f} s, the first not counted",
            )
        )
    return rows


def _run_flower(python: Path, folder: str, patience: float = 600.0) -> None:
    """Run the script that needs Flower. On a machine that is too busy its workers may never come up."""
    script = Path(__file__).with_name("flower_peer.py")
    try:
        subprocess.run([python, script, folder], capture_output=True, text=True, check=True, timeout=patience)
    except subprocess.TimeoutExpired:
        raise ImportError(f"Flower's simulation did not end within {patience:.0f} s.") from None
    except subprocess.CalledProcessError as failure:
        last = (failure.stderr.strip() or "nothing was said").splitlines()[-1]
        raise ImportError(f"Flower's simulation failed: {last}") from None


def _our_rounds(clients: Clients, rounds: int) -> tuple[list[float], np.ndarray]:
    """The seconds of each round, and what is learned after the last."""
    our_round(clients, np.zeros(clients.problem.n_parameters), 0)  # compiles
    w, seconds = np.zeros(clients.problem.n_parameters), []
    for t in range(rounds):
        start = time.perf_counter()
        w = our_round(clients, w, t)
        seconds.append(time.perf_counter() - start)
    return seconds, w


def _write_for_flower(folder: Path, clients: Clients, rounds: int) -> None:
    federation = clients.federation
    np.save(folder / "x.npy", federation.features)
    np.save(folder / "y.npy", federation.y)
    np.save(folder / "orders.npy", np.stack([orders_of(clients, t) for t in range(rounds)]))
    np.savez(
        folder / "settings.npz",
        rounds=rounds,
        clients=federation.n_clients,
        batch=BATCH,
        step=STEP,
        offsets=federation.offsets,
        weights=np.zeros((CLASSES, federation.features.shape[1]), np.float32),
        biases=np.zeros(CLASSES, np.float32),
    )


# --- many clients ----------------------------------------------------------------------------------------------------


def growth_rows(
    *, sizes: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000), samples: int = 2, features: int = 20
) -> list[Row]:
    """Seconds per client of a round as clients grow in number, at two samples of 20 features each.

    "Ours" is a client among many, "the peer's" is a client among 1,000: a ratio of 1 is linear growth. The note tells
    how much the round adds to the memory that the federation takes. All is measured in a new process, whose memory has
    no history.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        seconds, megabytes = fresh.submit(_grow, tuple(sizes), samples, features).result()
    few = seconds[0] / sizes[0]
    return [
        Row(
            group=GROUP,
            case=f"{size:,} clients of {samples} samples, one full step: time per client",
            ours_seconds=time_of_round / size,
            peer_seconds=few,
            ratio=few * size / time_of_round,
            target=1 / 1.5,
            peer_name=f"{sizes[0]:,} clients",
            note=f"a round takes {time_of_round:.3g} s, and {more:.0f} MB besides the federation",
        )
        for size, time_of_round, more in zip(sizes[1:], seconds[1:], megabytes[1:], strict=True)
    ]


def _grow(sizes: tuple[int, ...], samples: int, features: int) -> tuple[list[float], list[float]]:
    """For each number of clients the seconds of a round, draws included, and the memory at its height beyond the data.

    The seconds are those of the processor: a round of 1,000 clients is over before a busy machine interrupts it, one of
    a million is not.
    """
    rng, seconds, more = np.random.default_rng(0), [], []
    our_round(_small_clients(rng, 10, samples, features), np.zeros(CLASSES * (features + 1)), 0)  # compiles
    for size in sizes:
        clients, w = _small_clients(rng, size, samples, features), np.zeros(CLASSES * (features + 1))
        before, found = _forget_peak(), []
        for t in range(max(3, min(50, 100_000 // size))):
            start = time.process_time()
            our_round(clients, w, t)
            found.append(time.process_time() - start)
        seconds.append(statistics.median(found))
        more.append(_megabytes("VmHWM") - before)
    return seconds, more


def _small_clients(rng: np.random.Generator, size: int, samples: int, features: int) -> Clients:
    x = rng.normal(size=(size * samples, features)).astype(np.float32)
    federation = Federation.from_arrays(
        x, rng.integers(0, CLASSES, len(x)), clients=np.repeat(np.arange(size), samples)
    )
    return at_work(federation)


def _forget_peak() -> float:
    """The memory of this process in MB, from which on its height is noted; NaN where the system is not Linux."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _megabytes("VmRSS")


def _megabytes(name: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(name))
