"""A run of Stochastic-AFL on Adult against what one would write with NumPy, JAX and scikit-learn.

The peers work on one-hot rows, as is usual, and on the minibatches of ours.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedrepro.algorithms.afl import afl
from fedrepro.algorithms.domains import uniform
from fedrepro.bench.harness import Row, ratio, row
from fedrepro.bench.limits import Work
from fedrepro.data.federation import Federation
from fedrepro.kernels import afl as steps_of
from fedrepro.kernels.mirror import Mirror
from fedrepro.kernels.optimisers import Optimiser
from fedrepro.models.regression import LogisticRegression, Regression
from fedrepro.streams import stream

GROUP = "AFL"
BATCH, STEP, STEP_DOMAINS = 100, 0.1, 0.01


@dataclass(frozen=True)
class Game:
    """A logistic regression on categories in domains, in our layout and in that of the peers, and minibatches."""

    problem: Regression
    x: np.ndarray  # (n, columns + 1): one-hot rows, and a one for the bias
    y: np.ndarray
    uniforms: np.ndarray  # (p, steps * batch): what our minibatches are drawn from
    rows: np.ndarray  # (steps, p, batch): the samples of the same minibatches

    @property
    def domains(self) -> int:
        return self.problem.sizes.size


def game(federation: Federation, model: LogisticRegression, steps: int) -> Game:
    """Put both layouts together and draw minibatches for so many steps."""
    problem = model.on(federation)
    samples = problem.samples
    x = np.zeros((len(federation), problem.n_parameters))
    np.put_along_axis(x, samples.codes.astype(np.int64), 1.0, axis=1)
    x[:, -1] = 1.0
    uniforms = stream("bench", "batch", 0).random((problem.sizes.size, steps * BATCH))
    position = (uniforms * problem.sizes[:, None]).astype(np.int64) + samples.offsets[:-1, None]
    rows = samples.order[position].reshape(-1, steps, BATCH).transpose(1, 0, 2)
    return Game(problem, x, federation.y.astype(np.float64), uniforms, np.ascontiguousarray(rows))


def our_run(game: Game) -> np.ndarray:
    """The averaged parameters, and after them the averaged mixture."""
    rules = steps_of.Rules(
        version=steps_of.Version.number("stochastic"),
        gradient=steps_of.Gradient.number("per-domain"),
        gradient_domains=steps_of.GradientDomains.number("batch"),
        moves=True,
        mirror=Mirror.number("euclidean"),
        optimiser=Optimiser.number("adagrad"),
        step=STEP,
        step_domains=STEP_DOMAINS,
        momentum=0.0,
        radius=np.inf,
        penalty=0.0,
        clip=np.inf,
    )
    p, steps = game.domains, len(game.rows)
    state = steps_of.start(rules, game.problem.initial(), np.full(p, 1.0 / p))
    draws = game.uniforms, np.zeros(p, dtype=np.int64), np.zeros((steps, 2))
    steps_of.regression_steps(
        game.problem.samples, game.problem.form, rules, state, np.zeros(p), np.arange(p), BATCH, *draws
    )
    return np.concatenate([state.w_sum, state.mixture_sum]) / steps


def projected_by_sorting(v: np.ndarray) -> np.ndarray:
    """The usual projection on the simplex (Duchi et al. 2008)."""
    ordered = np.sort(v)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, v.size + 1)
    return np.maximum(v - excess[np.count_nonzero(ordered > excess) - 1], 0.0)


def numpy_run(game: Game) -> np.ndarray:
    """The peer in NumPy: every line works on the minibatches of all domains at once."""
    columns, p = game.x.shape[1], game.domains
    w, squares, w_sum = np.zeros(columns), np.zeros(columns), np.zeros(columns)
    mixture, mixture_sum = np.full(p, 1.0 / p), np.zeros(p)
    for rows in game.rows:
        x, y = game.x[rows], game.y[rows]
        scores = x @ w
        losses = (np.logaddexp(0.0, scores) - y * scores).mean(axis=1)
        slopes = (1.0 / (1.0 + np.exp(-scores)) - y) * (mixture[:, None] / rows.shape[1])
        gradient = slopes.ravel() @ x.reshape(-1, columns)
        squares += gradient**2
        w -= STEP * gradient / (np.sqrt(squares) + 1e-10)
        mixture = projected_by_sorting(mixture + STEP_DOMAINS * losses)
        w_sum += w
        mixture_sum += mixture
    return np.concatenate([w_sum, mixture_sum]) / len(game.rows)


def jax_step(x, y):
    """The step of the peers in JAX, from the carried state and the rows of a step's minibatches."""
    import jax
    import jax.numpy as jnp

    def mixed_loss(w, mixture, rows):
        scores = x[rows] @ w
        losses = (jnp.logaddexp(0.0, scores) - y[rows] * scores).mean(axis=1)
        return mixture @ losses, losses

    def projected(v):
        ordered = jnp.sort(v)[::-1]
        excess = (jnp.cumsum(ordered) - 1.0) / jnp.arange(1, v.size + 1)
        return jnp.maximum(v - excess[jnp.count_nonzero(ordered > excess) - 1], 0.0)

    def step(state, rows):
        w, squares, mixture, w_sum, mixture_sum = state
        (_, losses), gradient = jax.value_and_grad(mixed_loss, has_aux=True)(w, mixture, rows)
        squares = squares + gradient**2
        w = w - STEP * gradient / (jnp.sqrt(squares) + 1e-10)
        mixture = projected(mixture + STEP_DOMAINS * losses)
        return w, squares, mixture, w_sum + w, mixture_sum + mixture

    return step


