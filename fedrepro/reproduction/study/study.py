"""A study: settings × seeds, each trial run once and kept."""

import contextlib
import inspect
import itertools
import json
import operator
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from fedrepro import settings as process
from fedrepro import target
from fedrepro.data.sources.stand_ins import find_or_stand_in, variant_of
from fedrepro.errors import UserError
from fedrepro.reproduction.study.cluster import Cluster
from fedrepro.reproduction.study.executor import Engine, Interrupted, Outcome, Task, finished, local_engine, portable
from fedrepro.reproduction.study.loaded_code import require_loaded_code_is_current
from fedrepro.reproduction.study.planning import STORED, TO_RUN, History, Planned
from fedrepro.reproduction.study.runs import Run, Runs
from fedrepro.reproduction.study.source_closure import source_closure
from fedrepro.reproduction.study.store import Damaged, Store, canonical_json, key_of, library_versions
from fedrepro.reproduction.study.until import Decided
from fedrepro.trace import Trace

_SCALARS = (str, int, float, bool, type(None))
_STUDIES_AHEAD = 2  # of which the first seeds are run before the other seeds of a study


def grid(values: Mapping[str, Iterable]) -> list[dict]:
    """Every combination of the values, the last name varying fastest.

    Examples
    --------
    >>> grid({"budget": [1, 2], "sampling": ["uniform"]})
    [{'budget': 1, 'sampling': 'uniform'}, {'budget': 2, 'sampling': 'uniform'}]
    """
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


def at_the_edge(chosen: Mapping, values: Mapping[str, Iterable], least: Mapping = MappingProxyType({})) -> str:
    """Which choices are the least or the largest of the values that were tried, so that others might be better.

    Names have no order, and of two values each is at an edge; ``least`` has the values below which there is nothing.

    Examples
    --------
    >>> at_the_edge({"step": 0.3, "steps": 500}, {"step": (0.03, 0.1, 0.3), "steps": (200, 500, 1_000)})
    'step'
    """
    tried = {name: list(options) for name, options in values.items() if not isinstance(chosen[name], str)}
    found = [
        name
        for name, options in tried.items()
        if chosen[name] in (min(options), max(options)) and chosen[name] != least.get(name)
    ]
    return ", ".join(found) or "no"


