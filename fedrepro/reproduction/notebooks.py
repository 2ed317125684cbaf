"""Runs the papers' notebooks: for a user's output folder, for the committed outputs, and for the reference."""

import base64
import contextlib
import io
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from fedrepro import errors
from fedrepro.data.sources.stand_ins import find_or_stand_in, variant_of
from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.files import explained_disk_errors, write_output
from fedrepro.reproduction import stamp
from fedrepro.reproduction.lab import START, notebooks
from fedrepro.reproduction.left_out import StudyLeftOut
from fedrepro.reproduction.paper import Declaration, check, declaration, folder, parameters_cell
from fedrepro.reproduction.paper.parameters import profile_of
from fedrepro.reproduction.report.site import notebook_page
from fedrepro.reproduction.results import Results, load
from fedrepro.target import is_reference_worthy

with optional():
    import nbformat
    import papermill
    from ipykernel.kernelspec import get_kernel_dict
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from papermill.exceptions import PapermillExecutionError

# Its reader of parameters takes a second "=" in a line, of a comment, for a mistake, and tells the user of it.
logging.getLogger("papermill").setLevel(logging.ERROR)

# Bytes of a full run that is kept: above the first its pictures get fewer colours, above the second it is refused.
_LARGE_NOTEBOOK, _LARGEST_NOTEBOOK = 1_000_000, 2_000_000


class ThisInterpreter(AsyncKernelManager):
    """Starts the kernel with the interpreter that runs now, whatever kernel the user has registered as ``python3``."""

    # Everything is written when a notebook is done; jupyter would wait for 2.5 seconds. A trait takes a plain value.
    shutdown_wait_time = 1.0  # pyright: ignore[reportAssignmentType]

    variables: ClassVar[Mapping[str, str]] = {}  # of this kernel alone: several run at the same time
    running: ClassVar[set["ThisInterpreter"]] = set()
    stopping: ClassVar[bool] = False

    @property
    def kernel_spec(self) -> KernelSpec:
        # The kernel's own warnings (it talks plainly to this machine) are not for the user who waits for a paper.
        spec = KernelSpec(**get_kernel_dict(extra_arguments=["--log-level=CRITICAL"]))
        # Python's option -P: what lies in the notebook's folder must not be taken for a library.
        spec.argv = [sys.executable, "-P", *spec.argv[1:]]
        # A dollar sign would be taken for the name of a variable.
        spec.env = {name: value.replace("$", "$$") for name, value in self.variables.items()}
        return spec

    async def _async_start_kernel(self, **arguments) -> None:
        await super()._async_start_kernel(**arguments)
        self.running.add(self)
        if ThisInterpreter.stopping:
            self.kill()

    start_kernel = _async_start_kernel

    async def _async_cleanup_resources(self, restart: bool = False) -> None:
        self.running.discard(self)
        await super()._async_cleanup_resources(restart)

    cleanup_resources = _async_cleanup_resources

    def kill(self) -> None:
        """End the kernel at once, whatever it is doing."""
        group = getattr(self.provisioner, "pgid", None)
        if group is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(group, signal.SIGKILL)


@contextlib.contextmanager
def stopped() -> Iterator[None]:
    """End the notebooks that other threads run, or start meanwhile."""
    logger = logging.getLogger("papermill")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)  # a kernel that dies now is no news
    ThisInterpreter.stopping = True
    try:
        for manager in tuple(ThisInterpreter.running):
            manager.kill()
        yield
    finally:
        ThisInterpreter.stopping = False
        logger.setLevel(level)


def execute(key: str, profile: str, parameters: Mapping[str, Any], output_dir: Path, jobs: int) -> Path:
    """Run a paper's notebook and write everything that comes of it to ``output_dir/<key>``.

    Parameters
    ----------
    key
        The paper.
    profile
        ``quick`` or ``full``.
    parameters
        A value for every parameter of the paper, already checked (`fedrepro.reproduction.paper.resolve`).
    output_dir
        The folder of all papers' outputs.
    jobs
        How many processes run trials, should some not be stored.

    Returns
    -------
    Path
        The paper's own folder, with ``<key>.ipynb``, ``<key>.html``, ``results.json``, ``figures/``, ``tables/``.
    """
    target = output_dir.resolve() / key
    remove_results(target)
    notebook = target / f"{key}.ipynb"
    with explained_disk_errors(target):
        _run(folder(key) / f"{key}.ipynb", notebook, {"profile": profile, **parameters}, target, jobs)
    write_output(target / f"{key}.html", notebook_page(notebook, key).encode())
    return target


