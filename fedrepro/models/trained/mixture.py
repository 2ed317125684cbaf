"""A mixture of base predictors: what FedBoost, AFLBoost, EFL-FG and online FedBoost train."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.ensemble import Ensemble, answer_of, observed_classes
from fedrepro.models.samples import checked_samples
from fedrepro.models.trained.evaluation import Evaluation, evaluation, grouped, means
from fedrepro.models.trained.parametric import iterate_of, refuse_client
from fedrepro.trace import Answer, Trace

_DENSITY = "density_"


@dataclass(frozen=True, eq=False)
class Mixture:
    """Base predictors with weights.

    Attributes
    ----------
    weights
        Which entry of ``final``, or which column (of which the last row counts), holds the weights.
    densities
        Whether the predictors are distributions over elements.
    loss
        ``"log"`` or ``"squared"``.
    ensemble
        The predictors, where they are known.
    mixed
        Of an ensemble of densities that was read from a file, the mixture itself, for each iterate.
    """

    weights: str
    densities: bool
    loss: str
    ensemble: Ensemble | None = None
    models: tuple | None = None
    mixed: Mapping[str, np.ndarray] | None = None

    @classmethod
    def of(cls, weights: str, ensemble: Ensemble, loss: str) -> "Mixture":
        """An ensemble whose weights were learned."""
        return cls(weights, ensemble.densities, loss, ensemble, ensemble.models)

    def answer(self, trace: Trace, x, iterate: str, client: str | None, chances: bool) -> Answer:
        """As in `fedrepro.trace.Trained`."""
        refuse_client(client)
        if self.densities:
            density = self._density(trace, iterate)
            return Answer(None, density[_checked_elements(x, density.size)])
        mixed = self._mixed(trace, checked_samples(x), iterate)
        return Answer(self._classes(mixed)[mixed.argmax(axis=1)], mixed) if mixed.ndim == 2 else Answer(mixed, None)

    def evaluate(self, trace: Trace, federation: Federation, by: str, iterate: str) -> Evaluation:
        """As in `fedrepro.trace.Trained`."""
        groups = grouped(federation, by)
        if self.densities:
            elements = _checked_elements(federation.y, self._density(trace, iterate).size)
            return evaluation(groups, by, {"loss": means(groups, _log_losses(self._density(trace, iterate)[elements]))})
        mixed = self._mixed(trace, federation.features, iterate)
        if mixed.ndim == 1:
            return evaluation(groups, by, {"loss": means(groups, (mixed - federation.y) ** 2)})
        place = observed_classes(self._classes(mixed), "the ensemble", federation)
        chances = np.where(place < 0, 0.0, mixed[np.arange(len(mixed)), place])
        hits = mixed.argmax(axis=1) == place
        metrics = {"loss": means(groups, _log_losses(chances)), "accuracy": means(groups, 1.0 * hits)}
        return evaluation(groups, by, metrics)

    def description(self) -> dict:
        """As in `fedrepro.trace.Trained`."""
        return {"kind": "Mixture", "weights": self.weights, "densities": self.densities, "loss": self.loss}

    def arrays(self, trace: Trace) -> dict[str, np.ndarray]:
        """The mixtures of densities; models are code."""
        if not self.densities:
            return {}
        iterates = ["last", "average"] if "average" in trace.final else ["last"]
        return {_DENSITY + iterate: self._density(trace, iterate) for iterate in iterates}

    @classmethod
    def rebuilt(cls, settings: Mapping, arrays: Mapping[str, np.ndarray]) -> "Mixture":
        """From a description."""
        mixed = {name.removeprefix(_DENSITY): values for name, values in arrays.items()}
        return cls(settings["weights"], settings["densities"], settings["loss"], mixed=mixed or None)

    def with_code(self, code: Sequence) -> "Mixture":
        """With the models, where a file does not hold them."""
        if self.densities:
            raise UserError("The densities of this trace are in the file: leave model out.")
        models = code.values() if isinstance(code, Mapping) else code
        if not isinstance(models, list | tuple) and not isinstance(code, Mapping):
            raise UserError("model must be the list of the ensemble's models, in their order.")
        return Mixture(self.weights, False, self.loss, models=tuple(models))

    def _weights(self, trace: Trace, iterate: str) -> np.ndarray:
        if self.weights in trace.final or iterate == "average":
            return iterate_of(trace, iterate, self.weights)
        return trace[self.weights][-1]

    def _mixed(self, trace: Trace, x: np.ndarray, iterate: str) -> np.ndarray:
        """What the models say about samples, by their weights."""
        alpha, answers = self._weights(trace, iterate), [answer_of(m, k, x) for k, m in enumerate(self._models())]
        if len(answers) != alpha.size or len({answer.shape for answer in answers}) > 1:
            raise UserError(
                f"The {len(answers)} models are not those of an ensemble of {alpha.size} that can be mixed."
            )
        return np.tensordot(alpha, np.stack(answers), 1)

    def _classes(self, mixed: np.ndarray) -> np.ndarray:
        """What the columns of the models' probabilities stand for."""
        known = {tuple(np.asarray(model.classes_).tolist()) for model in self._models() if hasattr(model, "classes_")}
        if len(known) > 1:
            raise UserError("The models of the ensemble know different classes: their probabilities cannot be mixed.")
        return np.array(known.pop()) if known else np.arange(mixed.shape[1])

    def _density(self, trace: Trace, iterate: str) -> np.ndarray:
        if self.ensemble is not None:
            return self.ensemble.mixed(self._weights(trace, iterate))
        if self.mixed is None:
            raise UserError(
                "The densities of this trace were not kept: take the one that fedboost returned, or save it."
            )
        if iterate not in self.mixed:
            raise UserError("The algorithm of this trace averages no iterates: leave iterate out.")
        return self.mixed[iterate]

    def _models(self) -> tuple:
        if self.models is None:
            raise UserError(
                "The models of this ensemble are not known here, only what they predicted: make it with "
                "from_models(models, federation), or give them, as in Trace.load(path, model=models)."
            )
        return self.models


def _checked_elements(x, size: int) -> np.ndarray:
    elements = checked_samples(x)
    if elements.ndim != 1 or elements.dtype.kind not in "iu":
        raise UserError("An ensemble of densities is asked about elements: give their numbers, a list of them.")
    if elements.size and (elements.min() < 0 or elements.max() >= size):
        raise UserError(f"The elements are numbered 0 to {size - 1}: give numbers among these.")
    return elements


def _log_losses(chances: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return -np.log(chances)
