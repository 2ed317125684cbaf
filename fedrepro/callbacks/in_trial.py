"""Checkpoints of a trial: the study that runs it decides where they live, and removes them when it is done."""

from fedrepro import settings
from fedrepro.callbacks.checkpoint import Checkpoint


def checkpoints(every: int = 1) -> list[Checkpoint]:
    """Callbacks that keep the state of a trial, so that one that was killed goes on from its last evaluated round.

    Give them to the one algorithm that the trial calls: ``afl(…, callbacks=checkpoints())``. Outside of a study there
    are none.

    Parameters
    ----------
    every
        Write after every so many evaluated rounds.
    """
    path = settings.checkpoint_file()
    if path is None:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    return [Checkpoint(path, every=every)]
