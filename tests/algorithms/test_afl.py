"""Stochastic-AFL against an outside solver, its own step-by-step form, plain SGD, and every mistake a user can make."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.optimize import minimize

from fedrepro.algorithms import afl
from fedrepro.algorithms.domains import Box, CappedSimplex, Hull, L1Ball, Point, Simplex, only, skewness, uniform
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.problem import Problem
from fedrepro.models.regression import LogisticRegression, Minibatch, SoftmaxRegression


def in_domains(seed=0, n=240, domains=3, classes=2, dtype=np.float64):
    """Domains of different sizes whose labels follow different rules."""
    rng = np.random.default_rng(seed)
    domain = np.concatenate(
        [np.arange(domains), rng.choice(domains, n - domains, p=np.arange(1, domains + 1) / sum(range(domains + 1)))]
    )
    x = rng.normal(size=(n, 3))
    rule = rng.normal(size=(domains, 3, classes))
    scores = np.einsum("nf,nfc->nc", x, rule[domain]) + rng.gumbel(size=(n, classes))
    return Federation.from_arrays(x.astype(dtype), scores.argmax(axis=1), domains=domain)


class StepByStep:
    """A model of the library behind a face that only keeps the promises of a Problem."""

    def __init__(self, inner):
        self.inner = inner

    def on(self, federation):
        return _Plain(self.inner.on(federation))


class _Plain(Problem):
    def __init__(self, inner):
        self.domains, self.sizes, self.n_parameters = inner.domains, inner.sizes, inner.n_parameters
        self.initial, self.batches = inner.initial, inner.batches
        self.domain_losses, self.metrics = inner.domain_losses, inner.metrics


def assert_same(one, other, atol):
    assert one.columns.keys() == other.columns.keys()
    for name in one.columns:
        np.testing.assert_allclose(one[name], other[name], rtol=0, atol=atol, err_msg=name)
    for name in one.final:
        np.testing.assert_allclose(one.final[name], other.final[name], rtol=0, atol=atol, err_msg=name)


# --- the compiled run is the algorithm -------------------------------------------------------------------------------

RUNS = [
    {"version": version, "mirror": mirror, "gradient": gradient, "gradient_domains": domains, "optimiser": optimiser}
    for version, mirror, gradient, domains, optimiser in product(
        ("stochastic", "optimistic"),
        ("entropy", "euclidean"),
        ("per-domain", "weighted"),
        ("batch", "one-domain"),
        ("sgd", "momentum", "adagrad", "adam", "yogi"),
    )
    if version != "optimistic" or optimiser == "sgd"
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(run.values()))
def test_the_compiled_run_is_the_step_by_step_one(run):
    federation = in_domains()
    settings = {"steps": 40, "step": 0.1, "step_domains": 0.05, "batch": 3, "evaluate": 4, "test": federation}
    for change in (
        {"radius": 0.5, "penalty": 0.02, "clip": 0.6, "skewness": 0.01},
        {"mixtures": uniform(federation)},
        {"mixtures": only(federation, 1)},
    ):
        one, other = (
            afl(federation, model, **settings, **run, **change)
            for model in (LogisticRegression(l2=0.01), StepByStep(LogisticRegression(l2=0.01)))
        )
        assert_same(one, other, atol=1e-12)


@pytest.mark.parametrize("version", ["stochastic", "strongly-convex"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_holds_for_several_classes_and_precisions(dtype, version):
    federation = in_domains(classes=4, dtype=dtype)
    settings = {"steps": 30, "step": 0.1, "batch": 5, "evaluate": [7, 20], "version": version}
    settings |= {"mixtures": uniform(federation)}  # a fixed mixture has no best response to wait for
    one, other = (
        afl(federation, model, **settings) for model in (SoftmaxRegression(4), StepByStep(SoftmaxRegression(4)))
    )
    assert_same(one, other, atol=1e-12)


def test_same_seed_same_bits_however_the_draws_are_cut(monkeypatch):
    from fedrepro.algorithms.afl import _run_compiled

    federation, model = in_domains(), LogisticRegression()
    for gradient, domains in product(("per-domain", "weighted"), ("batch", "one-domain")):
        settings = {"steps": 300, "step": 0.1, "step_domains": 0.05, "batch": 4, "gradient": gradient}
        settings |= {"gradient_domains": domains}
        first = afl(federation, model, **settings)
        assert afl(federation, model, **settings) == first
        assert afl(federation, model, **settings, seed=1) != first
        monkeypatch.setitem(_run_compiled.__globals__, "UNIFORMS_AT_ONCE", 100)
        assert afl(federation, model, **settings) == first
        monkeypatch.undo()


def test_methods_share_their_minibatches():
    """On one domain alone, the agnostic learner that is held there and the baseline make the same steps."""
    federation = in_domains()
    settings = {"steps": 50, "step": 0.1, "batch": 2, "evaluate": 5}
    alone = afl(federation, LogisticRegression(), mixtures=only(federation, 2), **settings)
    held = afl(federation, LogisticRegression(), mixtures=Hull([[0.0, 0.0, 1.0]]), step_domains=0.1, **settings)
    np.testing.assert_array_equal(alone["loss"], held["loss"])


# --- what it computes ------------------------------------------------------------------------------------------------


def test_a_point_is_plain_sgd_on_its_mixture():
    federation, shares = in_domains(), np.array([0.2, 0.5, 0.3])
    trace = afl(
        federation, LogisticRegression(), steps=25, step=0.3, batch=6, mixtures=Point(shares), evaluate=[10, 25]
    )
    problem = LogisticRegression().on(federation)
    batches, w, iterates = problem.batches(6, seed=0), np.zeros(4), []
    for _ in range(25):
        rows = batches.next().samples
        slopes = 1 / (1 + np.exp(-(federation.x[rows] @ w[:3] + w[3]))) - federation.y[rows]
        weighted = slopes * shares[:, None] / 6
        gradient = np.append(np.einsum("pb,pbf->f", weighted, federation.x[rows]), weighted.sum())
        w = w - 0.3 * gradient
        iterates.append(w)
    np.testing.assert_allclose(trace.final["w"], w, atol=1e-12)
    np.testing.assert_allclose(trace.final["average"], np.mean(iterates, axis=0), atol=1e-12)
    np.testing.assert_array_equal(trace["mixture"], np.tile(shares, (3, 1)))
    np.testing.assert_allclose(trace["loss"][-1], problem.domain_losses(w), atol=1e-12)
    np.testing.assert_allclose(trace["average_loss"][1], problem.domain_losses(np.mean(iterates[:10], axis=0)))


def test_the_mirror_version_is_the_entropy_map():
    settings = {"steps": 20, "step": 0.1, "step_domains": 0.1, "batch": 3}
    one, other = (
        afl(in_domains(), LogisticRegression(), **settings, **choice)
        for choice in ({"version": "mirror"}, {"mirror": "entropy"})
    )
    assert one == other


def test_one_step_by_hand():
    """Figure 3, step by step: both gradients are taken at (w_0, λ_0)."""
    federation = in_domains()
    trace = afl(federation, LogisticRegression(), steps=1, step=0.5, step_domains=0.1, batch=1, evaluate=2)
    # At w = 0 every loss is log 2: the even mixture is moved along the diagonal, and projected back.
    np.testing.assert_allclose(trace.final["mixture"], 1 / 3)
    problem = LogisticRegression().on(federation)
    batches = problem.batches(1, seed=0)
    _, gradient = batches.losses_and_gradient(np.zeros(4), batches.next(), np.full(3, 1 / 3))
    np.testing.assert_allclose(trace.final["w"], -0.5 * gradient, atol=1e-15)
    np.testing.assert_array_equal(trace.final["average"], trace.final["w"])


def test_skewness_shifts_the_losses_of_small_domains():
    federation = in_domains()
    sizes = np.bincount(federation.domains)
    trace = afl(
        federation, LogisticRegression(), steps=1, step=0.1, step_domains=0.01, skewness=0.5, batch=9, evaluate=2
    )
    shift = 0.5 * (sizes.sum() / sizes - 1)
    np.testing.assert_allclose(
        trace.final["mixture"], Simplex().project(1 / 3 + 0.01 * (np.log(2) + shift)), atol=1e-12
    )


def test_skewness_on_another_set_is_a_game_of_its_corners():
    federation = in_domains()
    shares = np.bincount(federation.domains) / len(federation)
    settings = {"step": 0.1, "step_domains": 0.01, "skewness": 0.5, "batch": 9, "evaluate": 2}
    mixtures = CappedSimplex(0.5)
    trace = afl(federation, LogisticRegression(), steps=1, mixtures=mixtures, **settings)
    corners = mixtures.corners(3)
    weights = np.full(3, 1 / 3)  # of the corners (½, ½, 0), … in the middle of the simplex
    value = np.log(2) + 0.5 * ((corners**2 / shares).sum(axis=1) - 1)
    np.testing.assert_allclose(trace.final["mixture"], Simplex().project(weights + 0.01 * value) @ corners, atol=1e-9)
    # A strong term leaves the corner that is farthest from the shares of the samples, and nothing else.
    far = afl(federation, LogisticRegression(), steps=50, mixtures=mixtures, **settings | {"skewness": 50.0})
    np.testing.assert_allclose(far.final["mixture"], corners[np.argmax((corners**2 / shares).sum(axis=1))], atol=1e-9)
    # On the simplex both ways are one.
    plain = afl(federation, LogisticRegression(), steps=20, mixtures=Simplex(), **settings)
    hull = afl(federation, LogisticRegression(), steps=20, mixtures=Hull(np.eye(3)), **settings)
    np.testing.assert_allclose(hull.final["mixture"], plain.final["mixture"], atol=1e-12)


def test_adagrad_may_begin_where_tensorflow_does():
    federation = in_domains()
    settings = {"steps": 1, "step": 0.5, "step_domains": 0.01, "optimiser": "adagrad", "evaluate": 2}
    gradient = -afl(federation, LogisticRegression(), **settings | {"optimiser": "sgd"}).final["w"] / 0.5
    for accumulator in (0.0, 0.1):
        found = afl(federation, LogisticRegression(), accumulator=accumulator, **settings).final["w"]
        np.testing.assert_allclose(found, -0.5 * gradient / np.sqrt(gradient**2 + accumulator), rtol=1e-6)


def test_clip_bounds_a_step_and_radius_the_iterates():
    federation = in_domains()
    settings = {"step_domains": 0.1, "batch": 2, "step": 1.0}
    clipped = afl(federation, LogisticRegression(), steps=1, clip=1e-3, **settings)
    assert np.linalg.norm(clipped.final["w"]) == pytest.approx(1e-3)
    held = afl(federation, LogisticRegression(), steps=200, radius=0.25, **settings)
    assert np.linalg.norm(held.final["w"]) <= 0.25 + 1e-12


def test_a_penalty_pulls_the_parameters_to_zero():
    federation = in_domains()
    norms = [
        np.linalg.norm(
            afl(
                federation, LogisticRegression(), steps=3000, step=0.05, step_domains=0.05, batch=20, penalty=penalty
            ).final["average"]
        )
        for penalty in (0.0, 0.05, 0.5)
    ]
    assert norms[0] > norms[1] > norms[2]
    assert norms[2] < 0.05


def exact_gradients(federation, problem, w, mixture):
    """∇_w L and ∇_λ L over all samples."""
    batches, gradients = problem.batches(1), []
    for k in range(problem.sizes.size):
        everything = Minibatch(np.array([k]), np.flatnonzero(federation.domains == k)[None, :].astype(np.int32))
        gradients.append(batches.losses_and_gradient(w, everything, np.ones(problem.sizes.size))[1])
    return mixture @ np.array(gradients), problem.domain_losses(w)


@pytest.mark.parametrize("gradient", ["per-domain", "weighted"])
@pytest.mark.parametrize("gradient_domains", ["batch", "one-domain"])
def test_stochastic_gradients_are_unbiased(gradient, gradient_domains):
    """The gradients that the algorithm itself takes, read from first steps of λ and w from the same point."""
    federation = in_domains(n=40)
    problem = LogisticRegression().on(federation)
    mixture = np.array([0.5, 0.2, 0.3])
    w = np.random.default_rng(0).normal(size=4)

    class Started:
        """A regression that starts at w."""

        def on(self, federation):
            plain = _Plain(LogisticRegression().on(federation))
            plain.initial = lambda seed: w.copy()
            return plain

    class Free:
        """All of space: what is projected is what was made."""

        def __getattr__(self, name):
            return lambda point, mirror="euclidean": point

    settings = {"steps": 1, "step": 1.0, "step_domains": 1.0, "initial_mixture": mixture, "evaluate": 2}
    settings |= {"gradient": gradient, "gradient_domains": gradient_domains, "mixtures": Free()}
    found = [afl(federation, Started(), **settings, seed=seed).final for seed in range(1500)]
    for sample, exact in zip(
        (np.array([w - f["w"] for f in found]), np.array([f["mixture"] - mixture for f in found])),
        exact_gradients(federation, problem, w, mixture),
        strict=True,
    ):
        error = sample.std(axis=0, ddof=1) / np.sqrt(len(sample))
        assert np.all(error > 0)
        assert np.all(np.abs(sample.mean(axis=0) - exact) < 3 * error)


# --- it reaches the saddle point -------------------------------------------------------------------------------------


def saddle_point(problem, gradient_of, parameters):
    """min t subject to L_k(w) <= t, by SLSQP; t and the multipliers, which are λ*."""
    result = minimize(
        lambda z: z[-1],
        np.append(np.zeros(parameters), problem.domain_losses(np.zeros(parameters)).max()),
        jac=lambda z: np.eye(parameters + 1)[-1],
        constraints={
            "type": "ineq",
            "fun": lambda z: z[-1] - problem.domain_losses(z[:-1]),
            "jac": lambda z: np.column_stack([-gradient_of(z[:-1]), np.ones(problem.sizes.size)]),
        },
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert result.success
    gradients = gradient_of(result.x[:-1])  # at the saddle point λ* mixes them to zero
    table = np.vstack([gradients.T, np.ones(problem.sizes.size)])
    mixture = np.linalg.lstsq(table, np.append(np.zeros(parameters), 1.0), rcond=None)[0]
    np.testing.assert_allclose(mixture @ gradients, 0.0, atol=1e-5)
    return float(result.x[-1]), mixture


@pytest.fixture(scope="module")
def game():
    """Two domains that want different things, so that λ* is inside; with its saddle point."""
    federation = in_domains(seed=4, n=120, domains=2)
    model = LogisticRegression(l2=0.1)
    problem = model.on(federation)

    def gradient_of(w):
        return np.array([exact_gradients(federation, problem, w, row)[0] for row in np.eye(2)])

    value, mixture = saddle_point(problem, gradient_of, problem.n_parameters)
    assert np.all((mixture > 0.05) & (mixture < 0.95))
    return federation, model, value, mixture


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        ("stochastic", {"steps": 40_000, "step": 0.05, "step_domains": 0.05}),
        ("mirror", {"steps": 40_000, "step": 0.05, "step_domains": 0.1}),
        ("optimistic", {"steps": 40_000, "step": 0.05, "step_domains": 0.05}),
        ("strongly-convex", {"steps": 4_000, "step": 10.0}),
        ("strongly-convex-weighted", {"steps": 4_000, "step": 10.0}),
    ],
)
def test_the_averaged_iterate_reaches_the_saddle_point(game, version, settings):
    federation, model, value, mixture = game
    trace = afl(federation, model, batch=20, version=version, evaluate=2, **settings)
    worst = trace["average_loss"][-1].max()
    assert value - 1e-6 <= worst < value * 1.01
    np.testing.assert_allclose(trace.final["average_mixture"], mixture, atol=0.05)
    baseline = afl(federation, model, steps=20_000, step=0.05, batch=20, mixtures=uniform(federation))
    assert worst < baseline["average_loss"][-1].max() - 0.02


# --- Λ ---------------------------------------------------------------------------------------------------------------


class Watched:
    """A set of mixtures that remembers what it gave."""

    def __init__(self, inner):
        self.inner, self.given = inner, []

    def __getattr__(self, name):
        def remembered(*values):
            self.given.append(getattr(self.inner, name)(*values))
            return self.given[-1]

        return remembered


CORNERS = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.4, 0.2, 0.4]])


@pytest.mark.parametrize("version", ["stochastic", "mirror", "optimistic", "strongly-convex"])
@pytest.mark.parametrize(
    "inner",
    [Simplex(), CappedSimplex(0.4), Box(0.1, 0.6), L1Ball([0.5, 0.3, 0.2], 0.5), Hull(CORNERS)],
    ids=["simplex", "capped", "box", "l1-ball", "hull"],
)
def test_mixtures_stay_in_their_set(inner, version):
    if version == "mirror" and isinstance(inner, Hull):
        return  # refused: see the mistakes
    federation, mixtures = in_domains(), Watched(inner)
    afl(federation, LogisticRegression(), steps=60, step=0.1, step_domains=2.0, mixtures=mixtures, version=version)
    assert len(mixtures.given) >= 60
    for mixture in mixtures.given:
        assert mixture.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(inner.project(mixture), mixture, atol=1e-9)
    assert np.ptp(mixtures.given, axis=0).max() > 0.1  # it moved


def vertices_of_capped(cap, p):
    left, corner = 1.0, []
    for _ in range(p):
        corner.append(min(cap, left))
        left -= corner[-1]
    return np.array(list(set(permutations(corner))))


def test_skewness_is_the_largest_over_the_corners_and_beyond():
    rng = np.random.default_rng(0)
    for _ in range(30):
        p = int(rng.integers(2, 6))
        sizes = rng.integers(1, 50, p)
        shares, cap = sizes / sizes.sum(), float(rng.uniform(1 / p, 1))
        corners = vertices_of_capped(cap, p)
        points = rng.dirichlet(np.ones(p), size=4)
        for mixtures, brute in (
            (Simplex(), np.eye(p)),
            (CappedSimplex(cap), corners),
            (Hull(points), points),
            (Point(points[0]), points[:1]),
        ):
            found = skewness(mixtures, sizes)
            assert found == pytest.approx((brute**2 / shares).sum(axis=1).max())
            inside = np.array([mixtures.project(point) for point in rng.normal(size=(200, p))])
            assert (inside**2 / shares).sum(axis=1).max() <= found * (1 + 1e-9)


def test_skewness_of_the_simplex_is_the_inverse_of_the_smallest_share():
    assert skewness(Simplex(), [3, 10, 40]) == pytest.approx(53 / 3)
    assert skewness(uniform(in_domains()), np.bincount(in_domains().domains)) == pytest.approx(1.0)
    with pytest.raises(UserError, match="positive numbers"):
        skewness(Simplex(), [3, 0])


def test_best_responses_attain_the_worst_loss():
    losses = np.array([3.0, 1.0, 2.0])
    for mixtures in (Simplex(), CappedSimplex(0.4), CappedSimplex(1 / 3), Hull(CORNERS), Point([0.1, 0.2, 0.7])):
        mixture = mixtures.respond(losses)
        assert mixture @ losses == pytest.approx(mixtures.worst(losses))
        np.testing.assert_allclose(mixtures.project(mixture), mixture, atol=1e-9)


def test_rounding_breaks_no_tie():
    noise = 1e-13 * np.arange(3)
    for mixtures in (Simplex(), CappedSimplex(0.5), Box(0.1, 0.6), L1Ball([0.3, 0.4, 0.3], 0.2), Hull(CORNERS)):
        for losses in (np.full(3, 0.7) + noise, np.full(3, 0.7) - noise):
            np.testing.assert_array_equal(mixtures.respond(losses), mixtures.respond(np.full(3, 0.7)))
    np.testing.assert_array_equal(Simplex().respond(np.array([0.7, 0.7 + 1e-6, 0.7])), [0.0, 1.0, 0.0])


def test_a_set_is_the_hull_of_its_corners():
    rng = np.random.default_rng(0)
    for mixtures in (Simplex(), CappedSimplex(0.5), Box(0.1, 0.6), L1Ball([0.3, 0.4, 0.3], 0.2), Hull(CORNERS)):
        corners = mixtures.corners(3)
        for corner in corners:
            np.testing.assert_allclose(mixtures.project(corner), corner, atol=1e-9)
        for point in rng.normal(size=(20, 3)):
            np.testing.assert_allclose(Hull(corners).project(point), mixtures.project(point), atol=1e-6)


def test_baselines():
    federation = in_domains()
    np.testing.assert_allclose(uniform(federation).mixture, np.bincount(federation.domains) / len(federation))
    np.testing.assert_array_equal(only(federation, 1).mixture, only(federation, "1").mixture)
    assert uniform(federation).worst(np.array([1.0, 1.0, 1.0])) == pytest.approx(1.0)


# --- what is reported ------------------------------------------------------------------------------------------------


def test_columns_with_test_data():
    federation, test = in_domains(), in_domains(seed=1)
    trace = afl(federation, LogisticRegression(), steps=20, step=0.1, step_domains=0.1, test=test, evaluate=3)
    names = ["loss", "mixture", "average_loss", "average_mixture"]
    names += [f"{who}test_{what}" for who in ("", "average_") for what in ("loss", "accuracy")]
    assert all(trace[name].shape == (3, 3) for name in names)
    examined = LogisticRegression().on(test).metrics(trace.final["average"])
    np.testing.assert_allclose(trace["average_test_accuracy"][-1], examined["accuracy"])
    np.testing.assert_array_equal(trace["round"], [0, 10, 20])


def test_training_losses_can_be_left_out():
    federation, settings = in_domains(), {"steps": 20, "step": 0.1, "step_domains": 0.1, "evaluate": 3}
    whole = afl(federation, LogisticRegression(), test=in_domains(seed=1), **settings)
    less = afl(federation, LogisticRegression(), test=in_domains(seed=1), training_losses=False, **settings)
    assert set(whole.columns) - set(less.columns) == {"loss", "average_loss"}
    for name in less.columns:
        np.testing.assert_array_equal(less[name], whole[name])


@pytest.mark.parametrize(
    ("change", "sent", "received"),
    [
        ({}, 3 * 4, 3 * 4 + 3),
        ({"gradient_domains": "one-domain"}, 3 * 4, 3 * 4 + 1),
        ({"gradient": "weighted"}, 3 * 4, 4 + 3),
        ({"gradient": "weighted", "gradient_domains": "one-domain"}, 2 * 4, 4 + 1),
        ({"mixtures": Point([0.5, 0.5, 0.0])}, 2 * 4, 2 * 4),
        ({"mixtures": Point([0.5, 0.5, 0.0]), "gradient": "weighted"}, 4, 4),
        ({"version": "strongly-convex"}, 3 * 4, 3 * 4 + 3),
    ],
)
def test_scalars_sent_and_received(change, sent, received):
    trace = afl(in_domains(), LogisticRegression(), steps=10, step=0.1, step_domains=0.1, evaluate=2, **change)
    np.testing.assert_array_equal(trace["sent"], [0, 10 * sent])
    np.testing.assert_array_equal(trace["received"], [0, 10 * received])


def test_the_five_lines_of_the_docstring():
    import sys

    rng = np.random.default_rng(0)
    hospital = rng.choice(["north", "south"], 200)
    x = rng.normal(size=(200, 2))
    y = (x[:, 0] * np.where(hospital == "north", 2, 1) + rng.normal(size=200) > 0).astype(int)
    text = sys.modules[afl.__module__].__doc__
    lines = [line.strip() for line in text.split("::\n")[1].splitlines() if line.startswith("    ")]
    assert len(lines) == 5
    names = {"x": x, "y": y, "hospital": hospital}
    exec("\n".join(lines), names)
    trace, problem = names["trace"], LogisticRegression().on(names["federation"])
    assert problem.domain_losses(trace.final["average"]).max() < np.log(2)


class MeanOfNumbers:
    """A model of a user's own: one number that should be near all samples, with the squared loss."""

    def on(self, federation):
        return _Numbers(federation, [federation.y[federation.domains == k] for k in range(federation.n_domains)])


