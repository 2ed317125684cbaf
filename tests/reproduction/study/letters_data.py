"""A data set of a few bytes, for workers that have it, are sent it, or cannot get it."""

import json

import numpy as np

from fedrepro.data.catalogue import table
from fedrepro.data.catalogue.content import Texts, digest_of
from fedrepro.data.catalogue.entries import Dataset, Folder, Variant
from fedrepro.data.sources import finder
from fedrepro.data.sources.stand_ins import named_by
from fedrepro.trace import Trace

CONTENT = Texts(train={"ada": ["a b c"], "ben": ["d"]}, test={"ada": ["e"], "ben": []})
FILE = "letters.json"


def decode(files):
    return Texts(**json.loads(files[FILE]))


def install():
    """Make the data set known, in a test and in a worker alike."""
    variant = Variant("tiny", digest_of(CONTENT), size=0, folder=Folder((FILE,), decode))
    table.TABLE["letters"] = Dataset("letters", "Letters", "none", "none", (variant,))


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps({"train": CONTENT.train, "test": CONTENT.test}))


def count(*, seed, data):
    """How many letters there are, as a trial that reads the variant that it is told."""
    letters = sum(len(text) for texts in finder.load("letters", data["letters"]).train.values() for text in texts)
    return Trace({"round": np.arange(1), "sent": [seed], "received": [letters]})


def count_in_place_of_the_lost(*, seed, data):
    name, variant = named_by("lost", data["lost"])
    return count(seed=seed, data={name: variant})


def count_whatever_is_there(*, seed):
    return count(seed=seed, data={"letters": "tiny"})
