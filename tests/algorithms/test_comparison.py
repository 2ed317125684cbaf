"""Methods on the same draws: the table, the paired differences and the picture."""

import numpy as np
import pytest
from scipy import stats
from small_runs import FEDERATION, X, Y

from fedrepro import Federation, UserError, compare
from fedrepro.algorithms import fedavg, scaffold
from fedrepro.comparison import half_width
from fedrepro.models import LogisticRegression

GIVEN = {"rounds": 4, "step": 0.2, "batch": 4, "clients_per_round": 2}
METHODS = {
    "FedAvg": lambda seed: fedavg(FEDERATION, LogisticRegression(), seed=seed, **GIVEN),
    "SCAFFOLD": lambda seed: scaffold(FEDERATION, LogisticRegression(), seed=seed, **GIVEN),
    "again": lambda seed: fedavg(FEDERATION, LogisticRegression(), seed=seed, **GIVEN),
}


@pytest.fixture(scope="module")
def found():
    return compare(METHODS, seeds=range(4), on=FEDERATION)


def test_the_table_has_means_and_intervals_over_the_seeds(found):
    frame = found.frame().set_index("method")
    worst = [METHODS["FedAvg"](seed).evaluate(FEDERATION)["loss"].max() for seed in range(4)]
    assert frame.loc["FedAvg", "loss worst"] == pytest.approx(np.mean(worst))
    low, high = stats.t.interval(0.95, 3, np.mean(worst), stats.sem(worst))
    assert frame.loc["FedAvg", "± loss worst"] == pytest.approx((high - low) / 2)
    assert frame.loc["again"].tolist() == frame.loc["FedAvg"].tolist()
    for what in ("mean", "worst 10 %", "spread", "entropy"):
        assert f"accuracy {what}" in frame and f"± loss {what}" in frame
    assert "SCAFFOLD" in repr(found) and "<table" in found._repr_html_()


def test_differences_are_paired(found):
    table = found.differences("loss mean", than="FedAvg").set_index("method")
    assert table.loc["again", ["difference", "low", "high"]].tolist() == [0.0, 0.0, 0.0]
    losses = {
        name: [trace.evaluate(FEDERATION).fairness().loc["loss", "mean"] for trace in found.traces[name]]
        for name in ("FedAvg", "SCAFFOLD")
    }
    paired = np.subtract(losses["SCAFFOLD"], losses["FedAvg"])
    assert table.loc["SCAFFOLD", "difference"] == pytest.approx(paired.mean())
    assert table.loc["SCAFFOLD", "high"] == pytest.approx(paired.mean() + half_width(paired))


def test_the_picture_has_a_band_for_each_method(found):
    axes = found.plot("loss", reduce=max).axes[0]
    assert [line.get_label() for line in axes.lines] == list(METHODS)
    worst = np.mean([trace["loss"].max(axis=1) for trace in found.traces["FedAvg"]], axis=0)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), worst)
    assert len(axes.collections) == 3
    assert found.plot().axes[0].get_ylabel() == "loss"


def test_without_data_the_table_has_the_ends_of_columns():
    frame = compare({"one": METHODS["FedAvg"]}, seeds=[7]).frame()
    assert frame["sent"].item() == 4 * 2 * 5 and np.isnan(frame["± sent"].item())


@pytest.mark.parametrize(
    ("methods", "given", "sentence"),
    [
        ({}, {}, "no method to compare"),
        ({"a": 3}, {}, "a dict whose values are each a function"),
        (METHODS, {"seeds": 3}, "seeds=3 is not a list of numbers"),
        (METHODS, {"seeds": []}, "at least one seed"),
        (METHODS, {"seeds": [1, 1]}, "each of them once"),
        (METHODS, {"seeds": [1.5]}, "not a whole number"),
        ({"a": lambda seed: 3}, {}, "returns int: return what the algorithm returns"),
        (METHODS, {"on": 3, "seeds": [0]}, "Give a Federation to evaluate on, not int"),
        (METHODS, {"test": 3}, "compare has no 'test'"),
    ],
)
def test_bad_comparisons_are_one_sentence(methods, given, sentence):
    with pytest.raises(UserError, match=sentence):
        compare(methods, **given)


def test_unknown_columns_are_one_sentence(found):
    with pytest.raises(UserError, match="column='lost' is not known"):
        found.plot("lost")
    with pytest.raises(UserError, match="metric='lost' is not known"):
        found.differences("lost", than="FedAvg")
    with pytest.raises(UserError, match="than='nobody' is not known"):
        found.differences("loss mean", than="nobody")


def test_statistics_of_a_federation():
    apart = Federation.from_arrays(X, Y, clients=Y).statistics()
    assert apart["label_skew"] == pytest.approx(2 * Y.mean() * (1 - Y.mean()))
    assert apart["clients"] == 2 and apart["largest"] == max(Y.sum(), 60 - Y.sum())
    even = Federation.from_arrays(None, np.arange(12) % 3, clients=np.arange(12) // 3).statistics()
    assert even["label_skew"] == 0.0 and even["size_spread"] == 0.0 and even["median"] == 3.0