class _Numbers(Problem):
    n_parameters = 1

    def __init__(self, federation, numbers):
        super().__init__(federation)
        self.numbers = numbers

    def initial(self, seed):
        return np.zeros(1, dtype=np.float32)

    def batches(self, batch, seed, active=None):
        return self

    def next(self, domain=None):
        return range(len(self.numbers)) if domain is None else [domain]

    def losses_and_gradient(self, w, batch, mixture):
        losses = np.array([np.mean((w[0] - own) ** 2) if k in batch else 0.0 for k, own in enumerate(self.numbers)])
        gradient = sum(mixture[k] * 2 * np.mean(w[0] - self.numbers[k]) for k in batch)
        return losses, np.array([gradient], dtype=np.float32)

    def domain_losses(self, w):
        return self.losses_and_gradient(w, self.next(), np.zeros(self.sizes.size))[0]

    def metrics(self, w):
        return {"loss": self.domain_losses(w)}


def test_a_model_of_ones_own():
    """Of the points 0 and 1, many of the first: the agnostic mean is the middle, the uniform one is near 0."""
    federation = Federation.from_arrays(None, np.array([0.0] * 9 + [1.0]), domains=[0] * 9 + [1])
    settings = {"steps": 3000, "step": 0.05, "step_domains": 0.05}
    trace = afl(federation, MeanOfNumbers(), **settings)
    assert trace.final["average"].dtype == np.float32
    assert trace.final["average"][0] == pytest.approx(0.5, abs=0.01)
    plain = afl(federation, MeanOfNumbers(), mixtures=uniform(federation), **settings)
    assert plain.final["w"][0] == pytest.approx(0.1, abs=0.01)


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "newest"}, "version='newest' is not known"),
        ({"gradient": "full"}, "gradient='full' is not known"),
        ({"gradient_domains": "all"}, "gradient_domains='all' is not known"),
        ({"optimiser": "rmsprop"}, "optimiser='rmsprop' is not known"),
        ({"version": "optimistic", "optimiser": "adam"}, "fixes the steps of w: use optimiser='sgd'"),
        ({"version": "strongly-convex", "gradient_domains": "one-domain"}, "use gradient_domains='batch'"),
        ({"steps": 0}, "steps=0 is not a whole number"),
        ({"batch": 0}, "batch=0 is not a whole number"),
        ({"step": -0.1}, "step=-0.1 is not a positive number"),
        ({"step_domains": 0.0}, "step_domains=0.0 is not a positive number"),
        ({"step_domains": None}, "step_domains is missing"),
        ({"momentum": 1.0}, "momentum=1.0 is not a share"),
        ({"radius": 0.0}, "radius=0.0 is not a positive number"),
        ({"clip": np.nan}, "clip=nan is not a positive number"),
        ({"penalty": -1.0}, "penalty=-1.0 is not a finite number"),
        ({"skewness": np.inf}, "skewness=inf is not a finite number"),
        ({"skewness": 0.1, "mixtures": CappedSimplex(0.5), "version": "optimistic"}, "knows skewness on Λ = Simplex"),
        ({"accumulator": 0.1}, "for optimiser='adagrad' alone"),
        ({"accumulator": -0.1, "optimiser": "adagrad"}, "accumulator=-0.1 is not a finite number"),
        ({"mixtures": CappedSimplex(0.2)}, "A cap of 0.2 on 3 domains leaves no mixture"),
        ({"mixtures": Hull(np.eye(2))}, "points mix 2 domains and the federation has 3"),
        ({"mixtures": Hull(np.eye(3)), "version": "mirror"}, "knows no projection on a hull: choose from 'euclidean'"),
        ({"mirror": "cubic"}, "mirror='cubic' is not known: choose from 'entropy', 'euclidean'"),
        ({"version": "strongly-convex", "mirror": "entropy"}, "makes no step of λ"),
        ({"mixtures": Point([0.5, 0.5])}, "has 2 shares and the federation has 3 domains"),
        ({"initial_mixture": [0.5, 0.6, 0.0]}, "must be a mixture of the 3 domains"),
        ({"initial_mixture": [0.5, 0.5]}, "must be a mixture of the 3 domains"),
        ({"evaluate": [6]}, "name rounds from 0 to 5"),
        ({"test": in_domains(domains=2)}, "must have the domains of the federation"),
        ({"step": 1e308, "steps": 50}, "no longer finite after"),
        ({"step": 1e308, "steps": 50, "mixtures": Point([0.2, 0.4, 0.4])}, "no longer finite after"),
        ({"step": 1e308, "steps": 50, "mixtures": CappedSimplex(0.5)}, "no longer finite after"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_mistakes(change, message):
    settings = {"steps": 5, "step": 0.1, "step_domains": 0.1} | change
    with pytest.raises(UserError, match=message):
        afl(in_domains(), LogisticRegression(), **settings)


def test_federations_that_have_no_game():
    federation = in_domains()
    settings = {"steps": 5, "step": 0.1, "step_domains": 0.1}
    alone = Federation.from_arrays(federation.x, federation.y)
    with pytest.raises(UserError, match="at least two domains"):
        afl(alone, LogisticRegression(), **settings)
    assert afl(alone, LogisticRegression(), mixtures=uniform(alone), **settings)["loss"].shape == (6, 1)
    empty = Federation.from_arrays(
        federation.x, federation.y, domains=federation.domains, domain_names=["a", "b", "c", "d"]
    )
    with pytest.raises(UserError, match="The domain 'd' has no samples"):
        afl(empty, LogisticRegression(), **settings)
    narrow = Federation.from_arrays(federation.x[:, :2].copy(), federation.y, domains=federation.domains)
    with pytest.raises(UserError, match="must have the features of the federation"):
        afl(federation, LogisticRegression(), test=narrow, **settings)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Hull(np.zeros((0, 3))), "needs at least one mixture"),
        (lambda: Hull([[0.5, 0.6]]), "outside the simplex"),
        (lambda: Point([]), "outside the simplex"),
        (lambda: Point([0.5, 0.6]), "outside the simplex"),
        (lambda: Point([1.5, -0.5]), "outside the simplex"),
        (lambda: Point([np.nan, 1.0]), "outside the simplex"),
        (lambda: Point(np.eye(2)), "outside the simplex"),
        (lambda: only(in_domains(), "nowhere"), "There is no domain 'nowhere': choose from 0, 1, 2"),
        (lambda: only(in_domains(), 3), "numbered 0 to 2"),
    ],
)
def test_sets_that_are_none(build, message):
    with pytest.raises(UserError, match=message):
        build()
