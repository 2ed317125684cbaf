"""A trained result: it predicts, is evaluated by client and domain, and says the same in another process."""

import io
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from small_runs import CALLS, CLINICS, FEDERATION, TARGETS, WORDS, X, Y, first, half, likely, run, soft, unlikely

from fedrepro import Trace, UserError, algorithms
from fedrepro.data import Federation
from fedrepro.models.ensemble import from_predictions
from fedrepro.models.lstm import LSTM
from fedrepro.models.networks import CNN
from fedrepro.models.problem import Problem
from fedrepro.models.regression import SoftmaxRegression
from fedrepro.models.trained import rebuilt

OWN_CODE = {  # what a file does not hold
    "fedboost-classes": [likely, unlikely],
    "multiboost-given": soft,
    "online_fedboost": [half, first],
    "efl_fg": [half, first],
}


def asked(name: str) -> dict:
    return {"client": "south"} if name in ("omni_fedge", "ditto", "ditto-network") else {}


def answers(trace: Trace, name: str) -> list[bytes]:
    """All that a trace says about samples, as bytes."""
    said = []
    for iterate in ("last", "average") if "average" in trace.final else ("last",):
        for ask in (trace.predict, trace.predict_proba):
            try:
                x = np.arange(6) if trace.final.keys() & {"alpha"} and name not in OWN_CODE else X[:9]
                said.append(np.ascontiguousarray(ask(x, iterate=iterate, **asked(name))).tobytes())
            except UserError as error:
                said.append(str(error).encode())
    return said


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    return {name: run(name) for name in CALLS}


def test_saved_traces_say_the_same_in_another_process(traces, tmp_path):
    program = """
        import sys
        sys.path[:0] = sys.argv[1:]
        import fedrepro; fedrepro.prepare()
        from pathlib import Path
        import test_trained
        from fedrepro import Trace
        for path in sorted(Path(".").glob("*.trace")):
            trace = Trace.load(path, model=test_trained.OWN_CODE.get(path.stem))
            print(path.stem, *(one.hex() for one in test_trained.answers(trace, path.stem)))
    """
    for name, trace in traces.items():
        trace.save(tmp_path / f"{name}.trace")
        assert Trace.load(tmp_path / f"{name}.trace") == trace
    (tmp_path / "ask.py").write_text(textwrap.dedent(program), encoding="utf-8")
    command = [sys.executable, "ask.py", Path(__file__).parent]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert said == {name: [one.hex() for one in answers(trace, name)] for name, trace in traces.items()}


def test_predictions_are_those_of_the_parameters(traces):
    w = traces["fedavg"].final["w"]
    scores = X @ w[:8].reshape(2, 4).T + w[8:]
    np.testing.assert_array_equal(traces["fedavg"].predict(X), scores.argmax(axis=1))
    odds = np.exp(scores)
    np.testing.assert_allclose(traces["fedavg"].predict_proba(X), odds / odds.sum(axis=1, keepdims=True))
    w = traces["scaffold"].final["w"]
    np.testing.assert_allclose(traces["scaffold"].predict_proba(X)[:, 1], 1 / (1 + np.exp(-X @ w[:4] - w[4])))
    w = traces["fedavg-least-squares"].final["w"]
    np.testing.assert_allclose(traces["fedavg-least-squares"].predict(X), X @ w[:4] + w[4])
    alpha = traces["online_fedboost"].final["alpha"]
    np.testing.assert_allclose(traces["online_fedboost"].predict(X), alpha[0] * half(X) + alpha[1] * first(X))
    weights = traces["efl_fg"]["weights"][-1]
    np.testing.assert_allclose(traces["efl_fg"].predict(X), weights[0] * half(X) + weights[1] * first(X))
    alpha = traces["fedboost"].final["average"]
    own = np.stack([np.bincount(WORDS.client(j)[1], minlength=6) / WORDS.sizes[j] for j in range(6)])
    np.testing.assert_allclose(traces["fedboost"].predict_proba(np.arange(6), iterate="average"), alpha @ own)


@pytest.mark.parametrize(
    "name", ["fedavg", "fedavg-network", "scaffold", "multiboost", "fed_multiboost", "omni_fedge", "ditto"]
)
def test_evaluation_agrees_with_predictions(traces, name):
    trace = traces[name]
    found = trace.evaluate(FEDERATION, by="client").frame().set_index("client")
    for clinic in ("north", "south", "east"):
        whose = {"client": clinic} if name in ("omni_fedge", "ditto") else {}
        right = trace.predict(X[clinic == CLINICS], **whose) == Y[clinic == CLINICS]
        assert found.loc[clinic, "accuracy"] == pytest.approx(right.mean())
        assert found.loc[clinic, "samples"] == 20


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("omni_fedge", "efl_fg", "online_fedboost")])
def test_the_last_row_is_what_evaluate_finds(traces, name):
    trace, (_, (federation, *_), _) = traces[name], CALLS[name]
    found = trace.evaluate(federation, by="domain")
    assert found.names == federation.domain_names
    if "loss" in trace.columns and trace["loss"].ndim == 2:
        column = "personal_loss" if "personal_loss" in trace.columns else "loss"
        np.testing.assert_allclose(found["loss"], trace[column][-1], rtol=1e-6)
    elif "loss" in trace.columns:
        assert found["loss"] @ found.samples / found.samples.sum() == pytest.approx(trace["loss"][-1])


