"""AFLBoost: ensemble weights that are good for the worst mixture of the domains.

Jenny Hamer, Mehryar Mohri, Ananda Theertha Suresh. FedBoost: Communication-Efficient Algorithms for Federated
Learning. ICML 2020. Figure 2, with its numbering of the steps.

A client of domain d has the loss λ_d L_j(α): λ enters its gradient by α, and its gradient by λ_d is L_j(α). Steps 4
and 5 sum them with weights m_j / m. That is the objective (11), Σ λ_d L_d, only where all domains are of the same
size; elsewhere domain d has the loss (m_d / m) L_d in the game. With weights m_j / m_d it is (11). Both are offered.
"""

from collections.abc import Sequence

import numpy as np

from fedrepro.algorithms.arguments import (
    check_count,
    check_known,
    check_positive,
    checked_budget,
    checked_clients,
    chosen,
    evaluation_steps,
)
from fedrepro.algorithms.domains import Mixtures, Simplex
from fedrepro.algorithms.ensembles.fedboost import Objective, check_map_suits_loss, objective, own_loss
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import fedboost as rounds_of
from fedrepro.kernels.fedboost import Gradient
from fedrepro.kernels.mirror import Mirror, mirror_step
from fedrepro.kernels.mixture import Loss, gradient_of_mixture, mix_sent, pull_of_clients
from fedrepro.kernels.sampling import Sampling, sample_without_replacement
from fedrepro.models.ensemble import Ensemble
from fedrepro.models.trained.mixture import Mixture
from fedrepro.streams import stream
from fedrepro.trace import Callback, Recorder, Trace


