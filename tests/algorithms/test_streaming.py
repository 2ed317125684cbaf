"""A federation as a stream of rounds."""

import numpy as np
import pytest

from fedrepro.algorithms.ensembles.streaming import budgets_of_rounds, evaluated, running_mean, sample_stream
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.ensemble import from_densities, from_predictions


def ragged():
    """Three clients with 3, 1 and 2 samples; sample s has target s and predictions s + 10 and s + 20."""
    y = np.arange(6.0)
    federation = Federation.from_arrays(None, y, [0, 0, 0, 1, 2, 2])
    return federation, from_predictions(np.stack([y + 10, y + 20]), federation)


def test_round_t_has_the_t_th_sample_of_every_client_that_has_one():
    stream = sample_stream(*ragged())
    rounds = [stream.targets[a:b].tolist() for a, b in zip(stream.first, stream.last, strict=True)]
    assert rounds == [[0, 3, 4], [1, 5], [2]]
    np.testing.assert_array_equal(stream.predictions, stream.targets[:, None] + [10, 20])
    np.testing.assert_array_equal(stream.clients, [3, 2, 1])


def test_fewer_rounds_are_a_beginning_and_more_are_played_again():
    assert sample_stream(*ragged(), rounds=2).clients.tolist() == [3, 2]
    longer = sample_stream(*ragged(), rounds=500, replay=np.random.default_rng(0))
    assert longer.clients[:3].tolist() == [3, 2, 1]
    np.testing.assert_array_equal(np.unique(longer.clients[3:]), [1, 2, 3])
    with pytest.raises(UserError, match="rounds=4 is more than the 3 samples of the largest client"):
        sample_stream(*ragged(), rounds=4)


def test_mean_over_rounds_of_means_over_clients():
    np.testing.assert_allclose(running_mean(np.array([6.0, 2.0, 5.0]), np.array([3, 2, 1])), [2.0, 1.5, 8 / 3])


def test_evaluated_rounds_always_hold_the_last():
    assert evaluated(1, 70).tolist() == [70]
    assert evaluated(3, 5).tolist() == [1, 3, 5]
    assert evaluated(100, 4).tolist() == [1, 2, 3, 4]
    assert evaluated([2], 5).tolist() == [2, 5]
    for wrong in (0, [0], [6], [0.5]):
        with pytest.raises(UserError, match="evaluate"):
            evaluated(wrong, 5)


def test_budgets():
    np.testing.assert_array_equal(budgets_of_rounds(3, 2), [3.0, 3.0])
    np.testing.assert_array_equal(budgets_of_rounds([1, 2], 2), [1.0, 2.0])
    with pytest.raises(UserError, match="one for each of the 3 rounds, not 2 numbers"):
        budgets_of_rounds([1, 2], 3)
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(UserError, match="budget must be positive"):
            budgets_of_rounds(wrong, 2)


def test_mismatches():
    federation, _ = ragged()
    with pytest.raises(UserError, match="predicts 2 samples and the federation has 6"):
        sample_stream(federation, from_predictions(np.ones((3, 2)), Federation.from_arrays(None, [0, 1])))
    with pytest.raises(UserError, match="from_predictions"):
        sample_stream(federation, from_densities(np.eye(6)))


def test_drawn_clients_are_a_random_subset_of_those_that_have_a_sample():
    federation = Federation.from_arrays(None, np.arange(40.0), np.arange(40) % 8)
    ensemble = from_predictions(np.stack([np.arange(40.0), -np.arange(40.0)]), federation)
    whole = sample_stream(federation, ensemble)
    drawn = sample_stream(federation, ensemble, participants=3, seed=1)
    assert drawn.clients.tolist() == [3] * 5
    for t in range(5):
        here = drawn.targets[drawn.first[t] : drawn.last[t]]
        assert set(here) <= set(whole.targets[whole.first[t] : whole.last[t]]) and np.unique(here).size == 3
        np.testing.assert_array_equal(drawn.predictions[drawn.first[t] : drawn.last[t], 1], -here)
    again, other = (sample_stream(federation, ensemble, participants=3, seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(drawn.targets, again.targets)
    assert (drawn.targets != other.targets).any()
    everyone = sample_stream(federation, ensemble, participants=8)
    np.testing.assert_array_equal(everyone.targets, whole.targets)
    shares = np.mean([sample_stream(federation, ensemble, participants=3, seed=s).targets[:3] == 0 for s in range(200)])
    assert shares * 3 == pytest.approx(3 / 8, abs=0.1)  # every client as often as any other
    with pytest.raises(UserError, match="participants=9 is more than the 8 clients"):
        sample_stream(federation, ensemble, participants=9)


def test_a_round_that_is_played_again_draws_its_clients_anew():
    federation = Federation.from_arrays(None, np.arange(20.0), np.arange(20))
    ensemble = from_predictions(np.ones((2, 20)), federation)
    drawn = sample_stream(federation, ensemble, 6, np.random.default_rng(0), participants=4)
    assert len({tuple(drawn.targets[first:last]) for first, last in zip(drawn.first, drawn.last, strict=True)}) > 1
