import numpy as np
import pytest

from fedrepro.trace import Recorder, Trace

COUNTS = {"round": [0, 1], "sent": [0, 5], "received": [0, 7]}


def test_round_trip_keeps_order_types_and_bytes():
    columns = {**COUNTS, "loss": [0.5, np.nan], "weights": np.asfortranarray([[0.1, 0.9], [0.2, 0.8]])}
    trace = Trace(columns, {"alpha": np.arange(3.0), "bias": 0.25, "steps": 4})
    back = Trace.from_bytes(trace.to_bytes())
    assert back == trace
    assert back.to_bytes() == trace.to_bytes()
    assert list(back.columns) == list(columns)
    assert back.final["bias"] == 0.25 and type(back.final["bias"]) is float
    assert back.final["steps"] == 4 and type(back.final["steps"]) is int
    np.testing.assert_array_equal(back["loss"], [0.5, np.nan])
    assert back != Trace(columns, {"alpha": np.arange(3.0), "bias": 0.5, "steps": 4})


def test_frame_has_a_row_per_round_and_a_column_per_component():
    frame = Trace({**COUNTS, "weights": [[0.1, 0.9], [0.2, 0.8]]}).frame()
    assert list(frame) == ["round", "sent", "received", "weights_0", "weights_1"]
    assert frame["weights_1"].tolist() == [0.9, 0.8]


def test_what_was_measured_stays_as_it_was():
    loss = np.array([1.0, 2.0])
    trace = Trace({**COUNTS, "loss": loss})
    loss[0] = 9.0
    assert trace["loss"][0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        trace["loss"][0] = 3.0


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"round": [0], "sent": [0]}, ValueError, "received missing"),
        ({**COUNTS, "loss": [1.0]}, ValueError, "differ in length"),
        ({**COUNTS, "loss": 1.0}, ValueError, "one entry per evaluated round"),
        ({**COUNTS, "loss": [None, {}]}, TypeError, "Python objects"),
    ],
)
def test_a_malformed_trace_is_refused(columns, error, message):
    with pytest.raises(error, match=message):
        Trace(columns)


def test_an_unknown_column_names_the_known_ones():
    with pytest.raises(KeyError, match="round, sent, received"):
        Trace(COUNTS)["loss"]


def test_recorder_collects_rows_and_copies_what_it_is_given():
    recorder, weights = Recorder(), np.array([0.5, 0.5])
    recorder.row(round=0, sent=0, received=0, weights=weights)
    weights[:] = 0
    recorder.row(round=3, sent=1, received=2, weights=weights)
    trace = recorder.trace(final={"alpha": weights})
    assert trace["round"].tolist() == [0, 3]
    assert trace["weights"].tolist() == [[0.5, 0.5], [0, 0]]


def test_recorder_refuses_rows_that_differ_and_an_empty_trace():
    recorder = Recorder()
    with pytest.raises(ValueError, match="no round"):
        recorder.trace()
    recorder.row(round=0, sent=0, received=0)
    with pytest.raises(ValueError, match="a row has"):
        recorder.row(round=0, sent=0, loss=0)
