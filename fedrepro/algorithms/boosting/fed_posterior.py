"""Q(l|x) where the samples stay with their clients: softmax regression of the domains, by federated averaging."""

from typing import NamedTuple

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_positive
from fedrepro.algorithms.averaging.fedavg import fedavg
from fedrepro.data.federation import Federation
from fedrepro.models.domain_posterior import L2, DomainPosterior, check_l2, domain_sizes, flat_features, scale_of
from fedrepro.models.regression import SoftmaxRegression


class FittedByClients(NamedTuple):
    """A fitted Q(l|x), and the scalars that the server sent and received for it."""

    posterior: DomainPosterior
    sent: float
    received: float


def fed_domain_posterior(
    federation: Federation, *, rounds: int = 100, step: float = 0.1, l2: float = L2, seed: int = 0
) -> FittedByClients:
    """Fit Q(l|x) to samples that stay with their clients.

    First the clients tell sums and squares of their features, from which the server makes means and scales; then they
    train by FedAvg with one full-batch step per round and Adam at the server. A client often holds one domain only, and
    would with more steps of its own drift to a model that knows no other.

    Parameters
    ----------
    federation
        Features, clients and domains; labels are not used.
    rounds, step
        Rounds of averaging, and the step size of Adam.
    l2
        As in `fedrepro.models.domain_posterior.fit_domain_posterior`.
    """
    check_count("rounds", rounds)
    check_positive("step", step)
    check_l2(l2)
    x, p = flat_features(federation), domain_sizes(federation).size
    d, clients = x.shape[1], federation.n_clients
    if p == 1:  # Q = 1 whatever the features are
        return FittedByClients(DomainPosterior(np.zeros(d + 1), np.zeros(d), np.ones(d)), 0.0, 0.0)
    sums = np.add.reduceat(x, federation.offsets[:-1], axis=0)
    squares = np.add.reduceat(x**2, federation.offsets[:-1], axis=0)
    mean = sums.sum(axis=0) / len(x)
    scale = scale_of(squares.sum(axis=0) / len(x) - mean**2)
    trace = fedavg(
        _with_domains_for_labels(federation, (x - mean) / scale),
        SoftmaxRegression(p, l2=l2),
        rounds=rounds,
        step=1.0,
        epochs=None,
        local_steps=1,
        batch=None,
        server_step=step,
        server_optimiser="adam",
        evaluate=1,
        training_losses=False,
        seed=seed,
    )
    posterior = DomainPosterior(trace.final["w"], mean, scale)
    return FittedByClients(
        posterior,
        sent=float(trace["sent"][-1]) + 2 * d * clients,
        received=float(trace["received"][-1]) + (2 * d + 1) * clients,
    )


def _with_domains_for_labels(federation: Federation, x: np.ndarray) -> Federation:
    return Federation.from_arrays(
        x,
        federation.domains,
        clients=np.repeat(np.arange(federation.n_clients), federation.sizes),
        client_names=federation.client_names,
    )
