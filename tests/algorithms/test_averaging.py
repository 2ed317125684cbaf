"""What the averaging algorithms share: clients, batches, the record, and every mistake a user can make."""

import numpy as np
import pytest

from fedrepro.algorithms import (
    agnostic_fedavg,
    approx_fedavg,
    ditto,
    drfa,
    fedavg,
    fedmgda_plus,
    fedprox,
    q_fedavg,
    scaffold,
    term,
)
from fedrepro.algorithms.averaging.rounds import Clients
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.least_squares import LeastSquares
from fedrepro.models.regression import SoftmaxRegression

NEEDED = {
    fedavg: {},
    scaffold: {},
    agnostic_fedavg: {"step_domains": 0.1},
    approx_fedavg: {"mu": 2.0},
    q_fedavg: {"q": 1.0},
    term: {"tilt": 1.0},
    drfa: {"step_clients": 0.01, "local_steps": 2},
    fedprox: {"mu": 0.5},
    ditto: {"penalty": 0.5},
    fedmgda_plus: {"epsilon": 0.2, "server_step": 0.1},
}
every_one = pytest.mark.parametrize("algorithm", NEEDED, ids=lambda algorithm: algorithm.__name__)


def measurements(n=90, clients=6, domains=3, seed=0):
    """Clients of different sizes that hold several domains."""
    rng = np.random.default_rng(seed)
    client = np.concatenate([np.arange(clients), rng.choice(clients, n - clients, p=_falling(clients))])
    return Federation.from_arrays(
        rng.normal(size=(n, 3)), rng.normal(size=n), clients=client, domains=rng.integers(0, domains, n)
    )


def _falling(count):
    return np.arange(count, 0, -1) / np.arange(count + 1).sum()


def run(algorithm, federation=None, model=None, **settings):
    settings = {"rounds": 4, "step": 0.05, "evaluate": 4} | NEEDED[algorithm] | settings
    return algorithm(federation or measurements(), model or LeastSquares(), **settings)


class Watched:
    """Least squares that remember on which samples gradients were taken."""

    def __init__(self):
        self.rows = []

    def on(self, federation):
        problem = LeastSquares().on(federation)
        inner = problem.gradient

        def gradient(w, rows, weights):
            self.rows.append(tuple(rows))
            return inner(w, rows, weights)

        problem.gradient = gradient
        return problem


# --- clients and batches ---------------------------------------------------------------------------------------------


def test_all_algorithms_see_the_same_clients_and_batches():
    seen = []
    for algorithm in NEEDED.keys() - {drfa, ditto}:  # which draw by λ, and go through every batch twice
        watched = Watched()
        run(algorithm, model=watched, batch=4, clients_per_round=3, seed=5)
        seen.append(watched.rows)
    assert len(seen[0]) > 12
    assert all(rows == seen[0] for rows in seen)
    other = Watched()
    run(fedavg, model=other, batch=4, clients_per_round=3, seed=6)
    assert other.rows != seen[0]


def clients_of(federation, **settings):
    given = {"epochs": 1, "local_steps": None, "batch": 4, "clients_per_round": None, "seed": 0} | settings
    return Clients(federation, LeastSquares(), **given)