def test_fairness_has_the_worst_and_the_spread():
    labels = np.repeat(np.arange(20), 3)
    x = np.ones((60, 1))
    y = (np.arange(60) % 3 < labels % 4).astype(int)  # a quarter of the clients has 0, 1, 2, 3 ones of three
    trace = algorithms.fedavg(Federation.from_arrays(x, np.ones(60, int)), SoftmaxRegression(2), rounds=1, step=1.0)
    found = trace.evaluate(Federation.from_arrays(x, y, labels), by="client")
    fairness = found.fairness().loc["accuracy"]
    assert fairness["worst"] == fairness["worst 10 %"] == 0.0
    assert fairness["mean"] == pytest.approx(0.5) and fairness["even mean"] == pytest.approx(0.5)
    assert fairness["spread"] == pytest.approx(np.std([0, 1 / 3, 2 / 3, 1]))
    shares = np.repeat([1, 2, 3], 5) / 30
    assert fairness["entropy"] == pytest.approx(-(shares * np.log(shares)).sum() / np.log(20))
    assert found.fairness().loc["loss", "worst"] == found["loss"].max()
    assert "worst 10 %" in repr(found) and "<table" in found._repr_html_()


def test_columns_have_the_names_of_domains_and_clients(traces):
    assert {"loss_new", "loss_old", "test_accuracy_old"} <= set(traces["fedavg"].frame())
    assert {"mixture_new", "average_loss_old"} <= set(traces["afl"].frame())
    assert {"train_loss_north", "weights_north_south"} <= set(traces["omni_fedge"].frame())
    unnamed = algorithms.fedavg(Federation.from_arrays(X, Y), SoftmaxRegression(2), rounds=1, step=0.1)
    assert "loss_0" in unnamed.frame()


def test_a_trace_of_a_study_still_predicts(traces):
    back = Trace.from_bytes(traces["fedavg"].to_bytes())
    assert back.predict(X).tolist() == traces["fedavg"].predict(X).tolist()
    assert back.names == traces["fedavg"].names


def test_plots_have_a_panel_for_each_measure(traces):
    figure = traces["fedavg"].plot()
    assert [panel.get_ylabel() for panel in figure.axes] == ["loss", "test loss", "test accuracy"]
    assert [line.get_label() for line in figure.axes[0].lines] == ["new", "old"]
    assert len(traces["fedavg"].plot("sent").axes) == 1
    with pytest.raises(UserError, match="column='lost' is not known"):
        traces["fedavg"].plot("lost")


class Median:
    def on(self, federation):
        return MedianProblem(federation)


class MedianProblem(Problem):
    n_parameters = 1

    def __init__(self, federation):
        super().__init__(federation)
        self.y = federation.y

    def sample_losses(self, w, rows):
        return np.abs(w[0] - self.y[rows])

    def gradient(self, w, rows, weights):
        return np.array([weights @ np.sign(w[0] - self.y[rows])])


class PredictingMedian(Median):
    def predict(self, w, x):
        return np.full(len(x), w[0])


def test_a_model_of_ones_own_is_given_again(tmp_path):
    trace = algorithms.fedavg(TARGETS, PredictingMedian(), rounds=2, step=0.1)
    assert (trace.predict(X) == trace.final["w"]).all()
    trace.save(tmp_path / "own.trace")
    with pytest.raises(UserError, match=r"PredictingMedian, is code that a file does not hold"):
        Trace.load(tmp_path / "own.trace").predict(X)
    loaded = Trace.load(tmp_path / "own.trace", model=PredictingMedian())
    assert (loaded.predict(X) == trace.predict(X)).all()
    mute = algorithms.fedavg(TARGETS, Median(), rounds=2, step=0.1)
    with pytest.raises(UserError, match=r"Median has no method predict\(w, x\)"):
        mute.predict(X)
    assert mute.evaluate(TARGETS)["loss"].shape == (3,)


