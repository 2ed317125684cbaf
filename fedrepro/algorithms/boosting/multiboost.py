"""MultiBoost: boosting for the worst of several sources.

Corinna Cortes, Mehryar Mohri, Dmitry Storcheus, Ananda Theertha Suresh. Boosting with Multiple Sources. NeurIPS 2021;
as Figure 6 of Lakshay Tyagi, Raviteja Chukkapalli, Federated Learning on Multiple Data Sources, prints it, with its
numbering of the lines. The base predictors are decision stumps.

On a federation of one's own::

    from fedrepro import Federation
    from fedrepro.algorithms import multiboost
    federation = Federation.from_arrays(x, y, domains=hospital)
    trace = multiboost(federation, rounds=200)

With one domain it is AdaBoost; with ``loss="logistic"``, coordinate descent on the mean logistic loss.

What the figure leaves open, and what it gets wrong:

- Line 10: the weighted error of Q(k|·) h is ε = ½ (1 - Σ_i D(k, i) y_i Q(k|x_i) h(x_i)), so that the quantity to be
  maximised is that sum times Z / m_k: minus the slope of F_k along the predictor of the same domain k. Predictors come
  with both signs.
- Line 11: at α = 0 all domains tie, and so they do wherever a line search ends between two of them. F then falls along
  a predictor only if the losses of all domains that tie do, which the choice of line 10 does not see to. Where one of
  them rises, however slowly, the best η is 0, and every later round is the same: the algorithm stalls. (Where one of
  them stays as it is, because Q is exactly 0 there, F is flat, and of the best η we take the one that is best for the
  chosen domain.) ``step="smoothed"`` is our remedy, and is not in the paper: both choices are made for the soft maximum
  of equation (36). ``step="decaying"`` is that of the federated version.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_known, check_positive, chosen, evaluation_steps
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import stumps as kernels
from fedrepro.kernels.stumps import Loss
from fedrepro.models.domain_posterior import (
    DomainPosterior,
    domain_sizes,
    fit_domain_posterior,
    flat_features,
    uniform_posterior,
)
from fedrepro.models.stumps import Stumps, boosted_scores, losses_of, said, signed_labels, slopes_of, stumps_on
from fedrepro.models.trained.boosted import FITTED, GIVEN, UNIFORM, BoostedStumps
from fedrepro.trace import Callback, Recorder, Trace

Posterior = Callable[[np.ndarray], np.ndarray]
STEPS = ("line-search", "smoothed", "decaying")


@checked
def multiboost(
    federation: Federation,
    *,
    rounds: int,
    domain_posterior: Literal["uniform"] | Posterior | None = None,
    loss: Literal["exponential", "logistic"] = "exponential",
    step: Literal["line-search", "smoothed", "decaying"] = "line-search",
    smoothing: float = 100.0,
    initial_step: float | None = None,
    thresholds: int | None = None,
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Boost stumps for the domain with the largest loss.

    Parameters
    ----------
    federation
        Features, labels 0 and 1, and domains. Clients do not matter: this is the central algorithm.
    rounds
        T.
    domain_posterior
        Q(l|x): a function from features, one row per sample, to one row of shares of the domains per sample;
        ``"uniform"`` for 1 / p; by default a softmax regression that is fitted to the samples.
    loss
        Φ, of u = -y f: ``"exponential"``, exp(u), which the figure names; ``"logistic"``, log2(1 + exp(u)). Both
        are convex, and nowhere below the 0-1 loss.
    step
        ``"line-search"``, as printed; ``"smoothed"``, our own, the same for the soft maximum of the domains' losses;
        ``"decaying"``, η_0 / √t.
    smoothing
        μ of the soft maximum log(Σ_k exp(μ F_k)) / μ, which exceeds the maximum by at most log(p) / μ.
    initial_step
        η_0 of the decaying step.
    thresholds
        The largest number of thresholds of a feature; by default one between any two neighbouring values.
    evaluate
        How many times the losses are evaluated, or after which rounds.
    test
        Data on which the errors are evaluated as well; their domains may be others.
    callbacks
        Functions that are called after every evaluated round (`fedrepro.callbacks`).
    seed
        Is not used: nothing is drawn. It is there because every algorithm has one.

    Returns
    -------
    Trace
        Columns ``round``, ``loss`` (the mean of Φ of each domain), ``error`` (the share of each domain's
        samples that is misclassified), ``step`` (η_t; 0 where the line search stalls), with ``test`` also
        ``test_loss``, ``test_error`` and ``test_accuracy`` per domain of the test data; ``sent`` and ``received``
        (scalars: the samples come to the server, once). ``final`` holds the predictors in the order of the rounds:
        ``domain``, ``feature``, ``threshold``, ``sign`` and ``weight`` (see `scores`), and ``posterior_w``,
        ``posterior_mean``, ``posterior_scale`` where Q was fitted.
    """
    check_count("rounds", rounds)
    kind = chosen("loss", loss, Loss)
    check_known("step", step, STEPS)
    check_positive("smoothing", smoothing)
    check_thresholds(thresholds)
    if step == "decaying":
        check_initial_step(initial_step)
    posterior = chosen_posterior(domain_posterior, federation, fit_domain_posterior)
    sources = Sources(federation, posterior, kind)
    on_test = None if test is None else Sources(test, posterior, kind, like=sources)
    stumps = stumps_on(sources.x, thresholds)
    codes = [stumps.codes(sources.x[sources.of(k)]) for k in range(federation.n_domains)]
    choose = _choose_for_soft_maximum if step == "smoothed" else _choose_for_worst_domains
    ensemble = Ensemble()  # line 1
    gathered = float(len(federation) * (sources.x.shape[1] + 2))  # features, label and domain of every sample
    recorder = Recorder(federation.domain_names, None if test is None else test.domain_names, callbacks)
    member, last, done = None, 0.0, 0
    scores_so_far = [sources.f] if on_test is None else [sources.f, on_test.f]
    if (saved := recorder.resumed()) is not None:
        restore(scores_so_far, saved["scores"])
        ensemble.restore(saved["ensemble"])
        done, last, member = len(ensemble.members), saved["last"], ensemble.last

    def reached() -> dict:
        return {"scores": scores_so_far, "ensemble": ensemble.state(), "last": float(last)}

    for stop in recorder.due(evaluation_steps(evaluate, rounds)):
        for t in range(done + 1, stop + 1):  # line 2
            if member is None or last != 0.0:  # else it stalls: every later round makes the same choice
                k, r, sign = choose(stumps, codes, sources, smoothing)  # lines 3 to 10
                member = Member(k, *stumps.place(r), sign)
                if step == "decaying":
                    last = initial_step / np.sqrt(t)
                else:  # line 11
                    moves = sources.y * sources.said_by(member)
                    limit = smoothing if step == "smoothed" else np.inf
                    last = kernels.best_step(kind, sources.odds(), moves, sources.offsets, k, limit)
            ensemble.add(member, last)  # line 12
            sources.follow(member, last)
            if on_test is not None:
                on_test.follow(member, last)
        done = stop
        recorder.row(round=float(done), **evaluated(sources, on_test), step=last, sent=0.0, received=gathered)
        recorder.tell(reached)
    return recorder.trace(  # lines 13 and 14
        final=ensemble.final() | parameters_of(posterior), model=boosted(posterior, domain_posterior, sources)
    )


