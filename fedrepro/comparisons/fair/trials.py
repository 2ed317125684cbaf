"""One trial: a method on a problem, with as many rounds as the communication allows."""

import numpy as np

from fedrepro.algorithms import (
    afl,
    agnostic_fedavg,
    approx_fedavg,
    ditto,
    drfa,
    fedavg,
    fedmgda_plus,
    fedprox,
    q_fedavg,
    term,
)
from fedrepro.comparisons.fair.problems import MODELS, problem
from fedrepro.data.federation import Federation
from fedrepro.models.trained.evaluation import Evaluation, fairness_of
from fedrepro.models.trained.parametric import Parametric
from fedrepro.trace import Trace

AFL, FEDAVG, AGNOSTIC, APPROX = "AFL", "FedAvg", "AgnosticFedAvg", "ApproxFedAvg"
Q_FEDAVG, TERM, DRFA, FEDPROX, DITTO, FEDMGDA = "q-FedAvg", "TERM", "DRFA", "FedProx", "Ditto", "FedMGDA+"
ALGORITHMS = {
    FEDAVG: fedavg,
    AGNOSTIC: agnostic_fedavg,
    APPROX: approx_fedavg,
    Q_FEDAVG: q_fedavg,
    TERM: term,
    DRFA: drfa,
    FEDPROX: fedprox,
    DITTO: ditto,
    FEDMGDA: fedmgda_plus,
}
METHODS = (AFL, *ALGORITHMS)
LOCAL_STEPS, BATCH = 10, 16
MEASURES = ("mean", "worst_domain", "worst_client", "worst_tenth", "spread")


def on_problem(
    *, seed: int, data: dict, name: str, method: str, size: int, rounds: int, judged_on: str = "test", **chosen
) -> Trace:
    """Accuracies, in percent, of a method that sends and receives no more than FedAvg does in so many rounds.

    Parameters
    ----------
    name, size, judged_on
        As in `fedrepro.comparisons.fair.problems.problem`.
    rounds
        Of FedAvg with all clients.
    chosen
        What is the method's own: step sizes, q, t, μ, λ, ε.

    Returns
    -------
    Trace
        One row: the measures of `MEASURES`, over the clients but for ``worst_domain``. ``final`` has of AFL the same
        for its averaged iterate; of Ditto ``gain``, by how much a client's own model is better for it than that of
        all, in the mean over clients, and ``gaining``, the share of clients for which it is not worse.
    """
    train, other = problem(name, data, size=size, seed=seed, judged_on=judged_on)
    model = MODELS[name]
    trace = _trained(method, train, model, rounds, seed, chosen)
    columns = {column: trace[column][-1:] for column in ("round", "sent", "received")}
    columns |= {measure: np.array([value]) for measure, value in _measured(trace, other).items()}
    final = {}
    if method == AFL:
        final = {f"average_{measure}": value for measure, value in _measured(trace, other, "average").items()}
    if method == DITTO:
        own = trace.evaluate(other)["accuracy"]
        shared = Parametric.of(model).evaluate(trace, other, "client", "last")["accuracy"]
        final = {"gain": 100 * float((own - shared).mean()), "gaining": 100 * float((own >= shared).mean())}
    return Trace(columns, final)


def affordable(method: str, rounds: int, *, parameters: int, clients: int, domains: int) -> int:
    """How many rounds (steps of AFL) a method can make with the scalars of so many rounds of FedAvg.

    AFL's steps are counted as if each domain were one machine, which favours it where clients share a domain. DRFA is
    counted as if no λ_i ever came to 0.
    """
    of_fedavg = 2 * clients * parameters
    of_round = {
        AFL: domains * (2 * parameters + 1),
        AGNOSTIC: of_fedavg + clients * (3 * domains + 1),
        DRFA: 2 * of_fedavg + 2 * clients,
    } | dict.fromkeys((APPROX, Q_FEDAVG, TERM), of_fedavg + clients)
    return max(1, rounds * of_fedavg // of_round.get(method, of_fedavg))


def _trained(method: str, train: Federation, model, rounds: int, seed: int, chosen: dict) -> Trace:
    sizes = {"clients": train.n_clients, "domains": train.n_domains, "parameters": model.on(train).n_parameters}
    length = affordable(method, rounds, **sizes)
    common = {"evaluate": [length], "training_losses": False, "seed": seed}
    if method == AFL:  # between two messages as many samples as the clients of the others go through
        return afl(train, model, steps=length, batch=LOCAL_STEPS * BATCH, **common, **chosen)
    if method == AGNOSTIC:
        chosen = chosen | {"normalise": "batch"}  # as printed, a step would be short by the batch's share of the client
    if method != DRFA:
        common["epochs"] = None
    return ALGORITHMS[method](train, model, rounds=length, local_steps=LOCAL_STEPS, batch=BATCH, **common, **chosen)


def _measured(trace: Trace, other: Federation, iterate: str = "last") -> dict[str, float]:
    clients: Evaluation = trace.evaluate(other, iterate=iterate)
    domains: Evaluation = trace.evaluate(other, by="domain", iterate=iterate)
    fairness = fairness_of("accuracy", clients["accuracy"], clients.samples)
    found = {
        "mean": fairness["mean"],
        "worst_domain": float(np.min(domains["accuracy"])),
        "worst_client": fairness["worst"],
        "worst_tenth": fairness["worst 10 %"],
        "spread": fairness["spread"],
    }
    return {measure: 100 * found[measure] for measure in MEASURES}
