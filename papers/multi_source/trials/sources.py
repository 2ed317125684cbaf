"""Trials of Sections IV and VI: averaged, agnostic, boosted and invariant learning on the same two problems.

Methods that train a model by gradients take the same number of steps on the same number of samples: `clients` × `BATCH`
in each. Clients that average do so after `LOCAL_STEPS` of them; AFL and IRM communicate after every step.
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
    multiboost,
    scaffold,
)
from fedrepro.algorithms.boosting.multiboost import scores
from fedrepro.data.federation import Federation
from fedrepro.models.domain_posterior import fit_domain_posterior, uniform_posterior
from fedrepro.models.networks import MLP
from fedrepro.models.regression import LogisticRegression
from fedrepro.papers.multi_source.trials import problems
from fedrepro.trace import Trace

AGNOSTIC = "AgnosticFedAvg"
ADABOOST, MULTIBOOST, SMOOTHED, FED_MULTIBOOST = "AdaBoost", "MultiBoost", "MultiBoost, smoothed", "FedMultiBoost"
BOOSTED = (ADABOOST, MULTIBOOST, SMOOTHED, FED_MULTIBOOST)
AFL, ERM, IRM, FEDERATED_IRM = "AFL", "ERM", "IRM", "IRM, federated"
INVARIANT = (ERM, IRM, FEDERATED_IRM)
RUNS = {"FedAvg": fedavg, "SCAFFOLD": scaffold, AGNOSTIC: agnostic_fedavg, "ApproxFedAvg": approx_fedavg}
LOCAL_STEPS = 10
BATCH = 16
POSTERIOR_L2 = 0.01  # of Q(l|x), fitted in one place; with 0.0001 it is as likely to 0.003 nats and takes longer
THRESHOLDS = 16  # of a feature, at most: most of Adult's features are 0 or 1
MODELS = {"adult": LogisticRegression(), "digits": MLP(2, hidden=(64,)), "grey": MLP(2, hidden=(64,))}


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
    chosen
        What is the method's own: step sizes, μ, penalty.
    """
    given = problem_of(problem, data, size=size, seed=seed, judged_on=judged_on)
    evaluated = np.unique(np.linspace(0, steps // LOCAL_STEPS, points).round().astype(int)) * LOCAL_STEPS
    if method in BOOSTED:
        trace = _boosted(method, given, steps=steps, evaluated=evaluated, seed=seed, **chosen)
        outside = given.outside and _accuracy_of_ensemble(method, trace.final, given.outside, given.train.n_domains)
    else:
        model = MODELS[problem]
        trace = _trained(method, given, model, steps=steps, evaluated=evaluated, seed=seed, **chosen)
        outside = given.outside and _accuracy_of_model(model, trace.final["w"], given.outside)
    columns = {"round": evaluated.astype(float), "sent": trace["sent"], "received": trace["received"]}
    columns["accuracy"] = 100 * trace["test_accuracy"]
    columns["average"] = columns["accuracy"] @ (np.bincount(given.test.domains) / len(given.test))
    columns["worst"] = columns["accuracy"].min(axis=1)
    if method in BOOSTED and method != ADABOOST:
        columns["largest_loss"] = trace["loss"].max(axis=1)  # of the domains, which AdaBoost does not know
    return Trace(columns, {} if outside is None else {"outside": 100 * outside})


def problem_of(name: str, data: Mapping[str, str], *, size: int, seed: int, judged_on: str) -> problems.Problem:
    """The problem of a trial; ``"grey"`` are the digits without colours."""
    if name == "adult":
        return problems.by_schooling(data["uci_adult"], rows=size, seed=seed, judged_on=judged_on)
    return problems.coloured(data["mnist"], size=size, seed=seed, judged_on=judged_on, grey=name == "grey")


def _trained(
    method: str, given: problems.Problem, model, *, steps: int, evaluated: np.ndarray, seed: int, **chosen
) -> Trace:
    """A model that is trained by gradients."""
    train, common = given.train, {"test": given.test, "seed": seed}
    if method in INVARIANT:
        return irm(
            train,
            model,
            steps=steps,
            federated=method == FEDERATED_IRM,
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
        rounds=steps // LOCAL_STEPS,
        epochs=None,
        local_steps=LOCAL_STEPS,
        batch=BATCH,
        evaluate=(evaluated // LOCAL_STEPS).tolist(),
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
    if method == ADABOOST:  # one domain, and so Q = 1
        pooled = Federation.from_arrays(given.train.x, given.train.y)
        return multiboost(pooled, domain_posterior="uniform", **common)
    posterior = chosen.get("domain_posterior") or fit_domain_posterior(given.train, l2=POSTERIOR_L2)
    step = "smoothed" if method == SMOOTHED else "line-search"
    return multiboost(given.train, step=step, domain_posterior=posterior, **common)


def _accuracy_of_model(model, w: np.ndarray, federation: Federation) -> float:
    return float(model.on(federation).metrics(w)["accuracy"][0])


def _accuracy_of_ensemble(method: str, final: Mapping[str, np.ndarray], federation: Federation, domains: int) -> float:
    posterior = None if "posterior_w" in final else uniform_posterior(1 if method == ADABOOST else domains)
    says = scores(final, federation.x, posterior) > 0
    return float((says == (federation.y == 1)).mean())
