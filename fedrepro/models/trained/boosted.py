"""Boosted stumps: what MultiBoost and FedMultiBoost train."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels.stumps import Loss
from fedrepro.models.domain_posterior import DomainPosterior, uniform_posterior
from fedrepro.models.samples import checked_samples
from fedrepro.models.stumps import boosted_scores, chances_of, losses_of, signed_labels
from fedrepro.models.trained.evaluation import Evaluation, evaluation, grouped, means
from fedrepro.models.trained.parametric import refuse_client
from fedrepro.trace import Answer, Trace

FITTED, UNIFORM, GIVEN = "fitted", "uniform", "given"


@dataclass(frozen=True)
class BoostedStumps:
    """An ensemble of stumps, weighed by Q(l|x).

    Attributes
    ----------
    posterior
        Which Q(l|x): ``"fitted"``, whose parameters are in the trace, ``"uniform"``, or ``"given"``, a function.
    domains, features
        How many there are.
    function
        The function, if it was given and is known.
    loss
        Φ, as in `multiboost`.
    """

    posterior: str
    domains: int
    features: int
    function: Callable | None = None
    loss: str = "exponential"

    def answer(self, trace: Trace, x, iterate: str, client: str | None, chances: bool) -> Answer:
        """As in `fedrepro.trace.Trained`; the chance of label 1 is that for which f has the least mean loss."""
        refuse_client(client)
        if iterate == "average":
            raise UserError("Boosting averages no iterates: leave iterate out.")
        f = self._scores(trace, checked_samples(x, self.features))
        chance = chances_of(Loss.number(self.loss), f)
        return Answer((f > 0).astype(np.int64), np.column_stack([1.0 - chance, chance]))

    def evaluate(self, trace: Trace, federation: Federation, by: str, iterate: str) -> Evaluation:
        """As in `fedrepro.trace.Trained`; the loss is the mean of Φ."""
        groups = grouped(federation, by)
        signs, f = signed_labels(federation), self._scores(trace, checked_samples(federation.features, self.features))
        losses, hits = losses_of(Loss.number(self.loss), signs * f), (f > 0) == (signs > 0)
        return evaluation(groups, by, {"loss": means(groups, losses), "accuracy": means(groups, 1.0 * hits)})

    def description(self) -> dict:
        """As in `fedrepro.trace.Trained`."""
        known = {"posterior": self.posterior, "domains": self.domains, "features": self.features}
        return {"kind": "BoostedStumps", **known, "loss": self.loss}

    def arrays(self, trace: Trace) -> dict[str, np.ndarray]:
        """Nothing: the stumps are in the trace."""
        return {}

    @classmethod
    def rebuilt(cls, settings: Mapping, arrays: Mapping[str, np.ndarray]) -> "BoostedStumps":
        """From a description."""
        loss = str(settings.get("loss", "exponential"))  # which older files do not name
        if loss not in Loss.labels():
            raise ValueError(f"boosting with an unknown loss, {loss!r}")
        return cls(str(settings["posterior"]), int(settings["domains"]), int(settings["features"]), loss=loss)

    def with_code(self, code: Callable) -> "BoostedStumps":
        """With Q(l|x), where a file does not hold it."""
        if self.posterior != GIVEN or not callable(code):
            raise UserError(
                "model must be the function Q(l|x) that the ensemble was trained with, if it was given one."
            )
        return replace(self, function=code)

    def _scores(self, trace: Trace, x: np.ndarray) -> np.ndarray:
        if self.posterior == FITTED:
            share = DomainPosterior(*(np.asarray(trace.final[f"posterior_{name}"]) for name in ("w", "mean", "scale")))
        else:
            share = uniform_posterior(self.domains) if self.posterior == UNIFORM else self.function
        if share is None:
            raise UserError(
                "This ensemble was trained with a function Q(l|x), which a file does not hold: give it, as in "
                "Trace.load(path, model=…)."
            )
        return boosted_scores(trace.final, x, share)
