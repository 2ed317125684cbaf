"""Trials of Table 3: language models on documents and conversation."""

import numpy as np

from fedrepro.algorithms import afl
from fedrepro.data import language
from fedrepro.models.lstm import LSTM
from fedrepro.papers.afl.trials.rows import ITERATES, guarded_against
from fedrepro.trace import Trace

TEXTS = ("ptb", "cornell_movie_dialogs")
BATCH, MOMENTUM, CLIP, WINDOW = 20, 0.9, 0.25, 35


def on_texts(
    *,
    seed: int,
    data: dict,
    trained_on: str,
    units: int,
    vocabulary: int,
    tokens: int,
    epochs: int,
    step: float,
    dropout: float,
    step_domains: float | None,
    judged_on: str = "test",
) -> Trace:
    """Table 3: a two-layer LSTM with momentum on documents and conversation; a seed varies the films, too."""
    corpora = language.documents_and_conversation(
        *(data[name] for name in TEXTS), vocabulary=vocabulary, tokens=tokens, seed=seed
    )
    model = LSTM(len(corpora.train.vocabulary), units=units, window=WINDOW, dropout=dropout)
    test = getattr(corpora, judged_on)
    trace = afl(
        corpora.train,
        model,
        steps=epochs * model.on(corpora.train).steps_per_epoch(BATCH),
        step=step,
        step_domains=step_domains,
        batch=BATCH,
        optimiser="momentum",
        momentum=MOMENTUM,
        clip=CLIP,
        mixtures=guarded_against(trained_on, corpora.train),
        evaluate=2,
        test=test,
        training_losses=False,
        seed=seed,
    )
    columns = {name: trace[name] for name in ("round", "mixture", "sent", "received")}
    for iterate, prefix in ITERATES.items():
        columns[f"{iterate}_loss"] = trace[f"{prefix}test_loss"]
        columns[iterate] = np.exp(columns[f"{iterate}_loss"])
        columns[f"{iterate}_uniform"] = np.exp(columns[f"{iterate}_loss"] @ test.client_weights)
    tokens_used = np.bincount(corpora.train.domains, minlength=2)
    return Trace(columns, {"average_mixture": trace.final["average_mixture"], "tokens": tokens_used})
