"""What noisy rounds cost in (ε, δ): the accountant of dp-accounting, with the two questions that training has.

A round releases a sum to which every client adds a vector of at most a given length, with Gaussian noise on it; each
client takes part with the same probability, independently of the others (Poisson sampling). Privacy is that of a client
with all its samples, under *zero-out* adjacency: two data sets are neighbours if one is the other with a client's data
replaced by nothing, so that this client adds the zero vector in every round, while the clients' number and sizes, the
weights made from them and the scale of the noise stay as they are and are public. It is not privacy under adding or
removing a client: weights m_j / m change for everybody when a client leaves, and with them the sum.
"""

import math
from functools import cache

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_positive
from fedrepro.checks import is_number
from fedrepro.errors import UserError
from fedrepro.extras import optional

# Whole orders of Rényi divergence: for them a sampled Gaussian is a finite sum. Fewer orders can only make ε larger.
_ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 512, 1024)


def sensitivity(weights: np.ndarray, clip: float) -> float:
    """By how much the weighted sum of vectors of at most a length changes if one client adds nothing.

    Parameters
    ----------
    weights
        Of all clients, whether they take part or not; they are the same for both neighbours.
    clip
        The greatest length of a client's vector.
    """
    return float(clip) * float(np.max(weights))


def epsilon_of(noise_multiplier: float, rate: float, rounds: int, delta: float) -> float:
    """ε of so many rounds, by Rényi differential privacy, under zero-out adjacency (see the module).

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise over the greatest length of a client's contribution (`sensitivity`).
    rate
        Probability with which a client takes part in a round.
    rounds, delta
        Number of rounds, and the δ for which ε is worked out.
    """
    check_positive("noise_multiplier", noise_multiplier)
    _check(rate, rounds, delta)
    return float(_accountant().compose(_event(noise_multiplier, rate, rounds)).get_epsilon(delta))


def moments_epsilon(noise_multiplier: float, rate: float, rounds: int, delta: float) -> float:
    """ε with the conversion of the moments accountant (Abadi et al. 2016): min over α of R(α) + log(1/δ)/(α − 1).

    It is never below `epsilon_of`; values that were published until about 2020 are of this kind.
    """
    event, found = _event(noise_multiplier, rate, rounds), []
    for order in _ORDERS:  # of a single order, the accountant's own conversion can be undone
        epsilon = _accountant([order]).compose(event).get_epsilon(delta)
        divergence = epsilon - math.log1p(-1 / order) + (math.log(delta) + math.log(order)) / (order - 1)
        found.append(divergence + math.log(1 / delta) / (order - 1))
    return float(min(found))


def noise_for(epsilon: float, rate: float, rounds: int, delta: float) -> float:
    """The least noise multiplier with which so many rounds cost no more than ε; see `epsilon_of`."""
    check_positive("epsilon", epsilon)
    _check(rate, rounds, delta)
    return _calibrated(float(epsilon), float(rate), int(rounds), float(delta))


@cache
def _calibrated(epsilon: float, rate: float, rounds: int, delta: float) -> float:
    """Many trials ask the same question, and an answer takes a second."""
    with optional():
        import dp_accounting

    found = dp_accounting.calibrate_dp_mechanism(
        _accountant,
        lambda noise: _event(noise, rate, rounds),
        epsilon,
        delta,
        dp_accounting.LowerEndpointAndGuess(1e-2, 1.0),
    )
    return float(found)


def _accountant(orders=_ORDERS):
    with optional():
        from dp_accounting import rdp

    return rdp.RdpAccountant([float(order) for order in orders])


def _event(noise_multiplier: float, rate: float, rounds: int):
    with optional():
        import dp_accounting

    round_ = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise_multiplier))
    return dp_accounting.SelfComposedDpEvent(round_, rounds)


def _check(rate, rounds, delta) -> None:
    check_count("rounds", rounds)
    for name, value in (("rate", rate), ("delta", delta)):
        if not (is_number(value) and 0 < value <= 1) or (name == "delta" and value == 1):
            raise UserError(f"{name}={value} is not a probability above 0.")
