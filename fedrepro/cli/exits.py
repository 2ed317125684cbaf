"""How the command ends: exit codes, and the one sentence that says why."""

import typer

OUR_MISTAKE, USERS_MISTAKE, DIFFERS, INTERRUPTED, SIGNALLED = 1, 2, 3, 130, 128  # and the number of the signal


def complain(sentence: str) -> None:
    """Tell the user what is wrong."""
    typer.echo(f"fedrepro: {sentence}", err=True)
