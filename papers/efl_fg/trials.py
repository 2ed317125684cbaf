"""The trial of EFL-FG: a zoo of pre-trained models, and what they predict on every sample that arrives later.

Training is the expensive half, so it is what a study stores; the online part (`online`) plays on stored predictions in
milliseconds. A seed varies everything that is random: which share of the data the models are trained on, the order in
which the other samples reach the clients, the networks' initial weights, and the draws of models.
"""

import numpy as np

from fedrepro.data.uci_regression import regression
from fedrepro.models.regressors import train_zoo, zoo_members
from fedrepro.streams import stream
from fedrepro.trace import Trace

BANDWIDTHS = ("bandwidth", "inverse")
EVERYONE = {member.formula: member for reading in BANDWIDTHS for member in zoo_members(reading)}  # of both readings
COLUMNS = list(EVERYONE)  # where the predictions of a formula stand


def zoo(
    *, seed: int, data: dict, scaling: str, fitted_to: str, ridge: float, most_training: int, training_share: float
) -> Trace:
    """Section IV: train all models on a share of a data set, and predict the rest in the order in which it arrives.

    Features and target are scaled by extremes ``fitted_to`` all rows or to the training rows. The trace has one row.
    Its ``final`` holds ``predictions`` (samples × models, in single precision: a squared error of 0.003 is right to
    eight digits), ``targets``, ``samples`` and ``features`` (the size of the training data).
    """
    ((name, variant),) = data.items()

    def order(rows: int) -> np.ndarray:
        return stream("efl_fg", "split", seed).permutation(rows)

    def shared(rows: int) -> np.ndarray:
        return order(rows)[: int(training_share * rows)]

    table = regression(name, variant, scaling=scaling, fitted_to=shared if fitted_to == "training" else None)
    trained_on = shared(table.y.size)
    training, arriving = trained_on[:most_training], order(table.y.size)[trained_on.size :]
    networks_seed = int(stream("efl_fg", "init", seed).integers(2**31))
    trained = train_zoo(list(EVERYONE.values()), table.x[training], table.y[training], ridge=ridge, seed=networks_seed)
    return Trace(
        {"round": [0], "sent": [0.0], "received": [0.0]},
        {
            "predictions": trained.predict(table.x[arriving]).astype(np.float32),
            "targets": table.y[arriving],
            "samples": training.size,
            "features": table.x.shape[1],
        },
    )
