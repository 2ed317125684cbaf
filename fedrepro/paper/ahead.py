"""The studies of a notebook that runs from top to bottom: begun while its kernel starts, and never waited for twice.

The kernel of such a notebook (`fedrepro.paper.kernel`) calls `begin`. All studies then run in one go in other
processes, while the notebook imports what it draws with, draws what is there, and waits only for what it asks for.
"""

import contextlib
from concurrent.futures import Future
from threading import Thread

from fedrepro import settings
from fedrepro.errors import DataUnavailable
from fedrepro.paper.parameters import experiments, pick
from fedrepro.paper.schema import declaration


class _Ahead:
    """The studies that were begun; what they are for is in `key` and `parameters`."""

    def __init__(self, key: str, parameters):
        self.key, self.parameters = key, parameters
        self._studies = experiments(key).studies(parameters)
        self._found = {name: Future() for name in self._studies}
        Thread(target=self._run, name="trials", daemon=True).start()

    def runs_of(self, study: str):
        """The runs of a study when they are complete, or None if it did not come to that."""
        found = self._found[study].result() if study in self._found else None
        if isinstance(found, DataUnavailable):
            raise found
        return found

    def _run(self) -> None:
        from fedrepro.study import run_all
        from fedrepro.study.executor import end_workers

        # What goes wrong is shown where it belongs: the study is run again when the notebook asks for it.
        with contextlib.suppress(Exception), contextlib.closing(run_all(self._studies)) as found:
            for name, runs in found:
                self._found[name].set_result(runs)
            end_workers()
        for waiting in self._found.values():
            if not waiting.done():
                waiting.set_result(None)


_begun: _Ahead | None = None


def begin() -> None:
    """Begin with the studies of the notebook that this process is told to run, if other processes run its trials."""
    global _begun
    told = settings.whole_notebook()
    if told is not None and (settings.cluster() or settings.jobs() > 1):
        _begun = _Ahead(told["paper"], pick(declaration(told["paper"]), told["parameters"]))


def runs_of(key: str, parameters, study: str):
    """The runs of a study that was begun for these parameters, when they are complete; else None."""
    if _begun is None or (_begun.key, _begun.parameters) != (key, parameters):
        return None
    return _begun.runs_of(study)
