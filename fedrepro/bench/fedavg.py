"""Rounds of FedAvg on MNIST against a plain loop in NumPy, Flower and FedJAX, and up to a million clients.

All take the same batches, and what they learn is compared before they are timed. Ours is `fedavg` as a user calls it.
"""

import contextlib
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from fedrepro import target
from fedrepro.algorithms import agnostic_fedavg, approx_fedavg, fedavg, scaffold
from fedrepro.algorithms.averaging.rounds import Clients
from fedrepro.bench.harness import Clock, Ratio, Row, ratio, row
from fedrepro.bench.limits import Work, machine_limits
from fedrepro.data.federation import Federation
from fedrepro.models.regression import SoftmaxRegression
from fedrepro.settings import usable_cores

GROUP = "FedAvg"
BATCH, STEP, CLASSES = 10, 0.05, 10
KIN: dict[Callable, dict[str, float]] = {
    scaffold: {},
    agnostic_fedavg: {"step_domains": 0.05},
    approx_fedavg: {"mu": 0.1},
}


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


def at_work(federation: Federation) -> Clients:
    """The clients of `learned`, for the batches that they get."""
    length = {"epochs": 1, "local_steps": None, "batch": BATCH, "clients_per_round": None}
    return Clients(federation, SoftmaxRegression(CLASSES), **length, seed=0)


def learned(federation: Federation, rounds: int, algorithm: Callable = fedavg, **settings) -> np.ndarray:
    """The parameters after rounds of an epoch of softmax regression, by the function that a user calls."""
    given = {"rounds": rounds, "step": STEP, "batch": BATCH, "evaluate": [rounds], "training_losses": False}
    return algorithm(federation, SoftmaxRegression(CLASSES), **given, **settings).final["w"]


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


def numpy_rounds(clients: Clients, orders: Sequence[np.ndarray]) -> np.ndarray:
    """Rounds in NumPy from parameters of 0 on, as ours starts."""
    w = np.zeros(clients.problem.n_parameters)
    for order in orders:
        w = numpy_round(clients, order, w)
    return w


def mnist_rows(federation: Federation | None = None, *, rounds: int = 4, repeats: int = 5) -> list[Row]:
    """Rounds of FedAvg on MNIST (100 clients, one local epoch, batches of 10), and of its kin against them.

    Ours are whole runs, with what they set up and draw; the orders of the samples are given to NumPy.
    """
    federation = mnist() if federation is None else federation
    clients = at_work(federation)
    orders = [orders_of(clients, t) for t in range(rounds)]
    # Both compute in single precision, in another order: 60 steps of a client leave rounding of 1e-6.
    np.testing.assert_allclose(learned(federation, rounds), numpy_rounds(clients, orders), atol=1e-4)
    work = _work_of_a_round(federation)
    measured = ratio(lambda: learned(federation, rounds), lambda: numpy_rounds(clients, orders), repeats=repeats)
    rows = [row(GROUP, _case(federation), _a_part(measured, rounds), target=3.5, peer_name="NumPy", work=work)]
    for algorithm, settings in KIN.items():
        measured = ratio(
            lambda algorithm=algorithm, settings=settings: learned(federation, rounds, algorithm, **settings),
            lambda: learned(federation, rounds),
            repeats=repeats,
        )
        case = f"{algorithm.__name__}, the same round"
        rows.append(row(GROUP, case, _a_part(measured, rounds), target=1 / 1.5, peer_name="fedavg", work=work))
    return rows


def _a_part(measured: Ratio, rounds: int) -> Ratio:
    """The same for one of several rounds."""
    one = {"ours_seconds": measured.ours_seconds / rounds, "peer_seconds": measured.peer_seconds / rounds}
    return replace(measured, **one)


def _work_of_a_round(federation: Federation) -> Work:
    """Every sample is read once; its scores and its gradient take a multiply-add for each weight."""
    samples, features = federation.features.shape
    return Work(operations=4.0 * samples * features * CLASSES, bytes=federation.features.nbytes, single=True)


def _case(federation: Federation) -> str:
    return f"{federation.n_clients} clients, a round of an epoch, batches of {BATCH}"


# --- Flower and FedJAX -----------------------------------------------------------------------------------------------


def peers_python() -> Path:
    """The Python of the environment that ``make bench`` makes for Flower and FedJAX, beside our own."""
    python = Path(sys.prefix).with_name(".venv-bench") / "bin" / "python"
    if not python.exists():
        raise ImportError("Flower and FedJAX are not installed: make bench installs them into .venv-bench.")
    return python


def flower_rows(federation: Federation | None = None, *, rounds: int = 5) -> list[Row]:
    """The same rounds in Flower's simulation engine, by the clock on the wall; ours are timed before and after.

    Both use all cores. The first row is the promise; the second is ours with a single thread.

    Raises
    ------
    ImportError
        Where Flower is not installed, or does not work.
    """
    federation = mnist() if federation is None else federation
    cores = usable_cores()
    promises = {1: None, cores: 60.0}
    return [
        _against_another_library("Flower", federation, rounds, threads, time.perf_counter, "seconds", promises[threads])
        for threads in sorted(promises, reverse=True)
    ]


