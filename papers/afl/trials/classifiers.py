"""Trials of Tables 1 and 2: linear models of Adult and of Fashion-MNIST's shirts, pullovers and t-shirts."""

from functools import cache

import numpy as np

from fedrepro.algorithms import afl
from fedrepro.data.federation import Federation
from fedrepro.data.sources import finder
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression
from fedrepro.papers.afl.trials.rows import ITERATES, SIMPLEX, guarded_against
from fedrepro.streams import stream
from fedrepro.trace import Trace

ADULT_FEATURES = ("workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country")
WITHOUT, WITH = "without education", "with education"
FEATURES = {WITHOUT: ADULT_FEATURES, WITH: (*ADULT_FEATURES, "education")}
ADULT_DOMAINS = ("doctorate", "non-doctorate")
DOCTORATE = "doctorate"  # the attribute that Table 1's domains are made of
CLOTHES = {"shirt": 6, "pullover": 2, "t-shirt": 0}  # Table 2's domains with their labels in Fashion-MNIST
BATCH = 100  # samples of each domain in the tables' minibatches
FOLDS = 5  # a fifth of the training data is held out where hyper-parameters are chosen; a seed is a fold


# --- data --------------------------------------------------------------------------------------------------------


@cache
def adult(variant: str, features: str = WITHOUT, attribute: str = DOCTORATE) -> tuple[Federation, Federation]:
    """Adult's training and test rows in domains: people with a doctorate and without, or the values of an attribute.

    Values of an attribute that the training or the test rows lack make no domain; their rows are left out.
    """
    content = finder.load("uci_adult", variant)
    tables = content.train, content.test
    if attribute == DOCTORATE:
        owners = [(_codes(table, "education") != _names(table, "education").index("Doctorate")) for table in tables]
        domains, names = [owner.astype(np.int64) for owner in owners], ADULT_DOMAINS
    else:
        domains, names = _by_attribute(tables, attribute)
    return tuple(
        _in_domains_of_adult(table, FEATURES[features], domain, names)
        for table, domain in zip(tables, domains, strict=True)
    )


def _by_attribute(tables, attribute: str) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """The domain of every row (-1: none), and the names of the domains."""
    codes = [_codes(table, attribute) for table in tables]
    present = [code for code in range(len(_names(tables[0], attribute))) if all((one == code).any() for one in codes)]
    places = np.full(len(_names(tables[0], attribute)), -1)
    places[present] = np.arange(len(present))
    return [places[one] for one in codes], tuple(_names(tables[0], attribute)[code] for code in present)


def _in_domains_of_adult(table, features, domain: np.ndarray, names: tuple[str, ...]) -> Federation:
    rows = np.flatnonzero(domain >= 0)
    return Federation.from_arrays(
        np.stack([_codes(table, name)[rows] for name in features], axis=1),
        _codes(table, "income")[rows],
        domains=domain[rows],
        domain_names=names,
    )


def _codes(table, name: str) -> np.ndarray:
    return table[name].codes


def _names(table, name: str) -> list[str]:
    return list(table[name].names)


@cache
def adult_model(variant: str, features: str = WITHOUT) -> LogisticRegression:
    """Logistic regression on the categories, as many levels as the data set has."""
    table = finder.load("uci_adult", variant).train
    return LogisticRegression(levels=tuple(len(table[name].names) for name in FEATURES[features]))


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


def on_adult(
    *,
    seed: int,
    data: dict,
    judged_on: str = "test",
    features: str = WITHOUT,
    attribute: str = DOCTORATE,
    **training,
) -> Trace:
    """Table 1: logistic regression; judged on the test rows, or on the fold that belongs to the seed."""
    variant = data["uci_adult"]
    train, test = adult(variant, features, attribute)
    if judged_on != "test":
        train, test = held_out(train, seed)
    return _trained(train, test, adult_model(variant, features), seed=seed, **training)


def on_clothes(*, seed: int, data: dict, judged_on: str = "test", **training) -> Trace:
    """Table 2: softmax regression; judged on the test images, or on the fold that belongs to the seed."""
    variant = data["fashion_mnist"]
    train, test = clothes(variant) if judged_on == "test" else held_out(clothes(variant)[0], seed)
    return _trained(train, test, SoftmaxRegression(len(CLOTHES)), seed=seed, **training)


def _trained(
    train: Federation,
    test: Federation,
    model,
    *,
    seed: int,
    trained_on: str,
    evaluate: list[int],
    within: str = SIMPLEX,
    by_row: str | None = None,
    **training,
) -> Trace:
    """A row of Table 1 or 2; what is not named here goes to the learner as it is.

    ``by_row`` says what is kept for every test row: whether it is right (``right``), or its loss (``loss``).
    """
    mixtures = guarded_against(trained_on, train, within)
    trace = afl(
        train, model, mixtures=mixtures, evaluate=evaluate, test=test, training_losses=False, seed=seed, **training
    )
    kept = {} if by_row is None else _kept_by_row(by_row, trace, test, model)
    return _accuracies(trace, test, {"outside": np.array(getattr(mixtures, "share_outside", 0.0))} | kept)


def _kept_by_row(what: str, trace: Trace, test: Federation, model) -> dict[str, np.ndarray]:
    """What both iterates have at the end in every test row, the rows of the first domain first: bits, or losses."""
    order = np.argsort(test.domains, kind="stable")
    found = {"rows": np.bincount(test.domains, minlength=test.n_domains)}
    for iterate, name in (("last", "w"), ("average", "average")):
        w = trace.final[name]
        if what == "right":
            found[f"{iterate}_right"] = np.packbits((model.predict(w, test.x) == test.y)[order])
        else:
            found[f"{iterate}_losses"] = model.on(test).sample_losses(w, order).astype(np.float16)
    return found


def _accuracies(trace: Trace, test: Federation, kept: dict[str, np.ndarray]) -> Trace:
    """What the tables need: accuracies in percent and losses per domain, on Û, of both iterates; and the mixture."""
    shares = np.bincount(test.domains, minlength=test.n_domains) / len(test)
    columns = {name: trace[name] for name in ("round", "mixture", "sent", "received")}
    for iterate, prefix in ITERATES.items():
        columns[iterate] = 100 * trace[f"{prefix}test_accuracy"]
        columns[f"{iterate}_uniform"] = columns[iterate] @ shares
        columns[f"{iterate}_loss"] = trace[f"{prefix}test_loss"]
    return Trace(columns, {"average_mixture": trace.final["average_mixture"], "shares": shares} | kept)