def remove_results(target: Path) -> None:
    """Remove what an earlier run has left in a paper's folder: it must not pass for the result of this one."""
    with explained_disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        for leftover in ("results.json", f"{target.name}.html", "failure.txt", stamp.NAME):
            (target / leftover).unlink(missing_ok=True)


def refresh(key: str, jobs: int) -> Path:
    """Run a paper's notebook with the quick profile and keep its outputs in the notebook itself, cleaned.

    Returns
    -------
    Path
        The notebook below ``papers/``.
    """
    committed = folder(key) / f"{key}.ipynb"
    _write_parameters(key, committed)
    check(key)
    with tempfile.TemporaryDirectory(prefix=f"fedrepro-{key}-") as scratch:
        target = Path(scratch)
        executed = target / f"{key}.ipynb"
        # Without parameters: the parameters cell is the quick profile, and papermill inserts no cell of its own.
        _run(committed, executed, {}, target, jobs)
        data = load(target / "results.json").provenance.data
        notebook = nbformat.read(executed, as_version=4)
    variants = {name: record.variant for name, record in data.items()}
    write_output(committed, written(clean(notebook, variants), committed))
    return committed


def _write_parameters(key: str, path: Path) -> None:
    """Make a notebook's cell of parameters the one that ``paper.toml`` gives."""
    notebook = nbformat.read(path, as_version=4)
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) == 1 and tagged[0].source != parameters_cell(key):
        tagged[0].source = parameters_cell(key)
        write_output(path, nbformat.writes(notebook).encode() + b"\n")


def refresh_start(jobs: int) -> Path:
    """The same for the notebook with which a lab begins. It names the data sets that its pictures are made from."""
    committed = notebooks()[Path(START)]
    with tempfile.TemporaryDirectory(prefix="fedrepro-start-") as scratch:
        executed = Path(scratch) / START
        _run(committed, executed, {}, Path(scratch), jobs)
        notebook = nbformat.read(executed, as_version=4)
    names = nbformat.read(committed, as_version=4).metadata["fedrepro"]["data"]
    variants = {name: variant_of(name, find_or_stand_in(name)) for name in names}
    write_output(committed, written(clean(notebook, variants), committed))
    return committed


def reference(key: str, output_dir: Path) -> Path:
    """Keep the results, pictures, tables and the executed notebook of a full run as the paper's reference.

    Parameters
    ----------
    key
        The paper.
    output_dir
        The folder that ``fedrepro reproduce --profile full`` wrote.

    Returns
    -------
    Path
        ``papers/<key>/reference``.
    """
    source, target = output_dir / key, folder(key) / "reference"
    if not (source / "results.json").is_file():
        raise UserError(f"{source} holds no results: run `fedrepro reproduce {key} --profile full` first.")
    results, declared = load(source / "results.json"), declaration(key)
    if results.profile != "full" or not _is_full(declared, results.parameters):
        raise UserError(
            f"{source} is not a run of the full profile as paper.toml has it: run that one for a reference."
        )
    computed_with = results.provenance.target
    if not is_reference_worthy(computed_with):
        raise UserError(
            f"{source} was computed with {computed_with}: only bits that every machine gives are a reference."
        )
    notebook = full_run(source / f"{key}.ipynb", results)
    exhibits = [*source.glob("figures/*.png"), *source.glob("figures/*.svg"), *source.glob("tables/*.csv")]
    with explained_disk_errors(target):
        shutil.rmtree(target, ignore_errors=True)
        for path in (source / "results.json", *exhibits):
            kept = target / path.relative_to(source)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, kept)
    write_output(target / f"{key}.ipynb", notebook)
    return target


