"""Trials of Tables 1 and 2: linear models of Adult and of Fashion-MNIST's shirts, pullovers and t-shirts."""

from functools import cache

import numpy as np

from fedrepro.algorithms import afl
from fedrepro.data.federation import Federation
from fedrepro.data.sources import finder
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression
from fedrepro.papers.afl.trials.rows import ITERATES, guarded_against
from fedrepro.streams import stream
from fedrepro.trace import Trace

ADULT_FEATURES = ("workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country")
ADULT_DOMAINS = ("doctorate", "non-doctorate")
CLOTHES = {"shirt": 6, "pullover": 2, "t-shirt": 0}  # Table 2's domains with their labels in Fashion-MNIST
BATCH = 100  # samples of each domain
FOLDS = 5  # a fifth of the training data is held out where hyper-parameters are chosen; a seed is a fold


# --- data --------------------------------------------------------------------------------------------------------


@cache
def adult(variant: str) -> tuple[Federation, Federation]:
    """Adult's training and test rows in two domains: people with a doctorate, and people without."""
    content = finder.load("uci_adult", variant)
    return tuple(_in_domains_of_adult(table, ADULT_FEATURES) for table in (content.train, content.test))


def _in_domains_of_adult(table, features) -> Federation:
    education = table["education"]
    return Federation.from_arrays(
        np.stack([table[name].codes for name in features], axis=1),
        table["income"].codes,
        domains=(education.codes != education.names.index("Doctorate")).astype(np.int64),
        domain_names=ADULT_DOMAINS,
    )


@cache
def adult_model(variant: str) -> LogisticRegression:
    """Logistic regression on the categories, as many levels as the data set has."""
    table = finder.load("uci_adult", variant).train
    return LogisticRegression(levels=tuple(len(table[name].names) for name in ADULT_FEATURES))


@cache
def clothes(variant: str) -> tuple[Federation, Federation]:
    """Fashion-MNIST's shirts, pullovers and t-shirts, pixels from 0 to 1; each class is a domain."""
    images = finder.load("fashion_mnist", variant)
    parts = (images.x_train, images.y_train), (images.x_test, images.y_test)
    return tuple(_in_domains_of_clothes(x, y) for x, y in parts)


def _in_domains_of_clothes(x: np.ndarray, y: np.ndarray) -> Federation:
    chosen = np.flatnonzero(np.isin(y, list(CLOTHES.values())))
    domain = np.array([list(CLOTHES.values()).index(label) for label in y[chosen]])
    pixels = x[chosen].reshape(chosen.size, -1).astype(np.float32) / np.float32(255)
    return Federation.from_arrays(pixels, domain, domains=domain, domain_names=tuple(CLOTHES))


def held_out(federation: Federation, fold: int) -> tuple[Federation, Federation]:
    """Training data without a fold, and the fold: a share of 1 / FOLDS of every domain, drawn once and for all."""
    draws = stream("afl", "split", 0)
    part = np.empty(len(federation), dtype=np.int64)
    for k in range(federation.n_domains):
        rows = np.flatnonzero(federation.domains == k)
        part[draws.permutation(rows)] = np.arange(rows.size) % FOLDS
    return tuple(_rows(federation, chosen) for chosen in (part != fold % FOLDS, part == fold % FOLDS))


def _rows(federation: Federation, chosen: np.ndarray) -> Federation:
    return Federation.from_arrays(
        federation.x[chosen],
        federation.y[chosen],
        domains=federation.domains[chosen],
        domain_names=federation.domain_names,
    )


# --- trials ------------------------------------------------------------------------------------------------------


def on_adult(*, seed: int, data: dict, judged_on: str = "test", **training) -> Trace:
    """Table 1: logistic regression with Adagrad; judged on the test rows, or on the fold that belongs to the seed."""
    variant = data["uci_adult"]
    train, test = adult(variant) if judged_on == "test" else held_out(adult(variant)[0], seed)
    return _trained(train, test, adult_model(variant), batch=BATCH, optimiser="adagrad", seed=seed, **training)


def on_clothes(*, seed: int, data: dict, judged_on: str = "test", **training) -> Trace:
    """Table 2: softmax regression with Adam; judged on the test images, or on the fold that belongs to the seed."""
    variant = data["fashion_mnist"]
    train, test = clothes(variant) if judged_on == "test" else held_out(clothes(variant)[0], seed)
    model = SoftmaxRegression(len(CLOTHES))
    return _trained(train, test, model, batch=BATCH, optimiser="adam", seed=seed, **training)


def _trained(
    train: Federation,
    test: Federation,
    model,
    *,
    batch: int,
    optimiser: str,
    seed: int,
    trained_on: str,
    steps: int,
    step: float,
    step_domains: float,
    evaluate: list[int],
) -> Trace:
    """A row of Table 1 or 2."""
    trace = afl(
        train,
        model,
        steps=steps,
        step=step,
        step_domains=step_domains,
        batch=batch,
        optimiser=optimiser,
        mixtures=guarded_against(trained_on, train),
        evaluate=evaluate,
        test=test,
        training_losses=False,
        seed=seed,
    )
    return _accuracies(trace, test)


def _accuracies(trace: Trace, test: Federation) -> Trace:
    """What the tables need: accuracies in percent and losses per domain, on Û, of both iterates; and the mixture."""
    shares = np.bincount(test.domains, minlength=test.n_domains) / len(test)
    columns = {name: trace[name] for name in ("round", "mixture", "sent", "received")}
    for iterate, prefix in ITERATES.items():
        columns[iterate] = 100 * trace[f"{prefix}test_accuracy"]
        columns[f"{iterate}_uniform"] = columns[iterate] @ shares
        columns[f"{iterate}_loss"] = trace[f"{prefix}test_loss"]
    return Trace(columns, {"average_mixture": trace.final["average_mixture"], "shares": shares})
