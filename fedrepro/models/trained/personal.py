"""A vector of parameters for each client and one for all: what Ditto trains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedrepro.checks import shown
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.problem import Model, problem_of
from fedrepro.models.trained.evaluation import Evaluation, evaluation, grouped
from fedrepro.models.trained.parametric import Parametric, iterate_of
from fedrepro.models.trained.saved_models import built
from fedrepro.trace import Answer, Trace


class PersonalProblems:
    """The samples of each client, to be judged by the client's own parameters.

    Parameters
    ----------
    model, federation
        What is judged, and on which samples; what their domains are is what metrics are given for.
    names
        The clients that have parameters, in the order of their rows.
    """

    def __init__(self, model: Model, federation: Federation, names: Sequence[str]):
        unknown = [name for name in federation.client_names if name not in names]
        if unknown:
            raise UserError(
                f"The client {unknown[0]!r} has no model of its own: evaluate on clients that took part in training."
            )
        self._sizes = np.bincount(federation.domains, minlength=federation.n_domains)
        self._parts = []  # of each client: the row of its parameters, its domains with their sizes, its problem
        for j, name in enumerate(federation.client_names):
            held, own = np.unique(federation.domains[federation.offsets[j] : federation.offsets[j + 1]], False, True)
            x, y = federation.client(j)
            domain_names = [federation.domain_names[k] for k in held]
            part = Federation.from_arrays(x, y, domains=own, domain_names=domain_names)
            self._parts.append((names.index(name), held, np.bincount(own), problem_of(model, part)))

    def metrics(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """The metrics of every domain, as means over its samples, each judged by the parameters of its client."""
        sums: dict[str, np.ndarray] = {}
        for row, held, counts, problem in self._parts:
            w = np.array(vectors[row])  # compiled code is for arrays that can be written to
            for name, values in problem.metrics(problem.checked(w, w.dtype)).items():
                sums.setdefault(name, np.zeros(self._sizes.size))[held] += counts * values
        return {name: total / self._sizes for name, total in sums.items()}


@dataclass(frozen=True)
class Personal(Parametric):
    """A model whose parameters are ``final["w"]`` for all, and the rows of ``final["personal"]`` for the clients.

    Attributes
    ----------
    clients
        Whose the rows are.
    """

    clients: tuple[str, ...] = ()

    @classmethod
    def of_clients(cls, model: Model, clients: Sequence[str]) -> "Personal":
        """A model that was trained for each client."""
        return cls(model, type(model).__name__, tuple(clients))

    def answer(self, trace: Trace, x, iterate: str, client: str | None, chances: bool) -> Answer:
        """As in `fedrepro.trace.Trained`; without a client the model of all answers."""
        w = iterate_of(trace, iterate, "w")
        if client is not None:
            if not isinstance(client, str) or client not in self.clients:
                raise UserError(f"client={shown(client)} is not known: choose one such as {self.clients[0]!r}.")
            w = np.asarray(trace.final["personal"])[self.clients.index(client)]
        return self.answer_with(w, x, chances)

    def evaluate(self, trace: Trace, federation: Federation, by: str, iterate: str) -> Evaluation:
        """As in `fedrepro.trace.Trained`: each client's samples by the client's own parameters."""
        iterate_of(trace, iterate, "w")  # which refuses an average that there is not
        groups = grouped(federation, by)
        problems = PersonalProblems(self._known(), groups, self.clients)
        return evaluation(groups, by, problems.metrics(np.asarray(trace.final["personal"])))

    def description(self) -> dict:
        """As in `fedrepro.trace.Trained`."""
        return super().description() | {"kind": "Personal", "clients": self.clients}

    @classmethod
    def rebuilt(cls, settings: Mapping, arrays: Mapping[str, np.ndarray]) -> "Personal":
        """From a description."""
        return cls(settings["model"] and built(settings["model"]), settings["name"], tuple(settings["clients"]))

    def with_code(self, code: Model) -> "Personal":
        """With the model, where a file does not hold it."""
        return Personal.of_clients(code, self.clients)
