"""A study: settings × seeds, each trial run once and kept."""

import contextlib
import inspect
import itertools
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fedrepro import settings as process
from fedrepro.data.stand_ins import find_or_stand_in, variant_of
from fedrepro.errors import DataUnavailable, UserError
from fedrepro.study.closure import source_closure
from fedrepro.study.cluster import Cluster
from fedrepro.study.executor import Engine, LocalProcesses, Outcome, Task, finished, local_engine, portable, warm_up
from fedrepro.study.freshness import require_loaded_code_is_current
from fedrepro.study.planning import STORED, TO_RUN, History, Planned
from fedrepro.study.progress import Progress
from fedrepro.study.runs import Run, Runs
from fedrepro.study.store import Damaged, Store, canonical_json, key_of, library_versions
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
    warm
        Settings that make a trial short. One throw-away trial with them compiles the kernels before parallel work on
        this machine; on a cluster every worker compiles what it needs.
    """

    name: str
    trial: Callable[..., Trace]
    settings: Iterable[Mapping]
    seeds: Iterable[int]
    data: Iterable[str] | Mapping[str, str] = field(default_factory=tuple)
    warm: Mapping | None = None

    def __post_init__(self):
        _check_trial(self.name, self.trial)
        object.__setattr__(self, "settings", [_checked_settings(self.name, given) for given in self.settings])
        object.__setattr__(self, "seeds", [_checked_seed(self.name, seed) for seed in self.seeds])
        _check_distinct(self.name, self.settings, self.seeds)
        for given in self.settings:
            extra = {"data": {}} if self._takes_data else {}
            _check_signature(self.name, self.trial, {**given, **(self.warm or {}), **extra})

    @property
    def trial_name(self) -> str:
        """The identity of the trial function, ``module:name``."""
        return f"{self.trial.__module__}:{self.trial.__qualname__}"

    @property
    def _takes_data(self) -> bool:
        return "data" in inspect.signature(self.trial).parameters

    def identities(self) -> dict[str, str]:
        """Name to ``"variant:digest"`` of the data sets; raises DataUnavailable where one cannot be had."""
        if isinstance(self.data, Mapping):
            return dict(self.data)
        found = {name: find_or_stand_in(name) for name in self.data}
        return {name: f"{variant_of(name, one)}:{one.digest}" for name, one in found.items()}

    def source(self) -> dict[str, str]:
        """Hash of every module that the trial depends on."""
        return source_closure(self.trial)

    def run(self, engine: Engine | None = None) -> Runs:
        """Run what is not stored yet, store it, and return everything.

        Parameters
        ----------
        engine
            Where trials run; by default on the cluster that ``FEDREPRO_CLUSTER`` names, or without one in as many
            local processes as ``FEDREPRO_JOBS`` says.
        """
        work, engine = _Work(self), engine or _engine_of_this_process()
        if self.warm is not None and isinstance(engine, LocalProcesses) and work.pending:
            warm_up(work.pending[0][1], self.warm)
        for _ in _completed([work], engine):
            pass
        return work.runs()

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
            "source": dict(source),
        }
        payload = portable(self.trial)
        for settings, seed in itertools.product(self.settings, self.seeds):
            components = {**shared, "settings": settings, "seed": seed}
            yield Task(key_of(components), settings, seed, identities, self._takes_data, payload), components


def run_all(studies: Mapping[str, Study], engine: Engine | None = None) -> Iterator[tuple[str, Runs | DataUnavailable]]:
    """Run what is not stored yet of several studies, all in one go: no process idles while one study ends.

    Studies are run in their order, but the first seeds of a study, and of the next one, come before its other seeds. So
    processes that start together mostly compile different programs, which the others then find in the cache, and no
    throw-away trial is run.

    Parameters
    ----------
    studies
        By any name.
    engine
        As in `Study.run`.

    Yields
    ------
    tuple
        The name of a study and its runs, as soon as they are complete, or why its data cannot be had.
    """
    names = {}
    for name, study in studies.items():
        try:
            names[_Work(study)] = name
        except DataUnavailable as problem:
            yield name, problem
    for work in _completed(list(names), engine or _engine_of_this_process()):
        yield names[work], work.runs()


class _Work:
    """A study on its way: its tasks, and the traces that are there."""

    def __init__(self, study: Study):
        self.study, self._store, self._source = study, study._store(), study.source()
        tasks = list(study._tasks(self._source))
        self._components = {task.key: components for task, components in tasks}
        self._tasks = {task.key: task for task, _ in tasks}
        self._traces, notes = self._stored_traces()
        self._progress = Progress(study.name, total=len(self._tasks), cached=len(self._traces))
        if self._tasks:  # a profile may leave a study empty
            self._progress.tell(len(self._traces), notes)

    @property
    def pending(self) -> list[tuple[int, Task]]:
        """What is not there yet, with the position of its seed."""
        positions = {seed: position for position, seed in enumerate(self.study.seeds)}
        return [(positions[task.seed], task) for key, task in self._tasks.items() if key not in self._traces]

    @property
    def is_complete(self) -> bool:
        """Whether every trace is there."""
        return len(self._traces) == len(self._tasks)

    def begin(self) -> None:
        """Make sure that trials may be run and kept."""
        self._store.prepare()
        require_loaded_code_is_current(self.study.trial_name, self._source)

    def keep(self, outcome: Outcome) -> bool:
        """Store a trace; whether it is one of this study, and was the last that was missing."""
        key = outcome.key
        if key not in self._tasks:
            return False
        self._store.write(key, self._components[key], outcome.trace, outcome.seconds)
        self._traces[key] = outcome.trace
        self._progress.tell(len(self._traces))
        return self.is_complete

    def settle(self) -> None:
        """Leave the store as a power failure may find it."""
        self._store.settle()

    def runs(self) -> Runs:
        """All trials, in the declared order."""
        traces = ((task, Trace.from_bytes(self._traces[key])) for key, task in self._tasks.items())
        return Runs([Run(task.settings, task.seed, trace) for task, trace in traces])

    def _stored_traces(self) -> tuple[dict[str, bytes], list[str]]:
        traces, notes = {}, []
        for key in self._tasks:
            try:
                trace = self._store.read(key)
            except Damaged as damage:
                notes.append(f"the stored trial {damage} is damaged and is run again")
            else:
                if trace is not None:
                    traces[key] = trace
        return traces, notes


def _completed(works: Iterable[_Work], engine: Engine) -> Iterator[_Work]:
    """Run and keep what is pending, first seeds somewhat earlier; yield each work when it is complete."""
    pending = {}
    for work in works:
        if work.is_complete:
            yield work
        else:
            pending[work] = work.pending
    if not pending:
        return
    for work in pending:
        work.begin()
    turns = [
        (study + _STUDIES_AHEAD * (seed > 0), task)
        for study, tasks in enumerate(pending.values())
        for seed, task in tasks
    ]
    tasks = [task for _, task in sorted(turns, key=lambda turn: turn[0])]
    with contextlib.closing(finished(engine, tasks)) as results:
        try:
            for outcome in results:
                for work in pending:  # a trial may belong to several studies
                    if work.keep(outcome):
                        work.settle()
                        yield work
        finally:
            for work in pending:
                work.settle()


def _engine_of_this_process() -> Engine:
    address = process.cluster()
    return Cluster(address) if address else local_engine(process.jobs())


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
