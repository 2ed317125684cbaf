"""Shakespeare's plays in Project Gutenberg's plain-text edition, cut into roles and speeches.

A speaker stands on a line of its own, ends in a full stop and follows an empty line; the speech lasts until the next
speaker. Stage directions (in brackets) and headings of acts and scenes belong to nobody. What stands before the first
act (title, list of roles) is passed over. The edition names some roles in more than one way (``King.`` and
``King Henry.``): they stay as many roles, since any merging would be a guess.

The 37 plays give 1,375 roles and 30,094 speeches. A reading that also counts the entries of the lists of roles, and
speaker lines without a speech, finds more of both.
"""

import re
from pathlib import PurePosixPath

from fedrepro.data.catalogue.content import Texts

ROLES = 715  # as many as TensorFlow Federated's edition has clients
_TEST_SHARE = 8  # one speech in eight, the share of TensorFlow Federated's test snippets (2,356 of 18,424)
_POEMS = {"lovers_complaint", "passionate_pilgrim", "phoenix_and_the_turtle", "rape_of_lucrece", "sonnets"}
_SUFFIX = "_gut.txt"
_SPEAKER = re.compile(r"([A-Z0-9][A-Za-z0-9'&,. -]{0,40})\.(?:\s*[\[(][^\])]*[\])])?\s*")
_HEADING = re.compile(r"(?:ACT|SCENE|EPILOGUE|PROLOGUE)\b[^a-z]*.{0,60}", re.IGNORECASE)
_FIRST_ACT = re.compile(r"ACT (?:I|1|FIRST)\b", re.IGNORECASE)
_DIRECTION = re.compile(r"\[[^\]]*\]")


def shakespeare_from_plays(files: dict[str, bytes]) -> Texts:
    """The roles with the most text, each split into its earlier speeches (train) and its last ones (test).

    A role needs two speeches, so that it has one on each side; the last eighth of its speeches (at least one) is its
    test set, in the order of the play, as LEAF splits by time. Roles that speak equally many characters are taken in
    the order of their names.
    """
    roles = {name: speeches for name, speeches in speeches_of_roles(files).items() if len(speeches) > 1}
    longest = sorted(roles, key=lambda name: (-sum(map(len, roles[name])), name))[:ROLES]
    cut = {name: len(roles[name]) - max(1, len(roles[name]) // _TEST_SHARE) for name in sorted(longest)}
    return Texts(
        train={name: roles[name][:end] for name, end in cut.items()},
        test={name: roles[name][end:] for name, end in cut.items()},
    )


def speeches_of_roles(files: dict[str, bytes]) -> dict[str, list[str]]:
    """All speeches of all plays: ``play:ROLE`` -> speeches in the order of the play."""
    roles: dict[str, list[str]] = {}
    for path, raw in sorted(files.items()):
        play = PurePosixPath(path).name.removesuffix(_SUFFIX)
        if play not in _POEMS:
            for speaker, speech in _speeches(raw.decode("latin-1")):
                roles.setdefault(f"{play}:{speaker}", []).append(speech)
    return roles


def _speeches(play: str):
    """Pairs of speaker and speech."""
    lines = [line.strip() for line in play.splitlines()]
    start = next((at for at, line in enumerate(lines) if _FIRST_ACT.match(line)), 0)
    speaker, said = None, []
    for before, line in zip(lines[start:], lines[start + 1 :], strict=False):
        heading = not before and _HEADING.fullmatch(line)
        named = None if before or heading else _SPEAKER.fullmatch(line)
        if heading or named:
            yield from _spoken(speaker, said)
            speaker, said = named and named[1].upper(), []
        else:
            said.append(line)
    yield from _spoken(speaker, said)


def _spoken(speaker: str | None, lines: list[str]):
    kept = (line.strip() for line in _DIRECTION.sub("", "\n".join(lines)).splitlines())
    speech = "\n".join(line for line in kept if line)
    if speaker and speech:
        yield speaker, speech