@dataclass(frozen=True)
class Study:
    """A grid of settings × seeds, run in parallel, stored, and never run twice.

    Parameters
    ----------
    name
        How the study is called in progress and errors.
    trial
        A function ``trial(*, seed, **settings) -> Trace`` at the top level of a module or of a notebook. It loads its
        own data: what it is given goes into the key, and should be small.
    settings
        One dict per combination; see :func:`grid`. Values are texts, numbers, truth values, None, or lists of these.
    seeds
        The repetitions of each combination.
    data
        Names of the data sets that the trial reads; which variant (or which stand-in) is at hand is found out when the
        study runs. A mapping from name to ``"variant:digest"`` settles it beforehand. Variants and digests are part of
        the key, and a trial that has a parameter ``data`` is given a dict from name to variant.
    """

    name: str
    trial: Callable[..., Trace]
    settings: Iterable[Mapping]
    seeds: Iterable[int]
    data: Iterable[str] | Mapping[str, str] = field(default_factory=tuple)

    def __post_init__(self):
        _check_trial(self.name, self.trial)
        _check_lists(self.name, self.settings, self.seeds)
        settings = [_checked_settings(self.name, given) for given in self.settings]
        seeds = [_checked_seed(self.name, seed) for seed in self.seeds]
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "seeds", seeds)
        _check_distinct(self.name, settings, seeds)
        for given in settings:
            extra = {"data": {}} if self._takes_data else {}
            _check_signature(self.name, self.trial, {**given, **extra})

    @property
    def trial_name(self) -> str:
        """The identity of the trial function, ``module:name``."""
        return f"{self.trial.__module__}:{self.trial.__qualname__}"

    @property
    def _takes_data(self) -> bool:
        return "data" in inspect.signature(self.trial).parameters

    def identities(self) -> dict[str, str]:
        """Name to ``"variant:digest"`` of the data sets; raises DataUnavailable where one is missing."""
        if isinstance(self.data, Mapping):
            return dict(self.data)
        found = {name: find_or_stand_in(name) for name in self.data}
        return {name: f"{variant_of(name, one)}:{one.digest}" for name, one in found.items()}

    def source(self) -> dict[str, str]:
        """Hash of every module that the trial depends on."""
        return source_closure(self.trial)

    def run(
        self,
        engine: Engine | None = None,
        progress: "Callable[[Work], None] | None" = None,
        until: Decided | None = None,
    ) -> Runs:
        """Run what is not stored yet, store it, and return everything.

        Parameters
        ----------
        engine
            Where trials run; by default on the cluster that ``FEDREPRO_CLUSTER`` names, or without one in as many
            local processes as ``FEDREPRO_JOBS`` says.
        progress
            Called with the `Work` at the start, and again whenever a trial has been stored.
        until
            Look at growing numbers of the seeds, and stop as soon as a question is decided; by default all seeds run.
        """
        if until is not None:
            return self._look_by_look(until, engine, progress)
        listed = self.listed()
        work = Work(listed)
        if work.missing:
            require_loaded_code_is_current(listed.trial, self.source())
        if progress is not None:
            progress(work)
        try:
            for outcome, _ in advance([work], engine or _engine_of_this_process()):
                outcome.require_trace(work.tasks[outcome.key])
                if progress is not None:
                    progress(work)
        except KeyboardInterrupt:
            raise Interrupted("finished trials are kept; to go on from there, run the study again.") from None
        return work.runs()

    def _look_by_look(self, until: Decided, engine: Engine | None, progress: "Callable[[Work], None] | None") -> Runs:
        seeds = list(self.seeds)
        if len(seeds) < until.looks[-1]:
            raise UserError(f"Study {self.name!r} has {len(seeds)} seeds, and its last look needs {until.looks[-1]}.")
        *earlier, last = (replace(self, seeds=seeds[:look]) for look in until.looks)
        for study in earlier:
            if until.settles(runs := study.run(engine, progress)):
                return runs
        return last.run(engine, progress)

    def listed(self, group: str = "") -> "Listed":
        """The trials of this study, for `Work`; raises DataUnavailable where a data set is missing.

        Parameters
        ----------
        group
            What trials have in common that share compiled programs.
        """
        trials = [(task._replace(group=group), components) for task, components in self._tasks(self.source())]
        return Listed(self.name, self.trial_name, trials)

    def seconds(self) -> dict[str, float]:
        """How long each trial took when it was run, by its key; those that are not stored are left out."""
        store = self._store()
        taken = {task.key: store.seconds(task.key) for task, _ in self._tasks(self.source())}
        return {key: seconds for key, seconds in taken.items() if seconds is not None}

    def plan(self) -> list[Planned]:
        """What :meth:`run` would do and why, without running anything."""
        store = self._store()
        history = History(store.records())
        return [self._planned(store, history, task, components) for task, components in self._tasks(self.source())]

    def _planned(self, store: Store, history: History, task: Task, components: Mapping) -> Planned:
        try:
            stored = store.read(task.key) is not None
            reason = "" if stored else history.why(components)
        except Damaged:
            stored, reason = False, "its stored file is damaged"
        return Planned(task.settings, task.seed, task.key, STORED if stored else TO_RUN, reason)

    def _store(self) -> Store:
        return Store(process.store_folder(), self.trial_name)

    def _tasks(self, source: Mapping[str, str]) -> Iterable[tuple[Task, dict]]:
        identities = self.identities()
        shared = {
            "trial": self.trial_name,
            "data": identities,
            "versions": library_versions(),
            "target": target.in_force(),
            "source": dict(source),
        }
        payload = portable(self.trial)
        for settings, seed in itertools.product(self.settings, self.seeds):
            components = {**shared, "settings": settings, "seed": seed}
            yield Task(key_of(components), settings, seed, identities, self._takes_data, payload), components


class Listed(NamedTuple):
    """The trials of a study with the components of their keys: all that a process needs to run and to store them."""

    study: str
    trial: str  # the identity of the trial function
    trials: list[tuple[Task, dict]]


class Work:
    """A study on its way: what is stored, and what is missing.

    Parameters
    ----------
    listed
        The trials.
    forget
        Whether stored trials are removed first.

    Attributes
    ----------
    name
        The study's name.
    tasks
        All trials, by key, in the declared order.
    missing
        The keys of those that are not stored.
    stored
        How many were stored at the start.
    damaged
        Sentences about stored files that cannot be trusted; their trials are run again.
    """

    def __init__(self, listed: Listed, forget: bool = False):
        self.name = listed.study
        self._store = Store(process.store_folder(), listed.trial)
        self.tasks = {task.key: task for task, _ in listed.trials}
        self._components = {task.key: components for task, components in listed.trials}
        if forget:
            self._forget()
        self.damaged: list[str] = []
        self.missing = {key for key in self.tasks if not self._is_stored(key)}
        self.stored = len(self.tasks) - len(self.missing)

    @property
    def pending(self) -> Iterator[tuple[int, Task]]:
        """The missing tasks, each with the position of its seed."""
        positions: dict[int, int] = {}
        for key, task in self.tasks.items():
            position = positions.setdefault(task.seed, len(positions))
            if key in self.missing:
                yield position, task

    @property
    def files(self) -> list[Path]:
        """Where the trials are stored."""
        return [self._store.path(key) for key in self.tasks]

    def keep(self, outcome: Outcome) -> None:
        """Store a trace."""
        self._store.write(outcome.key, self._components[outcome.key], outcome.trace, outcome.seconds)
        self.missing.discard(outcome.key)
        if not self.missing:
            self.settle()

    def prepare(self) -> None:
        """Make sure that traces can be stored."""
        self._store.prepare()

    def settle(self) -> None:
        """Make sure that what is stored stays even if the power fails."""
        self._store.settle()

    def runs(self) -> Runs:
        """All trials, read from the store."""
        return Runs([Run(task.settings, task.seed, self._trace(key)) for key, task in self.tasks.items()])

    def _forget(self) -> None:
        self._store.prepare()
        self._store.forget(self.tasks)

    def _trace(self, key: str) -> Trace:
        trace = self._store.read(key)
        if trace is None:
            raise UserError(f"A stored trial of {self.name} has just disappeared: run the study again.")
        return Trace.from_bytes(trace)

    def _is_stored(self, key: str) -> bool:
        try:
            return self._store.read(key) is not None
        except Damaged as damage:
            self.damaged.append(f"the stored trial {damage} is damaged and is run again")
            return False