def scores(final: Mapping[str, np.ndarray], x, domain_posterior: Posterior | None = None) -> np.ndarray:
    """f(x) of a boosted ensemble: its sign is the prediction, label 1 where it is positive.

    Parameters
    ----------
    final
        What `multiboost` or `fed_multiboost` learned.
    x
        Features, one row per sample.
    domain_posterior
        Q(l|x), where the ensemble was trained with one that was given; a fitted one is in ``final``.
    """
    x = np.asarray(x, dtype=np.float64)
    x = x.reshape(len(x), -1)
    if domain_posterior is None:
        if "posterior_w" not in final:
            raise UserError("This ensemble was trained with a given Q(l|x): give it as domain_posterior.")
        domain_posterior = DomainPosterior(*(final[f"posterior_{name}"] for name in ("w", "mean", "scale")))
    return boosted_scores(final, x, domain_posterior)


# --- what both algorithms keep ---------------------------------------------------------------------------------------


class Member(NamedTuple):
    """A coordinate of α: the predictor Q(l|·) h of a domain, where h is a stump with a sign."""

    domain: int
    feature: int
    threshold: float
    sign: float


class Ensemble:
    """f: the coordinates that were moved, and how far."""

    def __init__(self):
        self.members: list[Member] = []
        self.weights: list[float] = []

    def add(self, member: Member, weight: float) -> None:
        """Move a coordinate; the same one may be moved again later."""
        self.members.append(member)
        self.weights.append(float(weight))

    @property
    def last(self) -> Member | None:
        """The coordinate that was moved last."""
        return self.members[-1] if self.members else None

    def state(self) -> dict:
        """The members so far."""
        return {"members": self.members, "weights": self.weights}

    def restore(self, saved: Mapping) -> None:
        """Have the members of another one."""
        self.members, self.weights = [Member(*member) for member in saved["members"]], list(saved["weights"])

    def final(self) -> dict[str, np.ndarray]:
        """The members as arrays."""
        if not self.members:  # a callback ended the run before the first round
            return {name: np.zeros(0, int) for name in ("domain", "feature")} | {
                name: np.zeros(0) for name in ("threshold", "sign", "weight")
            }
        domain, feature, threshold, sign = zip(*self.members, strict=True)
        return {
            "domain": np.array(domain),
            "feature": np.array(feature),
            "threshold": np.array(threshold),
            "sign": np.array(sign),
            "weight": np.array(self.weights),
        }