@checked
def aflboost(
    federation: Federation,
    ensemble: Ensemble,
    *,
    rounds: int,
    step: float,
    step_domains: float,
    budget: float | None = None,
    sampling: str = "weighted",
    loss: str = "log",
    mirror: str = "entropy",
    gradient: str = "sent",
    mixtures: Mixtures | None = None,
    mirror_domains: str = "euclidean",
    weighting: str = "domains",
    clients_per_round: int | None = None,
    evaluate: int | Sequence[int] = 50,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Learn the weights of an ensemble against the worst mixture of the domains.

    The loss of a domain is the Bregman divergence of Section 3: for ``"log"`` the Kullback-Leibler divergence from the
    domain's distribution to the ensemble, for ``"generalised-kl"`` the generalised one, which differs at an ensemble
    that was only partly sent, for ``"squared"`` the squared distance between the two.

    Parameters
    ----------
    federation, ensemble
        The clients' data, each client in one domain, and the base predictors (densities).
    rounds, step, step_domains
        Rounds, and the step sizes η_α and η_λ.
    budget, sampling, loss, mirror, gradient, clients_per_round, evaluate, callbacks, seed
        As in `fedboost`; no gradient is corrected. The log loss of an ensemble that was only partly sent is infinite
        on a word that nobody sent covers, so with sampling the predictors must be smoothed.
    mixtures
        Λ: `Simplex` (default), `CappedSimplex`, `Box`, `L1Ball` or `Hull` of `fedrepro.algorithms.domains`.
    mirror_domains
        The mirror map of λ: ``"euclidean"`` or ``"entropy"``. Figure 2 has one F for both players; AFL, on which it
        builds, projects λ in the Euclidean sense. A `Hull` knows only the Euclidean projection.
    weighting
        Of client j of domain d in steps 4 and 5: ``"domains"``, m_j / m_d, which is the objective (11) and, with p/N in
        front where N clients are drawn, unbiased; ``"printed"``, m_j / m with m the samples of the drawn clients.

    Returns
    -------
    Trace
        Columns ``round``, ``worst`` and ``average_worst`` (largest loss over Λ of the last and of the averaged
        iterate), ``gap_bound`` (a bound from above on the duality gap of the averaged pair, and so on the excess of
        ``average_worst``: the inner minimum is taken over all densities, where Lemma 1 gives it; it is the gap itself
        only where the ensemble can be every mixture of the domains, and it falls with λ, too), ``sent``, ``received``.
        ``final`` holds ``alpha``, ``average``, ``mixture`` (λ), ``average_mixture`` and ``domain_losses``.
    """
    goal = objective(federation, ensemble, loss)
    mixtures = Simplex() if mixtures is None else mixtures
    _check(federation, ensemble, rounds, step, step_domains, gradient, weighting)
    of_domains = chosen("mirror_domains", mirror_domains, Mirror)
    per_round = checked_clients(clients_per_round, federation.n_clients)
    ones = np.ones(goal.size)
    rules = rounds_of.Rules(
        loss=goal.loss,
        sampling=chosen("sampling", sampling, Sampling),
        mirror=chosen("mirror", mirror, Mirror),
        gradient=chosen("gradient", gradient, Gradient),
        budget=checked_budget(budget, sampling, ones),
        step=float(step),
    )
    check_map_suits_loss(goal, mirror)
    if goal.loss != Loss.SQUARED and gradient == "full":
        raise UserError(f"gradient='full' is for the squared loss: the {loss} loss has no such gradient.")
    if goal.loss != Loss.SQUARED and sampling != "none" and ensemble.smoothing == 0:
        raise UserError(
            "The log loss of a partly sent ensemble is infinite on elements that nobody sent covers: "
            "smooth the predictors (unigrams(..., smoothing=0.01)) or use sampling='none'."
        )
    game, prices = _Game(federation, goal, weighting), rounds_of.prices_of(ones)
    state, work = rounds_of.start(goal.size), rounds_of.workspace(goal.size, goal.problem.rows)
    lam = mixtures.project(np.full(game.domains, 1.0 / game.domains), mirror_domains)
    lam_sum, moved = np.zeros(game.domains), np.empty(game.domains)
    predictors, client_draws = stream("aflboost", "sampling", seed), stream("aflboost", "batch", seed)
    recorder = Recorder(callbacks=callbacks)
    scalars = predictors_sent = done = 0
    if (saved := recorder.resumed()) is not None:
        done, scalars, predictors_sent = saved["done"], saved["scalars"], saved["predictors_sent"]
        restore([state, lam, lam_sum, predictors, client_draws], saved["changing"])
    alpha = rounds_of.current_weights(state, rules.mirror)
    average = rounds_of.average_weights(state) if done else alpha

    def reached() -> dict:
        changing = state, lam, lam_sum, predictors, client_draws
        return {"done": done, "scalars": scalars, "predictors_sent": predictors_sent, "changing": changing}

    for stop in recorder.due(evaluation_steps(evaluate, rounds)):
        while done < stop:
            observed = game.observe(per_round, client_draws)  # step 1
            uniforms = predictors.random(goal.size) if sampling != "none" else np.zeros(0)
            n = rounds_of.draw_predictors(rules, state, prices, uniforms, work)  # step 2
            rounds_of.weigh_sent(state, work, n)  # step 3 i
            mix_sent(goal.problem, work.sent, work.coefficients, n, work.mixture)
            losses = game.losses(work.mixture, observed)  # steps 3 ii and 5
            np.dot(lam, observed.distributions, out=work.pull)
            scalars += int(goal.problem.indptr[work.sent[:n] + 1].sum() - goal.problem.indptr[work.sent[:n]].sum()) + n
            predictors_sent += n
            coordinates = goal.size if gradient == "full" else n
            if gradient == "full":
                work.sent[:] = np.arange(goal.size)
            mass = float(lam @ observed.mass)
            gradient_of_mixture(goal.problem, goal.loss, mass, work, coordinates)  # step 4
            work.mixture[:] = 0.0
            if gradient == "importance":
                work.gradient[:n] /= work.gamma[:n]
            rounds_of.count_round(state)
            rounds_of.mirror_update(rules, state, work, coordinates)  # step 6
            lam_sum += lam
            if n > 0:  # nobody has a loss to report where nothing was sent
                mirror_step(of_domains, lam, losses, float(step_domains), moved)  # step 7
                lam = mixtures.project(moved, mirror_domains)
            done += 1
        alpha = rounds_of.current_weights(state, rules.mirror)
        average = rounds_of.average_weights(state) if done else alpha
        average_worst = mixtures.worst(game.losses(goal.mixture(average)))
        recorder.row(
            round=float(done),
            worst=float(mixtures.worst(game.losses(goal.mixture(alpha)))),
            average_worst=float(average_worst),
            gap_bound=float(average_worst - game.least(lam_sum / done if done else lam)),
            sent=float(scalars * per_round),
            received=float((predictors_sent + done) * per_round),
        )
        recorder.tell(reached)
    return recorder.trace(
        final={
            "alpha": alpha,
            "average": average,
            "mixture": lam,
            "average_mixture": lam_sum / done if done else lam,
            "domain_losses": game.losses(goal.mixture(average)),
        },
        model=Mixture.of("alpha", ensemble, own_loss(loss)),
    )


class _Observed:
    """What the clients of a round hold: per domain the sum of their weights times their distributions."""

    def __init__(self, distributions: np.ndarray, mass: np.ndarray, least: np.ndarray):
        self.distributions = distributions  # (domains, elements)
        self.mass = mass  # sum of the weights: 1 (or m_d / m, as printed) where all clients take part
        self.least = least  # F(D_d) summed with the same weights: what makes the loss a divergence


class _Game:
    """The domains' side: distributions D_d = sum over the clients of d of m_j / m_d D_j, and divergences from them."""

    def __init__(self, federation: Federation, goal: Objective, weighting: str = "domains"):
        self.goal = goal
        self.weighting = weighting
        self.domain = federation.domain_of_clients
        self.domains = federation.n_domains
        self.shares = np.bincount(self.domain, goal.client_weights, self.domains)  # m_d / m
        self.client_share = goal.client_weights / self.shares[self.domain]  # m_j / m_d
        everyone = np.arange(self.domain.size)
        self.laws = np.zeros((self.domains, goal.problem.rows))  # D_d
        for d in range(self.domains):
            members = np.flatnonzero(self.domain == d)
            pull_of_clients(goal.problem, members, self.client_share[members], self.laws[d])
        self.everyone = self._gather(everyone, self.client_share)
        self.in_full = self.everyone if weighting == "domains" else self._gather(everyone, goal.client_weights)

    def observe(self, per_round: int, draws: np.random.Generator) -> _Observed:
        """The clients of a round, weighed as steps 4 and 5 do."""
        if per_round == self.domain.size:
            return self.in_full
        clients = np.sort(sample_without_replacement(draws.random(self.domain.size), per_round))
        if self.weighting == "printed":
            drawn = self.goal.client_weights[clients]
            return self._gather(clients, drawn / drawn.sum())
        return self._gather(clients, self.domain.size / per_round * self.client_share[clients])

    def losses(self, mixture: np.ndarray, observed: _Observed | None = None) -> np.ndarray:
        """B_F(D_d || mixture) for each domain, as observed, or with all clients and weights m_j / m_d."""
        seen = self.everyone if observed is None else observed
        if self.goal.loss != Loss.SQUARED:
            covered = mixture > 0
            missed = seen.distributions[:, ~covered].sum(axis=1) > 0
            cross = -(seen.distributions[:, covered] @ np.log(mixture[covered]))
            beyond = mixture.sum() - 1.0 if self.goal.loss == Loss.GENERALISED_KL else 0.0
            return np.where(missed, np.inf, cross + seen.least + seen.mass * beyond)
        return seen.mass * (mixture @ mixture) - 2 * (seen.distributions @ mixture) + seen.least

    def least(self, lam: np.ndarray) -> float:
        """min over all densities h of sum_d lam_d B_F(D_d || h), which Lemma 1 puts at the mixture of the D_d."""
        return float(lam @ self.losses(lam @ self.laws))

    def _gather(self, clients: np.ndarray, weights: np.ndarray) -> _Observed:
        distributions = np.zeros((self.domains, self.goal.problem.rows))
        for d in range(self.domains):
            members = self.domain[clients] == d
            pull_of_clients(self.goal.problem, clients[members], weights[members], distributions[d])
        mass = np.bincount(self.domain[clients], weights, self.domains)
        if self.goal.loss != Loss.SQUARED:
            logs = np.log(self.laws, out=np.zeros_like(self.laws), where=self.laws > 0)
            return _Observed(distributions, mass, (distributions * logs).sum(axis=1))
        return _Observed(distributions, mass, mass * (self.laws**2).sum(axis=1))


def _check(federation, ensemble, rounds, step, step_domains, gradient, weighting) -> None:
    check_known("gradient", gradient, ("sent", "importance", "full"))
    check_known("weighting", weighting, ("domains", "printed"))
    check_positive("step", step)
    check_positive("step_domains", step_domains)
    check_count("rounds", rounds)
    if federation.n_domains < 2:
        raise UserError("AFLBoost guards against mixtures of domains: give the federation at least two domains.")
    if not ensemble.densities:
        raise UserError("AFLBoost is for densities: build the ensemble with from_densities, unigrams or point_masses.")
