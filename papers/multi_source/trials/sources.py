"""Trials of Sections IV and VI: averaged, agnostic, boosted and invariant learning on the same two problems.

Methods that train a model by gradients take the same number of steps on the same number of samples: `clients` × `BATCH`
in each. Clients that average do so after τ of them; AFL, IRM and the games communicate after every step.
"""

from collections.abc import Mapping

import numpy as np

from fedrepro.algorithms import (
    afl,
    agnostic_fedavg,
    approx_fedavg,
    fed_multiboost,
    fedavg,
    irm,
    irm_games,
    multiboost,
    scaffold,
)
from fedrepro.algorithms.boosting.multiboost import scores
from fedrepro.data.federation import Federation
from fedrepro.models.domain_posterior import fit_domain_posterior, uniform_posterior
from fedrepro.models.networks import MLP
from fedrepro.models.one_logit import OneLogit
from fedrepro.models.regression import LogisticRegression
from fedrepro.models.trained.evaluation import fairness_of
from fedrepro.papers.multi_source.trials import problems
from fedrepro.papers.multi_source.trials.boosting import BALANCED, evenly
from fedrepro.trace import Trace

AGNOSTIC = "AgnosticFedAvg"
ADABOOST, MULTIBOOST, SMOOTHED, FED_MULTIBOOST = "AdaBoost", "MultiBoost", "MultiBoost, smoothed", "FedMultiBoost"
POOLED = (ADABOOST, BALANCED)  # which do not know of domains
BOOSTED = (*POOLED, MULTIBOOST, SMOOTHED, FED_MULTIBOOST)
AFL, ERM, IRM, FEDERATED_IRM = "AFL", "ERM", "IRM", "IRM, federated"
ONE_LOGIT = "IRM, federated, one logit"
INVARIANT = (ERM, IRM, FEDERATED_IRM, ONE_LOGIT)
F_IRM, V_IRM, FL_GAMES = "F-IRM game", "V-IRM game", "FL Games"
GAMES = {F_IRM: {}, V_IRM: {"representation": 1}, FL_GAMES: {"response": "parallel"}}
RUNS = {"FedAvg": fedavg, "SCAFFOLD": scaffold, AGNOSTIC: agnostic_fedavg, "ApproxFedAvg": approx_fedavg}
BATCH = 16
EVEN = ("worst 10 %", "spread", "entropy")  # how even a method is over clients, of `fairness_of`
POSTERIOR_L2 = 0.01  # of Q(l|x), fitted in one place; with 0.0001 it is as likely to 0.003 nats and takes longer
THRESHOLDS = 16  # of a feature, at most: most of Adult's features are 0 or 1
MODELS = {"adult": LogisticRegression(), "digits": MLP(2, hidden=(64,)), "grey": MLP(2, hidden=(64,))}
NETWORKS = MODELS | {"adult": MLP(2, hidden=())}  # a logistic regression with an output for each class


