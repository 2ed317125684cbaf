"""Compute first, then tell: the trials of all papers in one pool, and each paper's notebook when its trials are stored.

This process stores what workers compute; it neither imports a paper's modules nor computes anything itself. Workers
list the trials of each paper, too: to import what a paper needs and to prove its data takes seconds.
"""

import contextlib
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

from fedrepro import settings
from fedrepro.errors import DataUnavailable, UserError
from fedrepro.reproduction.paper.parameters import as_object, studies_module
from fedrepro.reproduction.progress import Display
from fedrepro.reproduction.provenance import source_hash
from fedrepro.reproduction.stamp import Stamp, data_files, in_words, paper_stamps
from fedrepro.reproduction.study.executor import Engine, LocalProcesses
from fedrepro.reproduction.study.study import Listed, Work, advance
from fedrepro.reproduction.study.workers import end_workers, workers

Problem = BaseException | None


class PaperPlan(NamedTuple):
    """The studies of a paper whose data are at hand, the hash of its sources, and what studies cost, if it knows."""

    studies: list[Listed]
    source: str
    core_hours: Mapping[str, float]  # by the study's name, with nothing stored


def plan_paper(key: str, values: Mapping[str, Any]) -> PaperPlan:
    """List the trials of a paper; this runs in a worker."""
    module, parameters, listed = studies_module(key), as_object(values), []
    studies = {name: one for name, one in module.studies(parameters).items() if name not in settings.left_out(key)}
    for study in studies.values():
        with contextlib.suppress(DataUnavailable):  # the notebook says so where it matters
            listed.append(study.listed(group=key))
    estimated = module.core_hours(parameters) if hasattr(module, "core_hours") else {}
    return PaperPlan(listed, source_hash(key), {name: hours for name, hours in estimated.items() if name in studies})


@contextlib.contextmanager
def processes(profile: str) -> Iterator[None]:
    """Sets what the workers and kernels that start meanwhile need; the workers end with it."""
    # Variables that are set here reach all of them, so that they find each other's compiled programs.
    with settings.environment(settings.compiling_fast() if profile == "quick" else {}):
        try:
            yield
        finally:
            end_workers()


class Run:
    """A run of papers, within `processes`.

    Parameters
    ----------
    papers
        The parameters of each paper, by its key.
    profile
        ``quick`` or ``full``.
    jobs
        How many processes of this machine compute, and how many notebooks run at the same time.
    display
        What shows the progress.
    engine
        Where the trials run, if not in processes of this machine.
    """

    def __init__(
        self,
        papers: Mapping[str, Mapping[str, Any]],
        profile: str,
        jobs: int,
        display: Display,
        engine: Engine | None = None,
    ):
        self._papers, self._profile, self._jobs, self._display = papers, profile, jobs, display
        self._engine = engine or LocalProcesses(jobs, display.started)
        self._sources: dict[str, str] = {}
        self._trials: dict[str, list[Path]] = {}  # the files in which a paper's trials are stored

    def compute(self, forget: bool = False, page: bool = False) -> Iterator[tuple[str, Problem]]:
        """Run what is not stored; yield each paper when all of it is, or with what went wrong.

        Parameters
        ----------
        forget
            Whether the stored trials of this very run are removed first.
        page
            Whether a page is written afterwards, which is work, too.
        """
        self._display.expect(self._papers, page)
        unfinished = {}
        for key, plan in self._planned():
            works = [Work(listed, forget) for listed in plan.studies] if isinstance(plan, PaperPlan) else []
            self._display.plan(key, works, plan.core_hours if isinstance(plan, PaperPlan) else {})
            self._trials[key] = [path for work in works for path in work.files]
            if missing := [work for work in works if work.missing]:
                unfinished[key] = missing
            else:
                yield key, plan if isinstance(plan, Exception) else None
        while unfinished:
            yield from self._compute(unfinished)

    def reproduce(self, output: Path, forget: bool = False) -> Generator[tuple[str, Problem]]:
        """Compute, and run each paper's notebook into ``output``; yield each paper when it is done, or has failed.

        A paper whose output is there already, made from all that it would be made from now, is left out; not so where
        its trials are to be forgotten.
        """
        stamps = paper_stamps(self._papers, self._profile, output)  # first: a source may be edited during the run
        if not forget:
            self._papers = {key: self._papers[key] for key, stamp in stamps.items() if self._is_due(key, stamp)}
        if not self._papers:
            return
        notebooks: dict[Future, str] = {}
        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                for key, problem in self.compute(forget, page=True):
                    if problem is None:
                        notebooks[pool.submit(self._draw, key, output, stamps[key])] = key
                    else:
                        yield key, problem
                end_workers()
                for done in as_completed(notebooks):
                    yield notebooks[done], done.exception()
            except BaseException:
                from fedrepro.reproduction.notebooks import stopped

                with stopped():
                    pool.shutdown(cancel_futures=True)
                raise

    def source(self, key: str) -> str:
        """The hash of a paper's sources."""
        return self._sources.get(key) or source_hash(key)

    def _is_due(self, key: str, stamp: Stamp) -> bool:
        """Whether a paper must be run; if not, or if only for what has changed, that is said."""
        differences = stamp.differences()
        if differences:
            self._display.note(f"{key}: run again because {in_words(differences)}")
        elif differences is not None:
            self._display.note(
                f"{key}: not run again: its output is there, and its parameters, sources, data, versions and trials "
                f"are those of the output"
            )
        return differences is None or bool(differences)

    def _planned(self) -> Iterator[tuple[str, PaperPlan | BaseException]]:
        pool = workers(min(self._jobs, len(self._papers)))
        futures = {
            key: pool[position % len(pool)].submit(plan_paper, key, dict(values))
            for position, (key, values) in enumerate(self._papers.items())
        }
        # Meanwhile this process loads what runs and converts notebooks, which takes seconds as well.
        import fedrepro.reproduction.notebooks  # noqa: F401

        for key, future in futures.items():
            plan = _result(key, future)
            if isinstance(plan, PaperPlan):
                self._sources[key] = plan.source
            yield key, plan

    def _compute(self, unfinished: dict[str, list[Work]]) -> Iterator[tuple[str, Problem]]:
        """Run trials until all is done or one has failed; what can then no longer be completed is dropped."""
        works = [work for chosen in unfinished.values() for work in chosen]
        with contextlib.closing(advance(works, self._engine)) as outcomes:
            for outcome, concerned in outcomes:
                task = concerned[0].tasks[outcome.key]
                key, lost, problem = task.group, [], None
                try:
                    outcome.require_trace(task)
                except DataUnavailable:  # the notebook meets it again, and says so where it matters
                    lost = concerned
                except Exception as failure:
                    lost, problem = unfinished[key], failure
                else:
                    for work in concerned:
                        self._display.computed(key, work, outcome)
                unfinished[key] = [work for work in unfinished[key] if work.missing and work not in lost]
                if not unfinished[key]:
                    del unfinished[key]
                    yield key, problem
                if lost:
                    return

    def _draw(self, key: str, output: Path, stamp: Stamp) -> None:
        from fedrepro.reproduction.notebooks import execute

        self._display.drawing(key)
        execute(key, self._profile, self._papers[key], output, self._jobs)
        stamp.leave([*self._trials[key], *data_files(key)])
        self._display.drawn(key)


def _result(key: str, future: Future) -> PaperPlan | Exception:
    try:
        return future.result()
    except BrokenProcessPool:
        return UserError(
            f"The process that listed the trials of {key} was killed (out of memory?): run the same command again."
        )
    except Exception as problem:
        return problem