def fedjax_rows(federation: Federation | None = None, *, rounds: int = 5) -> list[Row]:
    """The same rounds in FedJAX, on one core, in processor time.

    Raises
    ------
    ImportError
        Where FedJAX is not installed, or does not work.
    """
    federation = mnist() if federation is None else federation
    return [_against_another_library("FedJAX", federation, rounds, 1, time.process_time, "processor", None)]


def _against_another_library(
    name: str, federation: Federation, rounds: int, threads: int, clock: Clock, column: str, promise: float | None
) -> Row:
    """A round of ours against one of a library that lives in an environment of its own; the first is not counted."""
    found = _found_by(name, federation, rounds)
    np.testing.assert_allclose(learned(federation, rounds, threads=threads), found["learned"], atol=1e-4)
    mine = statistics.median(_seconds_of_a_round(federation, rounds, threads, clock) for _ in range(5))
    theirs = statistics.median(found[column])
    return Row(
        group=GROUP,
        case=f"{_case(federation)}, {threads} thread{'s' if threads > 1 else ''}",
        ours_seconds=mine,
        peer_seconds=theirs,
        ratio=theirs / mine,
        target=promise,
        peer_name=name,
        note=f"its rounds take {min(found[column]):.2f} to {max(found[column]):.2f} s, the first not counted",
        limit_seconds=machine_limits().seconds(_work_of_a_round(federation)) / threads,
    )


@functools.cache
def _found_by(name: str, federation: Federation, rounds: int) -> dict[str, np.ndarray]:
    """What a script that needs another library has measured and learned."""
    with tempfile.TemporaryDirectory() as folder:
        _write_for_peers(Path(folder), at_work(federation), rounds)
        _run_peer(name, peers_python(), folder)
        with np.load(Path(folder) / "found.npz") as found:
            learned = np.concatenate([found["weights"].ravel(), found["biases"]])
            return {"learned": learned, **{key: found[key] for key in ("seconds", "processor") if key in found}}


def _run_peer(name: str, python: Path, folder: str, patience: float = 600.0) -> None:
    """Run the script that needs a library. On a machine that is too busy, Flower's workers may never come up."""
    script = Path(__file__).with_name(f"{name.lower()}_peer.py")
    # The variables that pin our libraries are not those of another environment, whose versions differ.
    pinned = target.variables()
    others = {key: value for key, value in os.environ.items() if key not in pinned}
    try:
        subprocess.run(
            [python, script, folder], capture_output=True, text=True, check=True, timeout=patience, env=others
        )
    except subprocess.TimeoutExpired:
        raise ImportError(f"{name} did not end within {patience:.0f} s.") from None
    except subprocess.CalledProcessError as failure:
        last = (failure.stderr.strip() or "nothing was said").splitlines()[-1]
        raise ImportError(f"{name} failed: {last}") from None


def _seconds_of_a_round(federation: Federation, rounds: int, threads: int, clock: Clock) -> float:
    """The time of a run, less that of a run of one round, which sets the same up."""
    times = []
    for count in (1, rounds):
        start = clock()
        learned(federation, count, threads=threads)
        times.append(clock() - start)
    return (times[1] - times[0]) / (rounds - 1)


def _write_for_peers(folder: Path, clients: Clients, rounds: int) -> None:
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
    how much a run adds to the memory that the federation takes. All is measured in a new process, whose memory has no
    history.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        seconds, megabytes = fresh.submit(_grow, tuple(sizes), samples, features).result()
    few = seconds[0] / sizes[0]
    a_client = Work(4.0 * samples * features * CLASSES, bytes=4.0 * samples * features, single=True)
    return [
        Row(
            group=GROUP,
            case=f"{size:,} clients of {samples} samples, one full step: time per client",
            ours_seconds=time_of_round / size,
            peer_seconds=few,
            ratio=few * size / time_of_round,
            target=1 / 1.5,
            peer_name=f"{sizes[0]:,} clients",
            note=f"a round takes {time_of_round:.3g} s, and a run {more:.0f} MB besides the federation",
            limit_seconds=machine_limits().seconds(a_client),
        )
        for size, time_of_round, more in zip(sizes[1:], seconds[1:], megabytes[1:], strict=True)
    ]


def _grow(sizes: tuple[int, ...], samples: int, features: int) -> tuple[list[float], list[float]]:
    """For each number of clients the seconds of a round, draws included, and the memory at its height beyond the data.

    The seconds are those of the processor: a round of 1,000 clients is over before a busy machine interrupts it, one of
    a million is not.
    """
    rng, seconds, more = np.random.default_rng(0), [], []
    learned(_small_clients(rng, 10, samples, features), 1)  # compiles
    for size in sizes:
        federation = _small_clients(rng, size, samples, features)
        before = _forget_peak()
        rounds, repeats = max(3, min(100, 100_000 // size)), 3 if size > 100_000 else 7
        found = [_seconds_of_a_round(federation, rounds, 1, time.process_time) for _ in range(repeats)]
        seconds.append(statistics.median(found))
        more.append(_megabytes("VmHWM") - before)
    return seconds, more


def _small_clients(rng: np.random.Generator, size: int, samples: int, features: int) -> Federation:
    x = rng.normal(size=(size * samples, features)).astype(np.float32)
    labels = rng.integers(0, CLASSES, len(x))
    return Federation.from_arrays(x, labels, clients=np.repeat(np.arange(size), samples))


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
