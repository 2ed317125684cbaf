"""Trials of Table 3: language models on documents and conversation."""

import numpy as np

from fedrepro.algorithms import afl
from fedrepro.callbacks import checkpoints
from fedrepro.data import language
from fedrepro.data.federation import Federation
from fedrepro.models.lstm import LSTM
from fedrepro.papers.afl.trials.rows import ITERATES, SIMPLEX, UNIFORM, guarded_against
from fedrepro.trace import Trace

TEXTS = ("ptb", "cornell_movie_dialogs")
MOMENTUM, CLIP, WINDOW = 0.9, 0.25, 35


def on_texts(
    *,
    seed: int,
    data: dict,
    trained_on: str,
    vocabulary: int,
    tokens: int,
    held_out: int | None,
    share: float,
    judged_on: str = "test",
    **training,
) -> Trace:
    """Table 3: a two-layer LSTM with momentum on documents and conversation; a seed varies the films, too."""
    corpora = language.documents_and_conversation(
        *_named(data), vocabulary=vocabulary, tokens=tokens, held_out=held_out, share=share, seed=seed
    )
    return _trained(corpora.train, getattr(corpora, judged_on), trained_on, seed=seed, **training)


def on_documents(*, seed: int, data: dict, vocabulary: int, tokens: int, held_out: int | None, **training) -> Trace:
    """The same LSTM on documents alone, all of them: what the literature measures language models on."""
    (documents,) = _named(data)
    corpora = language.documents_alone(documents, vocabulary=vocabulary, tokens=tokens, held_out=held_out, seed=seed)
    return _trained(corpora.train, corpora.test, UNIFORM, step_domains=None, seed=seed, **training)


def _named(data: dict[str, str]) -> list[str]:
    """The texts as `fedrepro.data.language` calls them: one that is not the paper's has its own name in front."""
    return [variant if name in TEXTS or ":" in variant else f"{name}:{variant}" for name, variant in data.items()]


def _trained(
    train: Federation,
    test: Federation,
    trained_on: str,
    *,
    seed: int,
    units: int,
    batch: int,
    epochs: int,
    step: float,
    dropout: float,
    step_domains: float | None,
    within: str = SIMPLEX,
    every: int = 1,
) -> Trace:
    """A language model, evaluated after every so many passes over the text; one that is killed goes on from there."""
    model = LSTM(len(train.vocabulary), units=units, window=WINDOW, dropout=dropout)
    per_epoch = model.on(train).steps_per_epoch(batch)
    trace = afl(
        train,
        model,
        steps=epochs * per_epoch,
        step=step,
        step_domains=step_domains,
        batch=batch,
        optimiser="momentum",
        momentum=MOMENTUM,
        clip=CLIP,
        mixtures=guarded_against(trained_on, train, within),
        evaluate=[per_epoch * epoch for epoch in (*range(0, epochs, every), epochs)],
        test=test,
        training_losses=False,
        callbacks=checkpoints(),
        seed=seed,
    )
    columns = {name: trace[name] for name in ("round", "mixture", "sent", "received")}
    for iterate, prefix in ITERATES.items():
        columns[f"{iterate}_loss"] = trace[f"{prefix}test_loss"]
        columns[iterate] = np.exp(columns[f"{iterate}_loss"])
        columns[f"{iterate}_uniform"] = np.exp(columns[f"{iterate}_loss"] @ test.client_weights)
    tokens = [np.bincount(part.domains, minlength=part.n_domains) for part in (train, test)]
    unknown = [[np.mean(part.y[part.domains == k] == 1) for k in range(part.n_domains)] for part in (train, test)]
    final = {"average_mixture": trace.final["average_mixture"], "tokens": tokens[0], "test_tokens": tokens[1]}
    return Trace(columns, final | {"unknown": np.array(unknown)})
