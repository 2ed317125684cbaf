"""Callbacks: what is done after every evaluated round of an algorithm.

A callback is a function of one argument, a `fedrepro.trace.Progress`; the run ends where it returns True. Give a list
of them to any algorithm: ``fedavg(…, callbacks=[EarlyStop("test_loss"), Checkpoint("run.ckpt")])``.
"""

from fedrepro.callbacks.checkpoint import Checkpoint
from fedrepro.callbacks.early_stop import EarlyStop
from fedrepro.callbacks.in_trial import checkpoints
from fedrepro.trace import Progress

__all__ = ["Checkpoint", "EarlyStop", "Progress", "checkpoints"]
