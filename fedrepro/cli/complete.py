"""What TAB offers: papers, profiles, parameters and data sets. A mistake here must never disturb the shell."""

import contextlib
from collections.abc import Iterator

import typer

from fedrepro.errors import UserError


def papers(incomplete: str) -> Iterator[tuple[str, str]]:
    """The keys of papers with their titles."""
    from fedrepro.reproduction.paper.schema import declaration, keys

    for key in keys():
        if key.startswith(incomplete):
            with contextlib.suppress(UserError):  # a paper.toml that somebody is editing
                yield key, declaration(key).paper.title


def profiles(incomplete: str) -> Iterator[str]:
    """The two profiles."""
    from fedrepro.reproduction.paper.schema import PROFILES

    yield from (profile for profile in PROFILES if profile.startswith(incomplete))


def parameters(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Parameters of the papers that are named so far, or of all: ``name=``, or ``name=value`` where values are few."""
    from fedrepro.reproduction.paper.schema import declaration, keys

    given = context.params.get("papers") or [context.params.get("paper")]
    known = keys()
    for key in [key for key in given if key in known] or known:
        with contextlib.suppress(UserError):
            for name, parameter in declaration(key).parameters.items():
                few = ("true", "false") if parameter.type == "bool" else parameter.choices or ("",)
                yield from ((f"{name}={one}", parameter.help) for one in few if f"{name}={one}".startswith(incomplete))


def data_sets(incomplete: str) -> Iterator[str]:
    """The names of data sets."""
    from fedrepro.data.catalogue.table import TABLE

    yield from (name for name in TABLE if name.startswith(incomplete))