def advance(works: Iterable[Work], engine: Engine) -> Generator[tuple[Outcome, list[Work]]]:
    """Run what several studies miss, all in one go: no process idles while one study ends.

    Studies are run in their order, but the first seeds of a study, and of the next one, come before its other seeds. So
    processes that start together mostly compile different programs, which the others then find in the cache.

    Yields
    ------
    tuple
        The outcome of a trial, stored if it has a trace, and the studies that it belongs to.
    """
    unfinished = [work for work in works if work.missing]
    for work in unfinished:
        work.prepare()
    turns = [
        (position + _STUDIES_AHEAD * (seed > 0), task)
        for position, work in enumerate(unfinished)
        for seed, task in work.pending
    ]
    tasks = [task for _, task in sorted(turns, key=lambda turn: turn[0])]
    with contextlib.closing(finished(engine, tasks)) as outcomes:
        try:
            for outcome in outcomes:
                concerned = [work for work in unfinished if outcome.key in work.tasks]
                if not outcome.error:
                    for work in concerned:
                        work.keep(outcome)
                yield outcome, concerned
        finally:
            for work in unfinished:
                work.settle()


def _engine_of_this_process() -> Engine:
    address = process.cluster()
    return Cluster(address) if address else local_engine(process.jobs())


def _check_lists(study: str, settings, seeds) -> None:
    if isinstance(settings, Mapping):
        raise UserError(f"Study {study}: settings is a dict, not a list of dicts: make one with grid().")
    if isinstance(seeds, int):
        raise UserError(f"Study {study}: seeds={seeds} is a number and not a list: use range({seeds}).")
    for name, given in (("settings", settings), ("seeds", seeds)):
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise UserError(f"Study {study}: {name}={given!r} is not a list.")


def _check_trial(study: str, trial: Callable) -> None:
    name = getattr(trial, "__qualname__", "<lambda>")
    if not name.isidentifier():
        raise UserError(
            f"The trial of study {study!r} is not a function at the top level of a module or notebook: define it there "
            f"with def."
        )


def _checked_settings(study: str, given: Mapping) -> dict:
    for name, value in given.items():
        if name in ("seed", "data"):
            instead = "seeds" if name == "seed" else name
            raise UserError(f"Study {study!r} has a setting named {name!r}: pass {instead}=… to the study instead.")
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, _SCALARS) for item in items):
            raise UserError(
                f"Study {study!r}: the setting {name}={value!r} is neither a text, number, truth value or None nor a "
                f"list of these; write it as one of them."
            )
    return json.loads(json.dumps(dict(given)))  # a copy of plain values: numpy's float64 becomes float


def _checked_seed(study: str, seed) -> int:
    try:
        return operator.index(seed)
    except TypeError:
        raise UserError(f"Study {study!r}: the seed {seed!r} is not a whole number; give whole numbers.") from None


def _check_distinct(study: str, settings: list[dict], seeds: list[int]) -> None:
    if len({canonical_json(given) for given in settings}) < len(settings):
        raise UserError(f"Study {study!r} lists the same settings twice: remove one, it would be counted twice.")
    if len(set(seeds)) < len(seeds):
        raise UserError(f"Study {study!r} lists the same seed twice: remove one, it would be counted twice.")


def _check_signature(study: str, trial: Callable, settings: Mapping) -> None:
    try:
        inspect.signature(trial).bind(seed=0, **settings)
    except TypeError as error:
        raise UserError(
            f"Study {study!r}: the trial {trial.__name__} does not fit its settings ({error}); its signature is "
            f"{inspect.signature(trial)}."
        ) from None
