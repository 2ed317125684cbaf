"""FedMultiBoost: MultiBoost where the samples stay with their clients.

Corinna Cortes, Mehryar Mohri, Dmitry Storcheus, Ananda Theertha Suresh. Boosting with Multiple Sources. NeurIPS 2021;
as Figure 7 of Lakshay Tyagi, Raviteja Chukkapalli, Federated Learning on Multiple Data Sources, prints it, with its
numbering of the lines. A client may hold several domains, and a domain may be spread over clients; the base predictors
are decision stumps.

On a federation of one's own::

    from fedrepro import Federation
    from fedrepro.algorithms import fed_multiboost
    federation = Federation.from_arrays(x, y, clients=ward, domains=hospital)
    trace = fed_multiboost(federation, rounds=200, initial_step=0.5, clients_per_round=10)

Where the figure cannot be meant as it is printed:

- Line 9 adds the clients' mean losses: a domain with many clients would be the worst for that alone. Here they are
  weighted by the clients' numbers of samples, which makes the sum the domain's mean loss.
- Lines 15 and 16: D is normalised over all clients, so that the sum of β = 1 - 2 ε over |C| clients is |C| - 1 plus the
  edge, and a client's part of the edge is Σ_i D(c, i) y_i Q(k|x_i) h(x_i). This is what clients send here.
- Line 17 is garbled; what is maximised is the edge of Figure 6, line 10, on the clients that take part.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from fedrepro.algorithms.arguments import check_count, checked_clients, chosen, evaluation_steps
from fedrepro.algorithms.boosting.fed_posterior import fed_domain_posterior
from fedrepro.algorithms.boosting.multiboost import (
    Ensemble,
    Member,
    Posterior,
    Sources,
    boosted,
    check_initial_step,
    check_thresholds,
    chosen_posterior,
    evaluated,
    parameters_of,
    sign_of,
    worst_domains,
)
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import stumps as kernels
from fedrepro.kernels.stumps import Loss
from fedrepro.models.domain_posterior import DomainPosterior, flat_features
from fedrepro.models.stumps import Stumps, stumps_from, summary_of
from fedrepro.streams import stream
from fedrepro.trace import Callback, Recorder, Trace

SCALARS_OF_A_MEMBER = 4  # domain, number of the stump, sign, weight


@checked
def fed_multiboost(
    federation: Federation,
    *,
    rounds: int,
    initial_step: float,
    loss: Literal["exponential", "logistic"] = "exponential",
    clients_per_round: int | None = None,
    stumps_per_round: int | None = None,
    domain_posterior: Literal["uniform"] | Posterior | None = None,
    thresholds: int | None = 32,
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Boost stumps for the domain with the largest loss, by clients that keep their samples.

    Parameters
    ----------
    federation
        Features, labels 0 and 1, clients and domains.
    rounds, initial_step
        T, and η_0 of the steps η_0 / √t.
    loss
        Φ, as in `multiboost`.
    clients_per_round
        r: how many of the clients that hold a domain are asked about it in a round (all where there are fewer); by
        default all of them.
    stumps_per_round
        s: how many base predictors, drawn anew in each round, the choice is made from; by default all.
    domain_posterior
        As in `multiboost`; by default a softmax regression that the clients fit by federated averaging.
    thresholds
        The largest number of thresholds of a feature. Before the first round each client tells so many quantiles of
        each feature (plus one), from which the server makes the stumps; with None, all of its values.
    evaluate, test, callbacks
        As in `multiboost`.
    seed
        Varies which clients and which stumps are drawn.

    Returns
    -------
    Trace
        As of `multiboost`. ``sent`` and ``received`` count, by the server and cumulative: before the first round, the
        fit of Q(l|x) and its result to every client, the clients' values of the features and their numbers of samples,
        and the stumps; in a round, to each client that takes part the members of f that it does not have yet, back a
        loss and a Z for each domain that it is asked about, to the clients of the worst domains Z and the numbers of
        the drawn stumps, and back an edge of each of these.
    """
    check_count("rounds", rounds)
    kind = chosen("loss", loss, Loss)
    check_initial_step(initial_step)
    check_thresholds(thresholds)
    r = checked_clients(clients_per_round, federation.n_clients)
    traffic = Traffic()
    posterior = _posterior(domain_posterior, federation, seed, traffic)
    sources = Sources(federation, posterior, kind)
    on_test = None if test is None else Sources(test, posterior, kind, like=sources)
    stumps = _stumps_of_clients(federation, thresholds, traffic)
    s = _checked_stumps(stumps_per_round, len(stumps))
    cells = _cells(federation, sources, stumps)
    traffic.received += sum(len(of_domain) for of_domain in cells)  # m_c of each domain that a client holds
    known = np.zeros(federation.n_clients, dtype=np.int64)  # how many members of f each client has
    ensemble = Ensemble()  # line 1
    recorder = Recorder(federation.domain_names, None if test is None else test.domain_names, callbacks)
    step, done = 0.0, 0
    changing = [sources.f, known] if on_test is None else [sources.f, known, on_test.f]
    if (saved := recorder.resumed()) is not None:
        restore(changing, saved["changing"])
        ensemble.restore(saved["ensemble"])
        done, step, (traffic.sent, traffic.received) = len(ensemble.members), saved["step"], saved["traffic"]

    def reached() -> dict:
        exchanged = float(traffic.sent), float(traffic.received)
        return {"changing": changing, "ensemble": ensemble.state(), "step": float(step), "traffic": exchanged}

    for stop in recorder.due(evaluation_steps(evaluate, rounds)):
        for t in range(done + 1, stop + 1):  # line 2
            asked = [_select_clients(cells[k], k, r, seed, t) for k in range(len(cells))]  # line 4
            _broadcast(asked, t - 1, known, traffic)  # line 3
            candidates = _select_stumps(len(stumps), s, seed, t)  # line 11
            k, stump, sign = _choose(sources, stumps, asked, candidates, traffic)  # lines 5 to 17
            step = initial_step / np.sqrt(t)  # line 18
            member = Member(k, *stumps.place(stump), sign)
            ensemble.add(member, step)  # line 19
            sources.follow(member, step)
            if on_test is not None:
                on_test.follow(member, step)
        done, row = stop, evaluated(sources, on_test)
        recorder.row(round=float(done), **row, step=step, sent=traffic.sent, received=traffic.received)
        recorder.tell(reached)
    return recorder.trace(  # lines 20 and 21
        final=ensemble.final() | parameters_of(posterior), model=boosted(posterior, domain_posterior, sources)
    )


