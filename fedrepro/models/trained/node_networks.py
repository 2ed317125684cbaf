"""A network for each client: what Omni-Fedge and its baselines train."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.trained.evaluation import Evaluation, evaluation, grouped, means
from fedrepro.models.trained.saved_models import built, described
from fedrepro.trace import Answer, Trace


@dataclass(frozen=True)
class NodeNetworks:
    """Networks of one architecture, the rows of ``final["networks"]``.

    Attributes
    ----------
    model
        An `MLP` or a `CNN`.
    clients
        Whose the networks are.
    """

    model: Any
    clients: tuple[str, ...]

    def answer(self, trace: Trace, x, iterate: str, client: str | None, chances: bool) -> Answer:
        """As in `fedrepro.trace.Trained`."""
        _refuse_average(iterate)
        if not isinstance(client, str) or client not in self.clients:
            raise UserError(
                f"Every client has a network of its own here: say whose is asked, as in client={self.clients[0]!r}."
            )
        w = np.asarray(trace.final["networks"])[self.clients.index(client)]
        return Answer(self.model.predict(w, x), self.model.predict_proba(w, x))

    def evaluate(self, trace: Trace, federation: Federation, by: str, iterate: str) -> Evaluation:
        """As in `fedrepro.trace.Trained`: each client's network on that client's samples."""
        _refuse_average(iterate)
        groups = grouped(federation, by)
        problem, networks = self.model.on(groups), np.asarray(trace.final["networks"])
        losses, hits = np.empty(len(federation)), np.empty(len(federation))
        for j, name in enumerate(federation.client_names):
            if name not in self.clients:
                raise UserError(f"There is no network of the client {name!r}: evaluate on the clients that trained.")
            rows, w = np.arange(federation.offsets[j], federation.offsets[j + 1]), networks[self.clients.index(name)]
            losses[rows], hits[rows] = problem.sample_losses(w, rows), problem.correct(w, rows)
        return evaluation(groups, by, {"loss": means(groups, losses), "accuracy": means(groups, hits)})

    def description(self) -> dict:
        """As in `fedrepro.trace.Trained`."""
        return {"kind": "NodeNetworks", "model": described(self.model), "clients": self.clients}

    def arrays(self, trace: Trace) -> dict[str, np.ndarray]:
        """Nothing: the networks are in the trace."""
        return {}

    @classmethod
    def rebuilt(cls, settings: Mapping, arrays: Mapping[str, np.ndarray]) -> "NodeNetworks":
        """From a description."""
        return cls(built(settings["model"]), tuple(settings["clients"]))

    def with_code(self, code) -> "NodeNetworks":
        """Nothing is missing."""
        raise UserError("The networks of this trace are in the file: leave model out.")


def _refuse_average(iterate: str) -> None:
    if iterate == "average":
        raise UserError("The algorithm of this trace averages no iterates: leave iterate out.")