class Sources:
    """S_1, …, S_p: the samples, domain after domain, with Q(l|x) and f so far.

    Attributes
    ----------
    x, y, shares
        Features, labels -1 and +1, and Q(l|x), one row per sample.
    kind
        Φ, a number of `Loss`.
    offsets
        Domain k holds the samples ``offsets[k]:offsets[k + 1]``.
    order
        Which sample of the federation each one is.
    f
        The ensemble's scores.
    """

    def __init__(self, federation: Federation, posterior: Posterior, kind: int, like: "Sources | None" = None):
        x, sizes = flat_features(federation), domain_sizes(federation)
        if like is not None and x.shape[1] != like.x.shape[1]:
            raise UserError(f"The test data have {x.shape[1]} features, and the training data {like.x.shape[1]}.")
        self.order = np.argsort(federation.domains, kind="stable")
        self.x, self.y = x[self.order], signed_labels(federation)[self.order]
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.shares = checked_shares(posterior, self.x, sizes.size if like is None else like.shares.shape[1])
        self.f, self.kind = np.zeros(len(x)), kind

    @property
    def sizes(self) -> np.ndarray:
        """m_k."""
        return np.diff(self.offsets)

    def of(self, k: int) -> slice:
        """The samples of domain k."""
        return slice(self.offsets[k], self.offsets[k + 1])

    def odds(self) -> np.ndarray:
        """exp(-y f) of every sample."""
        return np.exp(-self.y * self.f)

    def losses(self) -> np.ndarray:
        """Φ(-y f) of every sample."""
        return losses_of(self.kind, self.y * self.f)

    def slopes(self) -> np.ndarray:
        """Φ'(-y f) of every sample."""
        return slopes_of(self.kind, self.y * self.f)

    def means(self, values: np.ndarray) -> np.ndarray:
        """The mean of each domain."""
        return np.add.reduceat(values, self.offsets[:-1]) / self.sizes

    def said_by(self, member: Member) -> np.ndarray:
        """Q(l|x) h(x) of every sample."""
        return member.sign * self.shares[:, member.domain] * said(self.x, member.feature, member.threshold)

    def follow(self, member: Member, weight: float) -> None:
        """Add a member to f."""
        self.f += weight * self.said_by(member)


def evaluated(sources: Sources, on_test: Sources | None) -> dict[str, np.ndarray]:
    """The columns of a row that come from the present f; a score of 0 is a mistake."""
    row = {"loss": sources.means(sources.losses()), "error": sources.means(1.0 * (sources.y * sources.f <= 0))}
    if not np.isfinite(row["loss"]).all():
        raise UserError(f"The {Loss.labels()[sources.kind]} loss is no longer finite: choose a smaller step.")
    if on_test is not None:
        error = on_test.means(1.0 * (on_test.y * on_test.f <= 0))
        row |= {"test_loss": on_test.means(on_test.losses()), "test_error": error, "test_accuracy": 1.0 - error}
    return row


# --- lines 3 to 10 ---------------------------------------------------------------------------------------------------