def test_an_epoch_goes_through_all_samples_of_the_client():
    federation = measurements()
    clients = clients_of(federation, epochs=3)
    for i in range(federation.n_clients):
        size = federation.sizes[i]
        work = clients.work(2, 0.1)
        batches = work.batches(i)
        assert len(batches) == work.steps(i) == 3 * -(-size // 4)
        once = batches[: len(batches) // 3]
        assert [rows.size for rows in once] == [4] * (size // 4) + [size % 4] * int(size % 4 > 0)
        assert sorted(np.concatenate(once)) == list(range(federation.offsets[i], federation.offsets[i + 1]))
        for first, again in zip(once * 3, batches, strict=True):  # the samples are split once a round
            np.testing.assert_array_equal(first, again)


def test_batches_change_with_client_round_and_seed_only():
    federation = measurements()
    one, again, other_seed = clients_of(federation), clients_of(federation, epochs=2), clients_of(federation, seed=1)
    same = again.work(3, 0.1).batches(0)[:2], one.work(3, 0.1).batches(0)[:2]
    np.testing.assert_array_equal(*same)
    for changed in (one.work(4, 0.1).batches(0), other_seed.work(3, 0.1).batches(0)):
        assert not np.array_equal(changed[:2], same[0])
    few = clients_of(federation, clients_per_round=2)
    np.testing.assert_array_equal(few.work(3, 0.1).batches(0)[:2], same[0])


def test_local_steps_go_round_the_batches():
    clients = clients_of(measurements(n=20, clients=2), epochs=None, local_steps=9, batch=5)
    work = clients.work(0, 0.1)
    batches = work.batches(1)
    length = -(-clients.federation.sizes[1] // 5)
    assert len(batches) == work.steps(1) == 9
    assert length < 9
    np.testing.assert_array_equal(batches[length], batches[0])


def test_without_a_batch_size_a_step_uses_all_samples():
    federation = measurements()
    clients = clients_of(federation, batch=None, epochs=2)
    work = clients.work(0, 0.1)
    assert [tuple(rows) for rows in work.batches(1)] == [tuple(work.rows(1))] * 2


def test_each_client_takes_part_equally_often():
    clients = clients_of(measurements(), clients_per_round=2)
    drawn = np.array([clients.drawn(t) for t in range(3000)])
    assert np.all(drawn[:, 0] < drawn[:, 1])
    often = np.bincount(drawn.ravel(), minlength=6)
    assert np.all(np.abs(often - 1000) < 5 * np.sqrt(3000 * (1 / 3) * (2 / 3)))
    np.testing.assert_array_equal(clients_of(measurements()).drawn(7), np.arange(6))


# --- the record ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "c"),
    [(algorithm, c) for algorithm in NEEDED for c in (2, 6) if (algorithm, c) != (drfa, 2)],  # which has its own test
    ids=lambda value: getattr(value, "__name__", value),
)
def test_scalars_are_those_of_the_pseudo_code(algorithm, c):
    trace = run(algorithm, clients_per_round=c, rounds=5, evaluate=[0, 2, 5])
    n, p = 3, 3
    down, up = {
        q_fedavg: (c * n, c * (n + 1)),
        term: (c * n, c * (n + 1)),
        drfa: (c * (2 * n + 1), c * (2 * n + 1)),
        fedprox: (c * n, c * n),
        ditto: (c * n, c * n),
        fedmgda_plus: (c * n, c * n),
        fedavg: (c * n, c * n),
        scaffold: (2 * c * n, 2 * c * n),
        agnostic_fedavg: (c * (n + p), c * (n + 2 * p + 1)),
        approx_fedavg: (c * n, c * (n + 1)),
    }[algorithm]
    np.testing.assert_array_equal(trace["round"], [0, 2, 5])
    np.testing.assert_array_equal(trace["sent"], np.array([0, 2, 5]) * down)
    np.testing.assert_array_equal(trace["received"], np.array([0, 2, 5]) * up)
    totals = {scaffold: 2 * c * n, agnostic_fedavg: c * (3 * p + 1), drfa: 2 * c * (n + 1)}
    totals |= dict.fromkeys((approx_fedavg, q_fedavg, term), c)
    assert down + up == 2 * c * n + totals.get(algorithm, 0)


def test_scalars_of_drfa_depend_on_who_is_drawn():
    """The m clients that train are drawn by λ with replacement, those that report evenly without."""
    n, m, rounds = 3, 4, 12
    trace = run(drfa, clients_per_round=m, rounds=rounds, evaluate=list(range(rounds + 1)), step_clients=0.2)
    clients, sent, received, different = clients_of(measurements(), clients_per_round=m), [0], [0], []
    for t, mixture in enumerate(trace["mixture"][:-1]):
        drawn = set()
        for uniform in clients.uniforms(t, 1 + m)[1:]:  # the first is the snapshot's step
            reached = [sum(mixture[: i + 1]) for i in range(len(mixture))]
            drawn.add(next(i for i, upper in enumerate(reached) if uniform * reached[-1] < upper))
        d = len(drawn)
        different.append(d)
        sent.append(sent[-1] + d * (n + 1) + m * n)  # w and t' to those that train, the snapshot to those that report
        received.append(received[-1] + d * 2 * n + m)  # w and the snapshot of each, and the losses
    np.testing.assert_array_equal(trace["sent"], sent)
    np.testing.assert_array_equal(trace["received"], received)
    assert min(different) < max(different) <= m  # some were drawn twice


@every_one
def test_the_record_holds_losses_of_the_domains(algorithm):
    federation, test = measurements(), measurements(seed=9)
    trace = run(algorithm, federation, test=test)
    w = trace.final["w"]
    np.testing.assert_allclose(trace["loss"][-1], LeastSquares().on(federation).domain_losses(w))
    np.testing.assert_allclose(trace["test_loss"][-1], LeastSquares().on(test).domain_losses(w))
    assert trace["loss"][-1].mean() < trace["loss"][0].mean()
    assert "loss" not in run(algorithm, federation, training_losses=False).columns


@every_one
def test_same_seed_same_bits(algorithm):
    settings = {"batch": 3, "clients_per_round": 4}
    assert run(algorithm, **settings) == run(algorithm, **settings)
    assert run(algorithm, **settings) != run(algorithm, **settings, seed=1)


@every_one
def test_evaluations_change_nothing(algorithm):
    often, seldom = (run(algorithm, batch=3, evaluate=evaluate) for evaluate in (5, 2))
    np.testing.assert_array_equal(often.final["w"], seldom.final["w"])
    assert len(often) == 5
    assert len(seldom) == 2


# --- mistakes --------------------------------------------------------------------------------------------------------

MISTAKES = {
    "too many clients": ({"clients_per_round": 7}, "clients_per_round=7 is not a whole number from 1 to 6"),
    "no clients": ({"clients_per_round": 0}, "clients_per_round=0"),
    "both lengths": ({"epochs": 1, "local_steps": 2}, "Give either epochs or local_steps"),
    "no length": ({"epochs": None}, "Give either epochs or local_steps"),
    "no epochs": ({"epochs": 0}, "epochs=0 is not a whole number of at least 1"),
    "no local steps": ({"epochs": None, "local_steps": 0}, "local_steps=0 is not a whole number of at least 1"),
    "half a batch": ({"batch": 0.5}, "batch=0.5 is not a whole number"),
    "no threads": ({"threads": 0}, "threads=0 is not a whole number of at least 1"),
    "threads of NumPy": ({"threads": 2}, "threads=2: LeastSquares trains its clients one after the other"),
    "no rounds": ({"rounds": 0}, "rounds=0 is not a whole number of at least 1"),
    "no step": ({"step": 0.0}, "step=0.0 is not a positive number"),
    "step backwards": ({"step": -1.0}, "step=-1.0 is not a positive number"),
    "round beyond the end": ({"evaluate": [9]}, "evaluate must be a whole number, or name rounds from 0 to 4"),
}


@every_one
@pytest.mark.parametrize(("settings", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(algorithm, settings, message):
    if algorithm is drfa and settings.keys() & {"epochs", "local_steps"}:
        settings, message = {"local_steps": 0}, "local_steps=0 is not a whole number of at least 1"
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        run(algorithm, **settings)


OWN_MISTAKES = [
    (fedavg, {"server_optimiser": "nadam"}, "server_optimiser='nadam' is not known: choose from 'sgd', .*'yogi'"),
    (fedavg, {"client_optimiser": "nadam"}, "client_optimiser='nadam' is not known"),
    (fedavg, {"server_step": -1.0}, "server_step=-1.0 is not a positive number"),
    (fedavg, {"momentum": 1.0}, "momentum=1.0 is not a share"),
    (scaffold, {"option": "iii"}, "option='iii' is not known: choose from 'i', 'ii'"),
    (scaffold, {"server_step": 0.0}, "server_step=0.0"),
    (agnostic_fedavg, {"step_domains": 0.0}, "step_domains=0.0 is not a positive number"),
    (agnostic_fedavg, {"window": 0}, "window=0 is not a whole number of at least 1"),
    (agnostic_fedavg, {"normalise": "round"}, "normalise='round' is not known"),
    (agnostic_fedavg, {"initial_mixture": [1.0, 0.0, 0.0]}, "3 positive shares that sum to 1"),
    (agnostic_fedavg, {"initial_mixture": [0.5, 0.5]}, "3 positive shares"),
    (agnostic_fedavg, {"initial_counts": [1, 2, 0]}, "initial_counts must be 3 positive numbers"),
    (approx_fedavg, {"mu": 0.0}, "mu=0.0 is not a positive number"),
    (q_fedavg, {"q": -1.0}, "q=-1.0 is not a finite number of at least 0"),
    (q_fedavg, {"lipschitz": 0.0}, "lipschitz=0.0 is not a positive number"),
    (term, {"tilt": np.inf}, "tilt=inf is not a finite number"),
    (term, {"smoothing": 0.0}, "smoothing=0.0 is not a share"),
    (drfa, {"step_clients": -0.1}, "step_clients=-0.1 is not a finite number of at least 0"),
    (drfa, {"initial_mixture": [0.5, 0.5]}, "initial_mixture must be 6 shares that sum to 1"),
    (drfa, {"epochs": 2}, "drfa has no 'epochs'"),
    (fedprox, {"mu": -1.0}, "mu=-1.0 is not a finite number of at least 0"),
    (ditto, {"penalty": -1.0}, "penalty=-1.0 is not a finite number of at least 0"),
    (ditto, {"personal_step": 0.0}, "personal_step=0.0 is not a positive number"),
    (fedmgda_plus, {"epsilon": 1.5}, "epsilon=1.5 is not a share"),
    (fedmgda_plus, {"server_step": 0.0}, "server_step=0.0 is not a positive number"),
    (approx_fedavg, {"aggregate": "mean"}, "aggregate='mean' is not known"),
]


@pytest.mark.parametrize(("algorithm", "settings", "message"), OWN_MISTAKES)
def test_mistakes_of_their_own(algorithm, settings, message):
    with pytest.raises(UserError, match=message):
        run(algorithm, **settings)


@every_one
def test_a_domain_without_samples(algorithm):
    federation = Federation.from_arrays(
        np.ones((4, 2)), np.arange(4), clients=[0, 0, 1, 1], domains=np.zeros(4, int), domain_names=["here", "nowhere"]
    )
    for model in (LeastSquares(), SoftmaxRegression(4)):
        with pytest.raises(UserError, match="The domain 'nowhere' has no samples: leave it out"):
            run(algorithm, federation, model)


@every_one
def test_test_data_of_another_kind(algorithm):
    with pytest.raises(UserError, match="must have the domains of the federation"):
        run(algorithm, test=measurements(domains=2))
    wide = measurements()
    wide = Federation.from_arrays(np.hstack([wide.x, wide.x]), wide.y, domains=wide.domains)
    with pytest.raises(UserError, match="must have the features of the federation"):
        run(algorithm, test=wide)


@every_one
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_steps_that_are_too_long_are_told(algorithm):
    if algorithm in (q_fedavg, fedmgda_plus):  # they divide by the length of a change: no step leads to infinity
        assert np.isfinite(run(algorithm, step=1e3, rounds=200).final["w"]).all()
        return
    with pytest.raises(UserError, match=r"no longer finite after \d+ rounds: choose a smaller step"):
        run(algorithm, step=1e3, rounds=200)