def _is_full(declared: Declaration, parameters: Mapping[str, Any]) -> bool:
    """Whether these are the full profile's parameters, at any of the planned looks."""
    return parameters.keys() == declared.parameters.keys() and profile_of(declared, parameters, "full") == "full"


def full_run(executed: Path, made: Results) -> bytes:
    """The executed notebook of a full run for its readers: it says what it is, and nothing of the machine.

    Where it would be larger than 1 MB, its pictures keep 64 colours: the files beside it have them all.
    """
    try:
        notebook = nbformat.read(executed, as_version=4)
    except (OSError, ValueError) as problem:
        raise UserError(f"{executed} is not the notebook of a run ({problem}): run this paper again.") from None
    key, commit = made.paper, made.provenance.commit
    words = (
        f"**This is the full run**, as it was executed ({commit}); its results are in `results.json` beside it.\n"
        f"To change something and run it, open `papers/{key}/{key}.ipynb`."
    )
    cleaned = clean(notebook, {name: record.variant for name, record in made.provenance.data.items()})
    cleaned.cells.insert(0, nbformat.v4.new_markdown_cell(words, id="full-run"))
    return written(cleaned, executed)


def written(notebook: nbformat.NotebookNode, path: Path) -> bytes:
    """A notebook as bytes; where it is large, its pictures keep 64 colours, and what is larger still is refused."""
    content = nbformat.writes(notebook).encode() + b"\n"
    if len(content) > _LARGE_NOTEBOOK:
        _thin_pictures(notebook)
        content = nbformat.writes(notebook).encode() + b"\n"
    if len(content) > _LARGEST_NOTEBOOK:
        raise UserError(f"{path} has {len(content) / 1e6:.1f} MB without its colours: draw smaller figures.")
    return content


def _thin_pictures(notebook: nbformat.NotebookNode) -> None:
    """Give the pictures in a notebook a palette of 64 colours."""
    from PIL import Image

    for cell in notebook.cells:
        for shown in cell.get("outputs", []):
            if picture := shown.get("data", {}).get("image/png"):
                small = io.BytesIO()
                Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB").quantize(64).save(
                    small, "PNG", optimize=True
                )
                shown.data["image/png"] = base64.b64encode(small.getvalue()).decode()


def clean(notebook: nbformat.NotebookNode, variants: Mapping[str, str | None]) -> nbformat.NotebookNode:
    """Strip a run notebook of times, paths and versions, and note which data variants its outputs came from."""
    notebook.metadata = nbformat.from_dict(
        {
            "fedrepro": {"data": dict(variants)},
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
    return notebook


def _run(notebook: Path, output: Path, parameters: dict, target: Path, jobs: int) -> None:
    variables = {"FEDREPRO_OUTPUT": str(target), "FEDREPRO_JOBS": str(jobs)}
    try:
        papermill.execute_notebook(
            _literal(notebook),
            _literal(output),
            parameters=parameters,
            kernel_name="python3",
            language="python",
            kernel_manager_class=type("Kernel", (ThisInterpreter,), {"variables": variables}),
            # The kernel's own folder. Papermill's `cwd` would move this process, the papers beside this one with it.
            resources={"metadata": {"path": str(target)}},
            progress_bar=False,
            request_save_on_cell_execute=False,  # to write all pictures again after every cell takes seconds
        )
    except RuntimeError:  # of jupyter, where a kernel has died
        raise UserError(
            f"The process of the notebook {notebook.name} was killed (out of memory?): run the same command again; "
            f"finished trials are kept."
        ) from None
    except PapermillExecutionError as problem:
        if problem.ename in _user_errors():
            raise UserError(problem.evalue) from None
        raise


def _literal(path: Path) -> str:
    """A path in which papermill sees no parameters."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _user_errors() -> set[str]:
    """The names under which a user's mistake leaves a notebook: a traceback carries a class only by name."""
    known = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, UserError)}
    return known | {StudyLeftOut.__name__}