def _choose_for_worst_domains(stumps: Stumps, codes: list[np.ndarray], sources: Sources, _) -> tuple[int, int, float]:
    """The predictor (k, r) of the worst domains with the largest edge, and its sign."""
    slopes = sources.slopes()
    best, found = -1.0, (0, 0, 1.0)
    for k in worst_domains(sources.means(sources.losses())):  # lines 4 and 5
        here = sources.of(k)
        z = slopes[here].sum()  # line 7
        distribution = slopes[here] / z  # line 9
        v = distribution * sources.y[here] * sources.shares[here, k]
        edges = stumps.edges(codes[k], v[:, None])[:, 0]  # 1 - 2 ε of every stump
        r = kernels.first_largest(edges, np.abs(v).sum())
        edge = z / sources.sizes[k] * abs(edges[r])
        if edge > best * (1 + kernels.TIE):  # line 10; of equals the first
            best, found = edge, (int(k), r, sign_of(edges[r]))
    return found


def _choose_for_soft_maximum(
    stumps: Stumps, codes: list[np.ndarray], sources: Sources, mu: float
) -> tuple[int, int, float]:
    """Ours: the predictor (l, r) along which log(Σ_k exp(μ F_k)) / μ falls most steeply, and its sign."""
    means = sources.means(sources.losses())
    pull = np.exp(mu * (means - means.max()))
    pull /= pull.sum()  # the gradient of the soft maximum by the domains' losses
    per_sample = np.repeat(pull / sources.sizes, sources.sizes) * sources.slopes() * sources.y
    v = per_sample[:, None] * sources.shares
    edges = sum((stumps.edges(codes[k], v[sources.of(k)]) for k in range(len(codes))), start=np.zeros(())).T
    of_domain, r = divmod(kernels.first_largest(edges.ravel(), np.abs(v).sum()), len(stumps))
    return of_domain, r, sign_of(edges[of_domain, r])


def worst_domains(losses: np.ndarray) -> np.ndarray:
    """K_t, the domains with the largest loss; losses that are equal but for rounding tie."""
    return np.flatnonzero(losses >= losses.max() * (1 - kernels.KINK))


def sign_of(edge: float) -> float:
    """Which of h and -h has the edge."""
    return -1.0 if edge < 0 else 1.0


# --- checks ----------------------------------------------------------------------------------------------------------


def chosen_posterior(
    given: str | Posterior | None, federation: Federation, fit: Callable[[Federation], DomainPosterior]
) -> Posterior:
    """Q(l|x) as the caller wants it."""
    if given is None:
        return fit(federation)
    if isinstance(given, str):
        check_known("domain_posterior", given, ("uniform",))
        return uniform_posterior(federation.n_domains)
    if not callable(given):
        raise UserError("domain_posterior must be a function from features to the domains' shares, or 'uniform'.")
    return given


def boosted(posterior: Posterior, given: str | Posterior | None, sources: "Sources") -> BoostedStumps:
    """How the ensemble predicts."""
    kind = FITTED if isinstance(posterior, DomainPosterior) else UNIFORM if isinstance(given, str) else GIVEN
    features, domains = sources.x.shape[1], sources.shares.shape[1]
    function, loss = posterior if kind == GIVEN else None, Loss.labels()[sources.kind]
    return BoostedStumps(kind, domains, features, function, loss)


def parameters_of(posterior: Posterior) -> dict[str, np.ndarray]:
    """What a fitted Q(l|x) is made of."""
    if not isinstance(posterior, DomainPosterior):
        return {}
    return {"posterior_w": posterior.w, "posterior_mean": posterior.mean, "posterior_scale": posterior.scale}


def checked_shares(posterior: Posterior, x: np.ndarray, domains: int) -> np.ndarray:
    """Q(l|x) of every sample: one row of shares, as many as there are training domains."""
    shares = np.ascontiguousarray(posterior(x), dtype=np.float64)
    if shares.shape != (len(x), domains):
        raise UserError("domain_posterior must give one row per sample with one share for each domain.")
    if not np.isfinite(shares).all() or shares.min() < 0 or np.abs(shares.sum(axis=1) - 1).max() > 1e-6:
        raise UserError("domain_posterior must give shares of the domains: not negative, and with the sum 1.")
    return shares


def check_thresholds(thresholds: int | None) -> None:
    """The largest number of thresholds is a whole number, or not given."""
    if thresholds is not None:
        check_count("thresholds", thresholds)


def check_initial_step(initial_step: float | None) -> None:
    """η_0 is given where steps decay."""
    if initial_step is None:
        raise UserError("initial_step is missing: give η_0, the size of the first step.")
    check_positive("initial_step", initial_step)