def on_sources(
    *,
    seed: int,
    data: dict,
    problem: str,
    method: str,
    size: int,
    steps: int,
    points: int,
    judged_on: str = "test",
    local_steps: int = 10,
    clients: int = problems.ADULT_CLIENTS,
    **chosen,
) -> Trace:
    """One method on one problem: accuracy of each domain, and of the domain outside their hull, along the way.

    Parameters
    ----------
    problem
        ``"adult"``: four domains by schooling, postgraduates outside; ``"digits"``: two environments of coloured
        digits, the reversed one outside; ``"grey"``: the same images without colours.
    size
        Training rows of Adult; training images of each environment of the digits.
    steps
        Gradient steps, or rounds of boosting.
    points
        At how many of them the accuracies are measured.
    local_steps
        τ of those methods that average.
    clients
        Of Adult.
    chosen
        What is the method's own: step sizes, μ, penalty.
    """
    given = problem_of(problem, data, size=size, seed=seed, judged_on=judged_on, clients=clients)
    evaluated = np.unique(np.linspace(0, steps // local_steps, points).round().astype(int)) * local_steps
    if method in BOOSTED:
        trace = _boosted(method, given, steps=steps, evaluated=evaluated, seed=seed, **chosen)
        outside = given.outside and _accuracy_of_ensemble(method, trace.final, given.outside, given.train.n_domains)
    else:
        model = (NETWORKS if method in GAMES else MODELS)[problem]
        model = OneLogit(model) if method == ONE_LOGIT else model
        chosen |= {} if method in (*GAMES, *INVARIANT, AFL) else {"local_steps": local_steps}
        trace = _trained(method, given, model, steps=steps, evaluated=evaluated, seed=seed, **chosen)
        outside = given.outside and float(trace.evaluate(given.outside, by="domain")["accuracy"][0])
    columns = {"round": evaluated.astype(float), "sent": trace["sent"], "received": trace["received"]}
    columns["accuracy"] = 100 * trace["test_accuracy"]
    columns["average"] = columns["accuracy"] @ (np.bincount(given.test.domains) / len(given.test))
    columns["worst"] = columns["accuracy"].min(axis=1)
    if method in BOOSTED and method not in POOLED:
        columns["largest_loss"] = trace["loss"].max(axis=1)  # of the domains
    even = over_clients(given.train, columns["accuracy"][-1])
    return Trace(columns, even | ({} if outside is None else {"outside": 100 * outside}))


def over_clients(train: Federation, accuracy: np.ndarray) -> dict[str, float]:
    """How even accuracies are over clients, whose own are those of their mixtures of the domains."""
    owner = np.repeat(np.arange(train.n_clients), train.sizes)
    held = np.zeros((train.n_clients, train.n_domains))
    np.add.at(held, (owner, train.domains), 1.0)
    found = fairness_of("accuracy", held @ accuracy / train.sizes, train.sizes)
    return {name: found[name] for name in EVEN}


def problem_of(
    name: str,
    data: Mapping[str, str],
    *,
    size: int,
    seed: int,
    judged_on: str,
    clients: int = problems.ADULT_CLIENTS,
) -> problems.Problem:
    """The problem of a trial; ``"grey"`` are the digits without colours."""
    if name == "adult":
        return problems.by_schooling(data["uci_adult"], rows=size, seed=seed, judged_on=judged_on, owners=clients)
    return problems.coloured(data["mnist"], size=size, seed=seed, judged_on=judged_on, grey=name == "grey")


def _trained(
    method: str, given: problems.Problem, model, *, steps: int, evaluated: np.ndarray, seed: int, **chosen
) -> Trace:
    """A model that is trained by gradients."""
    train, common = given.train, {"test": given.test, "seed": seed}
    if method in GAMES:
        parallel = method == FL_GAMES
        batch = train.n_clients * BATCH // (train.n_domains if parallel else 1)
        settings = {"batch": batch, "representation_batch": batch // train.n_domains} | GAMES[method] | chosen
        return irm_games(train, model, rounds=steps, evaluate=evaluated.tolist(), **common, **settings)
    if method in INVARIANT:
        return irm(
            train,
            model,
            steps=steps,
            federated=method in (FEDERATED_IRM, ONE_LOGIT),
            evaluate=evaluated.tolist(),
            **common,
            **chosen,
        )
    common |= {"training_losses": False}
    if method == AFL:
        batch = train.n_clients * BATCH // train.n_domains
        return afl(train, model, steps=steps, batch=batch, evaluate=evaluated.tolist(), **common, **chosen)
    if method == AGNOSTIC:
        chosen |= {"normalise": "batch"}  # as printed, a step would be short by the batch's share of the client
    return RUNS[method](
        train,
        model,
        rounds=steps // chosen["local_steps"],
        epochs=None,
        batch=BATCH,
        evaluate=(evaluated // chosen["local_steps"]).tolist(),
        **common,
        **chosen,
    )


def _boosted(method: str, given: problems.Problem, *, steps: int, evaluated: np.ndarray, seed: int, **chosen) -> Trace:
    """An ensemble of stumps."""
    common = {
        "rounds": steps,
        "thresholds": THRESHOLDS,
        "evaluate": evaluated.tolist(),
        "test": given.test,
        "seed": seed,
    }
    if method == FED_MULTIBOOST:
        return fed_multiboost(given.train, **common, **chosen)
    if method in POOLED:  # one domain, and so Q = 1
        rows = evenly(given.train.domains) if method == BALANCED else np.arange(len(given.train))
        pooled = Federation.from_arrays(np.asarray(given.train.x)[rows], given.train.y[rows])
        return multiboost(pooled, domain_posterior="uniform", **common)
    posterior = chosen.get("domain_posterior") or fit_domain_posterior(given.train, l2=POSTERIOR_L2)
    step = "smoothed" if method == SMOOTHED else "line-search"
    return multiboost(given.train, step=step, domain_posterior=posterior, **common)


def _accuracy_of_ensemble(method: str, final: Mapping[str, np.ndarray], federation: Federation, domains: int) -> float:
    posterior = None if "posterior_w" in final else uniform_posterior(1 if method in POOLED else domains)
    says = scores(final, federation.x, posterior) > 0
    return float((says == (federation.y == 1)).mean())


# --- the published level of IRM Games --------------------------------------------------------------------------------

PUBLISHED = {F_IRM: {"stop_below": 0.6}, V_IRM: {"stop_below": 0.55, "l2": 0.0}}
PUBLISHED_STEP, PUBLISHED_BATCH = 2.5e-4, 256


def as_published(
    *, seed: int, data: dict, method: str, size: int, units: int, rounds: int, step: float, warm_up: int = 100
) -> Trace:
    """A game on coloured digits with the settings of its authors' notebook: two hidden layers, and one of Φ in V-IRM.

    Parameters
    ----------
    units
        Of every hidden layer; 390 there.
    rounds
        The most turns; the game ends where the training accuracy falls below the threshold of the notebook.
    """
    given = problems.coloured(data["mnist"], size=size, seed=seed)
    layers = 3 if method == V_IRM else 2
    settings = {"step": step, "batch": PUBLISHED_BATCH, "representation_batch": PUBLISHED_BATCH, "warm_up": warm_up}
    trace = irm_games(
        given.train,
        MLP(2, hidden=(units,) * layers),
        rounds=rounds,
        evaluate=11,
        test=given.test,
        seed=seed,
        **settings | GAMES[method] | PUBLISHED[method],
    )
    outside = trace.evaluate(given.outside, by="domain")["accuracy"][0]
    columns = {name: trace[name] for name in ("round", "sent", "received", "played")}
    columns |= {"accuracy": 100 * trace["test_accuracy"], "training": 100 * trace["accuracy"].mean(axis=1)}
    return Trace(columns, {"outside": 100 * float(outside)})