def test_a_language_model_is_evaluated(tmp_path):
    words = Federation.from_arrays(None, np.arange(80) % 5, np.arange(80) // 40, np.arange(80) // 40)
    model = LSTM(vocabulary=5, units=2, layers=1, window=3)
    trace = algorithms.afl(words, model, steps=1, step=0.1, step_domains=0.1, batch=2)
    trace.save(tmp_path / "language.trace")
    found = Trace.load(tmp_path / "language.trace").evaluate(words, by="client")
    np.testing.assert_array_equal(found["loss"], trace.evaluate(words)["loss"])
    assert "perplexity" in found.metrics
    with pytest.raises(UserError, match="LSTM has no method predict"):
        trace.predict([1, 2])


def test_pictures_are_predicted():
    pictures = Federation.from_arrays(X.repeat(16, axis=1).reshape(60, 8, 8), Y)
    trace = algorithms.fedavg(pictures, CNN(2, filters=2, dense=3), rounds=1, step=0.1)
    assert trace.predict_proba(pictures.x[:5]).shape == (5, 2)
    with pytest.raises(UserError, match="another shape"):
        trace.predict(np.zeros((2, 12, 12)))


@pytest.mark.parametrize(
    ("name", "x", "given", "sentence"),
    [
        ("fedavg", X[:, :3], {}, "x has 3 features and the model was trained on 4"),
        ("fedavg", X * np.nan, {}, "not finite"),
        ("fedavg", [["a"]], {}, "an array of numbers"),
        ("fedavg", [[1, 2], [3]], {}, "cannot be made an array"),
        ("fedavg", None, {}, "an array of numbers"),
        ("fedavg", X, {"client": "north"}, "all clients share one model"),
        ("fedavg", X, {"iterate": "average"}, "averages no iterates"),
        ("fedavg", X, {"iterate": "first"}, "iterate='first' is not known"),
        ("omni_fedge", X, {}, "say whose is asked, as in client='east'"),
        ("fedboost", X, {}, "give their numbers"),
        ("fedboost", [0, 6], {}, "numbered 0 to 5"),
        ("multiboost", X[:, :2], {}, "x has 2 features"),
        ("fedavg-network", X[:, :3], {}, "another shape"),
        ("fedavg-network", X[0], {}, "at least two dimensions"),
    ],
)
def test_bad_questions_are_one_sentence(traces, name, x, given, sentence):
    with pytest.raises(UserError, match=sentence):
        traces[name].predict(x, **given)


def test_what_cannot_be_asked_is_said(traces, tmp_path):
    with pytest.raises(UserError, match="predicts numbers, which have no probabilities"):
        traces["fedavg-least-squares"].predict_proba(X)
    with pytest.raises(UserError, match="densities predicts no values"):
        traces["fedboost"].predict([0])
    predicted = from_predictions(np.stack([half(X), first(X)]), TARGETS)
    outputs = algorithms.fedboost(TARGETS, predicted, rounds=2, step=0.1, budget=1.0, loss="squared")
    with pytest.raises(UserError, match="only what they predicted"):
        outputs.predict(X)
    with pytest.raises(UserError, match="no model to predict with"):
        Trace({"round": [0], "sent": [0], "received": [0]}).predict(X)
    with pytest.raises(UserError, match="were not kept"):
        Trace.from_bytes(traces["fedboost"].to_bytes()).predict_proba([0])
    with pytest.raises(UserError, match="Give a Federation to evaluate on, not ndarray"):
        traces["fedavg"].evaluate(X)
    with pytest.raises(UserError, match="by='sample' is not known"):
        traces["fedavg"].evaluate(FEDERATION, by="sample")
    with pytest.raises(UserError, match="no network of the client '0'"):
        traces["omni_fedge"].evaluate(Federation.from_arrays(X, Y))


@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\x03\x04"])
def test_a_file_that_is_no_trace_is_one_sentence(content, tmp_path):
    (tmp_path / "no.trace").write_bytes(content)
    with pytest.raises(UserError, match="is not a trace that save"):
        Trace.load(tmp_path / "no.trace")


def test_a_file_that_is_not_there_is_one_sentence(traces, tmp_path):
    with pytest.raises(UserError, match="cannot be read: No such file"):
        Trace.load(tmp_path / "none.trace")
    with pytest.raises(UserError, match="cannot be written to"):
        traces["fedavg"].save(tmp_path / "none" / "one.trace")


def test_a_file_cannot_name_code(traces, tmp_path):
    content = dict(np.load(io.BytesIO(traces["fedavg"].to_bytes())))
    for wrong in (
        {"kind": "os.system"},
        {"kind": "Parametric", "name": "x", "model": {"class": "system", "settings": {}}},
    ):
        np.savez(tmp_path / "evil.npz", **content | {"model": np.asarray(json.dumps(wrong))})
        with pytest.raises(UserError, match="is not a trace that save"):
            Trace.load(tmp_path / "evil.npz")


def test_online_ensembles_predict_between_rounds():
    models = {"low": lambda x: 0.2, "high": lambda x: 0.8}
    online = algorithms.OnlineEnsemble(models, {"low": 0.5, "high": 0.5}, rate=1.0, exploration=0.1)
    online.play(((t % 2, t, 0.8) for t in range(40)), budget=1.0)
    mixed = online.weights["low"] * 0.2 + online.weights["high"] * 0.8
    assert online.predict(3) == pytest.approx(mixed)
    assert online.predict(3) > 0.6
    with pytest.raises(UserError, match="No round is open"):
        online.learn([(0, 1, 0.5)])


def test_boosting_names_its_loss_in_a_file_and_older_files_do_not():
    description = run("multiboost-logistic").model.description()
    assert description["loss"] == "logistic" and rebuilt(description, {}).description() == description
    older = {key: value for key, value in description.items() if key != "loss"}
    assert rebuilt(older, {}).description() == description | {"loss": "exponential"}
    with pytest.raises(ValueError, match="boosting with an unknown loss, 'hinge'"):
        rebuilt(description | {"loss": "hinge"}, {})
