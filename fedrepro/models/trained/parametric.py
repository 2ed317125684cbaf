"""One vector of parameters for all: what AFL, IRM, and the averaging algorithms train."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrepro.checks import shown
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.problem import Model, problem_of
from fedrepro.models.trained.evaluation import Evaluation, evaluation, grouped
from fedrepro.models.trained.saved_models import built, described
from fedrepro.trace import Answer, Trace


@dataclass(frozen=True)
class Parametric:
    """A model whose parameters are ``final["w"]``.

    Attributes
    ----------
    model
        The model; None where it is code of the user's own and a file was read without it.
    name
        What it is called.
    """

    model: Any
    name: str

    @classmethod
    def of(cls, model: Model) -> "Parametric":
        """A model that was trained."""
        return cls(model, type(model).__name__)

    def answer(self, trace: Trace, x, iterate: str, client: str | None, chances: bool) -> Answer:
        """As in `fedrepro.trace.Trained`."""
        refuse_client(client)
        return self.answer_with(iterate_of(trace, iterate, "w"), x, chances)

    def answer_with(self, w: np.ndarray, x, chances: bool) -> Answer:
        """What the model with these parameters says about samples."""
        model = self._known()
        if not callable(getattr(model, "predict", None)):
            raise UserError(
                f"{self.name} has no method predict(w, x), from parameters and features to predictions: give it one, "
                "or use evaluate(federation)."
            )
        if not chances:
            return Answer(np.asarray(model.predict(w, x)), None)
        ask = getattr(model, "predict_proba", None)
        return Answer(None, np.asarray(ask(w, x)) if callable(ask) else None)

    def evaluate(self, trace: Trace, federation: Federation, by: str, iterate: str) -> Evaluation:
        """As in `fedrepro.trace.Trained`."""
        groups = grouped(federation, by)
        problem = problem_of(self._known(), groups)
        w = np.array(iterate_of(trace, iterate, "w"))  # compiled code is for arrays that can be written to
        return evaluation(groups, by, problem.metrics(problem.checked(w, w.dtype)))

    def description(self) -> dict:
        """As in `fedrepro.trace.Trained`."""
        return {"kind": "Parametric", "model": described(self.model), "name": self.name}

    def arrays(self, trace: Trace) -> dict[str, np.ndarray]:
        """Nothing: the parameters are in the trace."""
        return {}

    @classmethod
    def rebuilt(cls, settings: Mapping, arrays: Mapping[str, np.ndarray]) -> "Parametric":
        """From a description."""
        return cls(settings["model"] and built(settings["model"]), settings["name"])

    def with_code(self, code: Model) -> "Parametric":
        """With the model, where a file does not hold it."""
        return Parametric.of(code)

    def _known(self) -> Any:
        if self.model is None:
            raise UserError(
                f"The model of this trace, {self.name}, is code that a file does not hold: give it, as in "
                "Trace.load(path, model=…)."
            )
        return self.model


def iterate_of(trace: Trace, iterate: str, last: str) -> np.ndarray:
    """The last iterate, by its name in ``final``, or the averaged one."""
    if iterate == "average" and "average" not in trace.final:
        raise UserError("The algorithm of this trace averages no iterates: leave iterate out.")
    return np.asarray(trace.final["average" if iterate == "average" else last])


def refuse_client(client: str | None) -> None:
    """There is one model for all clients."""
    if client is not None:
        raise UserError(
            f"client={shown(client)}: all clients share one model here; omni_fedge and ditto train one for each."
        )
