"""Ends the command when it is asked to: by Ctrl-C, a batch system, ``timeout``, or a terminal that is closed."""

import signal

_NAMES = ("SIGTERM", "SIGHUP", "SIGQUIT")


class Terminated(BaseException):
    """A signal has asked this process to end.

    Like KeyboardInterrupt it passes through what handles errors; whatever started a process ends it on the way.
    """

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return signal.Signals(self.number).name


def end_cleanly() -> None:
    """From now on, raise `Terminated` in the main thread where a signal would end the process on the spot."""
    for number in _numbers():
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup asks for
            signal.signal(number, _raise)


def _raise(number: int, _frame) -> None:
    for other in _numbers():
        signal.signal(other, signal.SIG_IGN)  # one is enough: what is being ended must not be disturbed
    raise Terminated(number)


def _numbers() -> list[int]:
    return [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