class Traffic:
    """Scalars that the server has sent and received."""

    def __init__(self):
        self.sent = self.received = 0.0


class Cell(NamedTuple):
    """The samples of one domain at one client."""

    client: int
    samples: slice  # of the Sources
    codes: np.ndarray  # of the samples, for the stumps

    @property
    def size(self) -> int:
        """m_c."""
        return self.samples.stop - self.samples.start


# --- before the first round ------------------------------------------------------------------------------------------


def _posterior(given, federation: Federation, seed: int, traffic: Traffic) -> Posterior:
    """Q(l|x), and what its fit and its broadcast cost."""

    def fit(federation: Federation) -> DomainPosterior:
        fitted = fed_domain_posterior(federation, seed=seed)
        traffic.sent += fitted.sent
        traffic.received += fitted.received
        return fitted.posterior

    posterior = chosen_posterior(given, federation, fit)
    parameters = sum(np.size(part) for part in parameters_of(posterior).values())
    traffic.sent += federation.n_clients * parameters
    return posterior


def _stumps_of_clients(federation: Federation, thresholds: int | None, traffic: Traffic) -> Stumps:
    """The stumps for what the clients tell of their features: values, and how many samples each stands for."""
    told, x = [], flat_features(federation)
    for first, end in pairwise(federation.offsets):
        told.append([summary_of(column, thresholds) for column in x[first:end].T])
        traffic.received += sum(2 * one.values.size for one in told[-1])
    stumps = stumps_from(told, thresholds)
    traffic.sent += federation.n_clients * (len(stumps) - 1 + len(stumps.thresholds))  # thresholds, and how many each
    return stumps


