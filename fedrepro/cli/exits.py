"""How the command ends: exit codes, and the one sentence that says why."""

import contextlib
import os
import sys

import typer

from fedrepro.files import is_of_the_disk

OUR_MISTAKE, USERS_MISTAKE, DIFFERS, INTERRUPTED, SIGNALLED = 1, 2, 3, 130, 128  # and the number of the signal


def complain(sentence: str) -> None:
    """Tell the user what is wrong."""
    with contextlib.suppress(OSError):  # there may be nowhere to tell it
        typer.echo(f"fedrepro: {sentence}", err=True)


def complain_of_disk(problem: OSError) -> bool:
    """Tell the user of a file or device that cannot be used; returns whether that is what is wrong."""
    if not is_of_the_disk(problem):
        return False
    if problem.filename is not None:
        complain(f"{os.fsdecode(problem.filename)} cannot be used: {problem.strerror}.")
        return True
    if _standard_output_works():
        return False
    complain(f"Standard output cannot be written: {problem.strerror}.")
    # What is still in the buffer would be tried again at the end, and end in another error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _standard_output_works() -> bool:
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError:
        return False
    return True