def jax_runs(game: Game) -> dict[str, Callable[[], np.ndarray]]:
    """Two peers in JAX: a compiled step that a Python loop calls, and the whole run compiled (`lax.scan`)."""
    import jax
    import jax.numpy as jnp

    columns, p = game.x.shape[1], game.domains
    step = jax_step(jnp.asarray(game.x, jnp.float32), jnp.asarray(game.y, jnp.float32))
    nothing = jnp.zeros(columns)
    start = (nothing, nothing, jnp.full(p, 1.0 / p), nothing, jnp.zeros(p))
    rows = jnp.asarray(game.rows, jnp.int32)
    compiled_step = jax.jit(step)
    compiled_run = jax.jit(lambda state, rows: jax.lax.scan(lambda s, r: (step(s, r), None), state, rows)[0])

    def averages(state) -> np.ndarray:
        return np.concatenate([state[3], state[4]]) / len(game.rows)

    def loop() -> np.ndarray:
        state = start
        for of_step in rows_of_steps:
            state = compiled_step(state, of_step)
        return averages(state)

    rows_of_steps = list(rows)
    return {"JAX, jitted step": loop, "JAX, lax.scan": lambda: averages(compiled_run(start, rows))}


def adult_rows(federation: Federation | None = None, model=None, *, steps: int = 1_000, repeats: int = 5) -> list[Row]:
    """A run of 1,000 steps on Adult, one of the fifty of Table 1, with minibatches of 100 from each domain.

    Raises
    ------
    DataUnavailable
        Where no source has Adult.
    """
    if federation is None or model is None:
        federation, model = _adult()
    run = game(federation, model, steps)
    case = f"Adult, a run of {steps:,} steps, minibatches given"
    ours = our_run(run)
    peers = {"NumPy": (lambda: numpy_run(run), 10.0, 1e-9)}
    # JAX computes in single precision: rounding grows where the gradients of a rare category nearly vanish.
    targets = {"JAX, jitted step": 5.0, "JAX, lax.scan": None}
    peers |= {name: (call, targets[name], 5e-3) for name, call in jax_runs(run).items()}
    rows = []
    for name, (peer, target, tolerance) in peers.items():
        np.testing.assert_allclose(ours, peer(), rtol=0.0, atol=tolerance)
        measured = ratio(lambda: our_run(run), peer, repeats=repeats)
        rows.append(row(GROUP, case, measured, target=target, peer_name=name, work=_work(run, run.rows.size, steps)))
    rows.append(_row_of_an_epoch(federation, model, run, repeats))
    return rows


def _row_of_an_epoch(federation: Federation, model, run: Game, repeats: int) -> Row:
    """As many steps of one sample as there are samples, on Û: what scikit-learn's SGD does in an epoch."""
    from scipy import sparse
    from sklearn.linear_model import SGDClassifier

    x, y = sparse.csr_array(run.x[:, :-1]), run.y.astype(np.int64)
    peer = SGDClassifier(
        loss="log_loss",
        alpha=0.0,
        penalty=None,  # pyright: ignore[reportArgumentType] guessed from the default, a text
        learning_rate="constant",
        eta0=0.01,
        average=True,
    )
    settings = {
        "steps": len(federation),
        "step": 0.01,
        "batch": 1,
        "gradient": "weighted",
        "evaluate": [len(federation)],
    }
    settings["training_losses"] = False  # the peer evaluates none
    mixtures = uniform(federation)
    measured = ratio(
        lambda: afl(federation, model, mixtures=mixtures, **settings),
        lambda: peer.partial_fit(x, y, classes=[0, 1]),
        repeats=repeats,
    )
    case = f"Adult, Û, {len(federation):,} steps of one sample, with draws"
    return row(
        GROUP, case, measured, target=1.0, peer_name="SGDClassifier", work=_work(run, len(federation), len(federation))
    )


def _work(run: Game, samples: int, steps: int) -> Work:
    """Categories are added up for the scores and for the gradient; parameters move, and enter their average."""
    codes, parameters = run.problem.samples.codes, run.problem.n_parameters
    return Work(
        operations=2.0 * samples * codes.shape[1] + 3.0 * steps * parameters,
        bytes=samples * codes.shape[1] * codes.itemsize,
        resident=codes.nbytes,
    )


def _adult() -> tuple[Federation, LogisticRegression]:
    from fedrepro.data.sources import finder
    from fedrepro.papers.afl.trials import classifiers

    variant = finder.find("uci_adult").variant
    return classifiers.adult(variant)[0], classifiers.adult_model(variant)
