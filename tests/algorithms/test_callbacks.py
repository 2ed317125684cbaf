"""Callbacks: what they are told, how they end a run, and that a run goes on from a checkpoint with the same bytes."""

import numpy as np
import pytest
from small_runs import CALLS, FEDERATION, run

from fedrepro import UserError, algorithms
from fedrepro.callbacks import Checkpoint, EarlyStop
from fedrepro.data import Federation
from fedrepro.models.lstm import LSTM
from fedrepro.models.regression import LogisticRegression


def ends_after(rows: int):
    return lambda progress: len(progress.history) == rows


@pytest.mark.parametrize("name", CALLS)
def test_a_run_that_goes_on_has_the_bytes_of_one_that_was_not_stopped(name, tmp_path):
    whole, path = run(name), tmp_path / "run.ckpt"
    cut = run(name, callbacks=[Checkpoint(path), ends_after(2)])
    assert len(cut) == 2 and cut["round"].tolist() == whole["round"][:2].tolist()
    again = run(name, callbacks=[Checkpoint(path)])
    assert again.to_bytes() == whole.to_bytes()
    assert run(name, callbacks=[Checkpoint(path)]).to_bytes() == whole.to_bytes()  # nothing is left to be done


def test_a_language_model_goes_on_as_well(tmp_path):
    words = np.random.default_rng(0).integers(7, size=200)
    texts = Federation.from_arrays(None, words, domains=np.arange(200) // 100)
    model = LSTM(vocabulary=7, units=3, layers=1, window=4, dropout=0.2)

    def train(*callbacks):
        given = {"steps": 4, "step": 0.5, "step_domains": 0.1, "batch": 4, "evaluate": 3}
        return algorithms.afl(texts, model, **given, callbacks=callbacks)

    train(Checkpoint(tmp_path / "run.ckpt"), ends_after(2))
    assert train(Checkpoint(tmp_path / "run.ckpt")).to_bytes() == train().to_bytes()


def test_callbacks_see_rows_by_name():
    seen = []
    trace = run("fedavg", callbacks=[seen.append])
    assert [one.round for one in seen] == trace["round"].tolist()
    assert seen[-1].row["loss"].tolist() == trace["loss"][-1].tolist()
    assert seen[-1].numbers == trace.frame().iloc[-1].to_dict()
    assert {"loss_new", "loss_old", "test_accuracy_new"} <= set(seen[0].numbers)


def test_early_stop_ends_where_nothing_gets_better():
    given = {"rounds": 40, "step": 50.0, "evaluate": 41}
    whole = algorithms.fedavg(FEDERATION, LogisticRegression(), **given)
    stopped = algorithms.fedavg(FEDERATION, LogisticRegression(), **given, callbacks=[EarlyStop("loss", patience=3)])
    worst = whole["loss"].max(axis=1)
    best = int(np.argmin(worst[: len(stopped)]))
    assert len(stopped) == best + 4 < len(whole)
    assert stopped["loss"].tolist() == whole["loss"][: len(stopped)].tolist()


def test_early_stop_of_an_accuracy_waits_for_it_to_grow(tmp_path):
    accuracies = [0.5, 0.6, 0.6, 0.7, 0.7, 0.7]
    stop = EarlyStop("test_accuracy", patience=2)

    class At:
        def __init__(self, upto):
            self.history = [{"test_accuracy": np.array([value, 0.9])} for value in accuracies[:upto]]
            self.row = self.history[-1]

    assert [stop(At(upto)) for upto in range(1, 7)] == [False, False, False, False, False, True]


def test_a_run_that_was_ended_by_a_callback_stays_ended(tmp_path):
    callbacks = [EarlyStop("loss", patience=1, least=10.0), Checkpoint(tmp_path / "run.ckpt")]
    stopped = run("fedavg", callbacks=callbacks)
    assert len(stopped) == 2
    assert run("fedavg", callbacks=callbacks).to_bytes() == stopped.to_bytes()


def test_a_checkpoint_of_another_call_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    run("fedavg", callbacks=[Checkpoint(path)])
    with pytest.raises(UserError, match=r"of another call \(step, seed differs\)"):
        run("fedavg", step=0.2, seed=4, callbacks=[Checkpoint(path)])
    with pytest.raises(UserError, match="of another call"):
        run("scaffold", callbacks=[Checkpoint(path)])
    other = Federation.from_arrays(FEDERATION.x + 1.0, FEDERATION.y)
    with pytest.raises(UserError, match=r"federation"):
        algorithms.fedavg(other, LogisticRegression(), rounds=6, step=0.1, callbacks=[Checkpoint(path)])


@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\x03\x04"])
def test_a_damaged_checkpoint_is_one_sentence(content, tmp_path):
    (tmp_path / "run.ckpt").write_bytes(content)
    with pytest.raises(UserError, match="delete it to begin anew"):
        run("fedavg", callbacks=[Checkpoint(tmp_path / "run.ckpt")])


def test_bad_callbacks_are_one_sentence(tmp_path):
    for wrong in (3, [3], Checkpoint, [Checkpoint], "loss"):
        with pytest.raises(UserError, match="is not a list of functions"):
            run("fedavg", callbacks=wrong)
    with pytest.raises(UserError, match="column='loses' is not known: choose from"):
        run("fedavg", callbacks=[EarlyStop("loses")])
    with pytest.raises(UserError, match="cannot be written"):
        run("fedavg", callbacks=[Checkpoint(tmp_path / "none" / "run.ckpt")])
    with pytest.raises(UserError, match="patience=0"):
        EarlyStop("loss", patience=0)


def test_every_algorithm_takes_callbacks():
    tested = {algorithm for algorithm, _, _ in CALLS.values()}
    assert tested == {getattr(algorithms, name) for name in algorithms.__all__} - {algorithms.OnlineEnsemble}