def _cells(federation: Federation, sources: Sources, stumps: Stumps) -> list[list[Cell]]:
    """For each domain what each client holds of it."""
    owner = np.repeat(np.arange(federation.n_clients), federation.sizes)[sources.order]
    cells = []
    for k in range(federation.n_domains):
        here, of_domain = sources.of(k), []
        clients, first, count = np.unique(owner[here], return_index=True, return_counts=True)
        for client, start, size in zip(clients, here.start + first, count, strict=True):
            samples = slice(int(start), int(start + size))
            of_domain.append(Cell(int(client), samples, stumps.codes(sources.x[samples])))
        cells.append(of_domain)
    return cells


# --- a round ---------------------------------------------------------------------------------------------------------


def _select_clients(cells: list[Cell], k: int, r: int, seed: int, t: int) -> list[Cell]:
    """SelectClient(k, r): r of the clients that hold domain k, in their order; all where there are fewer."""
    if r >= len(cells):
        return cells
    drawn = stream("fed_multiboost", "sampling", seed, client=k, round=t).permutation(len(cells))[:r]
    return [cells[at] for at in np.sort(drawn)]


def _select_stumps(n: int, s: int, seed: int, t: int) -> np.ndarray:
    """SelectBaseClassifier(k, s): s of the n stumps, the same for all domains, in their order."""
    if s >= n:
        return np.arange(n)
    return np.sort(stream("fed_multiboost", "batch", seed, round=t).permutation(n)[:s])


def _broadcast(asked: list[list[Cell]], members: int, known: np.ndarray, traffic: Traffic) -> None:
    """Line 3: each client that takes part gets the members of f that it has not seen."""
    for client in sorted({cell.client for of_domain in asked for cell in of_domain}):
        traffic.sent += SCALARS_OF_A_MEMBER * (members - known[client])
        known[client] = members


def _choose(
    sources: Sources, stumps: Stumps, asked: list[list[Cell]], candidates: np.ndarray, traffic: Traffic
) -> tuple[int, int, float]:
    """Lines 5 to 17: the predictor (k, r) of the worst domains with the largest edge, and its sign."""
    losses, slopes = sources.losses(), sources.slopes()
    sizes = np.array([sum(cell.size for cell in of_domain) for of_domain in asked])
    sums, z = np.zeros(len(asked)), np.zeros(len(asked))
    for k, of_domain in enumerate(asked):  # line 5
        for cell in of_domain:  # line 6
            mean = losses[cell.samples].mean()  # line 7
            sums[k] += cell.size * mean  # line 9, weighted
            z[k] += slopes[cell.samples].sum()  # lines 8 and 10
            traffic.received += 2  # the mean and Z
    best, found = -1.0, (0, 0, 1.0)
    for k in worst_domains(sums / sizes):  # lines 9 and 12
        edges, scale = np.zeros(candidates.size), 0.0
        for cell in asked[k]:  # line 13
            traffic.sent += 2 + (candidates.size if candidates.size < len(stumps) else 0)  # k, Z, and which stumps
            distribution = slopes[cell.samples] / z[k]  # line 15
            v = distribution * sources.y[cell.samples] * sources.shares[cell.samples, k]
            edges += stumps.edges(cell.codes, v[:, None])[candidates, 0]  # line 16
            traffic.received += candidates.size
            scale += np.abs(v).sum()
        at = kernels.first_largest(edges, scale)
        edge = z[k] / sizes[k] * abs(edges[at])
        if edge > best * (1 + kernels.TIE):  # line 17; of equals the first
            best, found = edge, (int(k), int(candidates[at]), sign_of(edges[at]))
    return found


def _checked_stumps(stumps_per_round: int | None, n: int) -> int:
    if stumps_per_round is None:
        return n
    check_count("stumps_per_round", stumps_per_round)
    if stumps_per_round > n:
        raise UserError(f"stumps_per_round={stumps_per_round} asks for more stumps than there are: choose 1 to {n}.")
    return int(stumps_per_round)
