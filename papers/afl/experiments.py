"""What AFL's notebook runs: every trial and every grid of the paper, declared once.

All rows of a table share their minibatches, and the baselines are the agnostic learner with one mixture to guard
against: Λ = {m̄} trains on the uniform distribution, Λ = {δ_k} on one domain.
"""

from functools import cache

import numpy as np

from fedrepro.algorithms import afl
from fedrepro.algorithms.domains import Mixtures, Simplex, only, uniform
from fedrepro.data import language, sources
from fedrepro.data.federation import Federation
from fedrepro.models.lstm import LSTM
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression
from fedrepro.papers.afl import checks
from fedrepro.streams import stream
from fedrepro.study import Study, grid
from fedrepro.trace import Trace

TEXTS = ("ptb", "cornell_movie_dialogs")
DATA = ("uci_adult", "fashion_mnist", *TEXTS)

AGNOSTIC, UNIFORM = "agnostic", "uniform"
ITERATES = {"last": "", "average": "average_"}  # how the trace of afl names them

ADULT_FEATURES = ("workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country")
ADULT_DOMAINS = ("doctorate", "non-doctorate")
ADULT_ROWS = (*ADULT_DOMAINS, UNIFORM, AGNOSTIC)
CLOTHES = {"shirt": 6, "pullover": 2, "t-shirt": 0}  # Table 2's domains with their labels in Fashion-MNIST
FMNIST_ROWS = (UNIFORM, AGNOSTIC)
LM_ROWS = (*language.DOMAINS, UNIFORM, AGNOSTIC)

# Hyper-parameters: one set for all rows of a table. The studies `selection-…` choose them on held-out training data by
# the rule of `claims.chosen`; the notebook shows that these are what it chooses.
ADULT_BATCH = FMNIST_BATCH = 100  # samples of each domain
ADULT = {"steps": 1_000, "step": 0.03, "step_domains": 0.1}
FMNIST = {"steps": 2_000, "step": 0.001, "step_domains": 0.01}
LM = {"step": 4.0, "dropout": 0.3, "step_domains": 0.01}
LM_BATCH, LM_MOMENTUM, LM_CLIP, LM_WINDOW = 20, 0.9, 0.25, 35

FOLDS = 5  # a fifth of the training data is held out where hyper-parameters are chosen; a seed is a fold
ADULT_GRID = {
    "step": (0.01, 0.03, 0.1, 0.3),
    "step_domains": (0.001, 0.003, 0.01, 0.03, 0.1),
    "steps": (100, 200, 300, 500, 1_000, 2_000, 3_000),
}
FMNIST_GRID = {
    "step": (0.0003, 0.001, 0.003, 0.01),
    "step_domains": (0.001, 0.01, 0.1),
    "steps": (300, 500, 1_000, 2_000),
}
LM_GRID = {"step": (2.0, 4.0, 8.0), "dropout": (0.0, 0.3), "step_domains": (0.003, 0.01, 0.03)}
STEPS_OF_DOMAINS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)  # of the trade-off
LONG = 5_000  # steps on Adult, where the effect of their number is shown
VERSIONS = ("stochastic", "mirror", "optimistic", "strongly-convex")
HORIZONS = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)  # steps T on the convex problem
LONGEST_RESPONSE = 31_623  # of the strongly convex version, which looks at all samples in every step


# --- data --------------------------------------------------------------------------------------------------------


@cache
def adult(variant: str) -> tuple[Federation, Federation]:
    """Adult's training and test rows in two domains: people with a doctorate, and people without."""
    content = sources.load("uci_adult", variant)
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
    table = sources.load("uci_adult", variant).train
    return LogisticRegression(levels=tuple(len(table[name].names) for name in ADULT_FEATURES))


@cache
def clothes(variant: str) -> tuple[Federation, Federation]:
    """Fashion-MNIST's shirts, pullovers and t-shirts, pixels from 0 to 1; each class is a domain."""
    images = sources.load("fashion_mnist", variant)
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


def guarded_against(trained_on: str, federation: Federation) -> Mixtures:
    """Λ for a row of a table."""
    if trained_on == AGNOSTIC:
        return Simplex()
    return uniform(federation) if trained_on == UNIFORM else only(federation, trained_on)


# --- trials ------------------------------------------------------------------------------------------------------


def on_adult(*, seed: int, data: dict, judged_on: str = "test", **training) -> Trace:
    """Table 1: logistic regression with Adagrad; judged on the test rows, or on the fold that belongs to the seed."""
    variant = data["uci_adult"]
    train, test = adult(variant) if judged_on == "test" else held_out(adult(variant)[0], seed)
    return _trained(train, test, adult_model(variant), batch=ADULT_BATCH, optimiser="adagrad", seed=seed, **training)


def on_clothes(*, seed: int, data: dict, judged_on: str = "test", **training) -> Trace:
    """Table 2: softmax regression with Adam; judged on the test images, or on the fold that belongs to the seed."""
    variant = data["fashion_mnist"]
    train, test = clothes(variant) if judged_on == "test" else held_out(clothes(variant)[0], seed)
    model = SoftmaxRegression(len(CLOTHES))
    return _trained(train, test, model, batch=FMNIST_BATCH, optimiser="adam", seed=seed, **training)


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
    model = LSTM(len(corpora.train.vocabulary), units=units, window=LM_WINDOW, dropout=dropout)
    test = getattr(corpora, judged_on)
    trace = afl(
        corpora.train,
        model,
        steps=epochs * model.on(corpora.train).steps_per_epoch(LM_BATCH),
        step=step,
        step_domains=step_domains,
        batch=LM_BATCH,
        optimiser="momentum",
        momentum=LM_MOMENTUM,
        clip=LM_CLIP,
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


def to_saddle_point(*, seed: int, version: str, steps: int) -> Trace:
    """Theorem 2 on the convex problem whose saddle point is known, with step sizes that fall as 1/√T."""
    step, step_domains = checks.steps_of(version, steps)
    trace = afl(
        checks.convex_problem(),
        checks.convex_model(),
        steps=steps,
        step=step,
        step_domains=step_domains,
        version=version,
        radius=checks.RADIUS,
        evaluate=2,
        seed=seed,
    )
    found = checks.duality_gap(trace.final["average"], trace.final["average_mixture"])
    columns = {name: trace[name][-1:] for name in ("round", "sent", "received")}
    return Trace(columns | {name: np.array([value]) for name, value in found.items()}, {})


# --- grids -------------------------------------------------------------------------------------------------------


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    return _on_adult(parameters) | _on_clothes(parameters) | _on_texts(parameters) | _on_convex_problem(parameters)


WARM = {"steps": 2, "evaluate": [2]}


def _on_adult(parameters) -> dict[str, Study]:
    at_the_end = {"evaluate": [ADULT["steps"]]}
    along = {"steps": LONG, "evaluate": np.geomspace(10, LONG, 28).round().astype(int).tolist()}
    seeds = range(parameters.adult_seeds)
    declared = {
        "table-1": ([{"trained_on": row} | ADULT | at_the_end for row in ADULT_ROWS], seeds),
        "steps": ([{"trained_on": row} | ADULT | along for row in (UNIFORM, AGNOSTIC)], seeds),
        "trade-off-adult": (
            [{"trained_on": AGNOSTIC} | ADULT | at_the_end | {"step_domains": size} for size in STEPS_OF_DOMAINS],
            seeds,
        ),
        "selection-adult": (_selection(ADULT_ROWS, ADULT_GRID), range(FOLDS)),
    }
    return {
        name: Study(name=name, trial=on_adult, settings=settings, seeds=seeds, data=("uci_adult",), warm=WARM)
        for name, (settings, seeds) in declared.items()
    }


def _on_clothes(parameters) -> dict[str, Study]:
    at_the_end = {"evaluate": [FMNIST["steps"]]}
    along = {"evaluate": np.linspace(0, FMNIST["steps"], 41).round().astype(int).tolist()}
    seeds = range(parameters.fmnist_seeds)
    declared = {
        "table-2": ([{"trained_on": row} | FMNIST | along for row in FMNIST_ROWS], seeds),
        "trade-off-fmnist": (
            [{"trained_on": AGNOSTIC} | FMNIST | at_the_end | {"step_domains": size} for size in STEPS_OF_DOMAINS],
            seeds,
        ),
        "selection-fmnist": (_selection(FMNIST_ROWS, FMNIST_GRID), range(parameters.fmnist_folds)),
    }
    return {
        name: Study(name=name, trial=on_clothes, settings=settings, seeds=seeds, data=("fashion_mnist",), warm=WARM)
        for name, (settings, seeds) in declared.items()
    }


def _selection(rows, values: dict) -> list[dict]:
    """Each row with every step size, and the agnostic one with every step size of λ; all numbers of steps at once."""
    at = {"steps": max(values["steps"]), "evaluate": list(values["steps"]), "judged_on": "fold"}
    fixed = grid({"trained_on": [row for row in rows if row != AGNOSTIC], "step": values["step"]})
    agnostic = grid({"trained_on": [AGNOSTIC], "step": values["step"], "step_domains": values["step_domains"]})
    return [{"step_domains": values["step_domains"][0]} | choice | at for choice in (*fixed, *agnostic)]


def _on_texts(parameters) -> dict[str, Study]:
    shared = {"vocabulary": parameters.lm_vocabulary, "epochs": parameters.lm_epochs}
    large = shared | {"units": parameters.lm_units, "tokens": parameters.lm_tokens}
    small = shared | {"units": parameters.lm_selection_units, "tokens": parameters.lm_selection_tokens}
    # The step by the uniform model, dropout at that step, and λ's step by the agnostic model: one after the other.
    fixed = LM | {"step_domains": None}  # λ stands still
    candidates = [{"trained_on": UNIFORM} | fixed | {"step": step} for step in LM_GRID["step"]]
    candidates += [{"trained_on": UNIFORM} | fixed | {"dropout": share} for share in LM_GRID["dropout"]]
    candidates += [{"trained_on": AGNOSTIC} | LM | {"step_domains": size} for size in LM_GRID["step_domains"]]
    distinct = [one for at, one in enumerate(candidates) if one not in candidates[:at]]
    declared = {
        "table-3": (
            [{"trained_on": row} | large | (LM if row == AGNOSTIC else fixed) for row in LM_ROWS],
            range(parameters.lm_seeds),
        ),
        "selection-lm": ([small | one | {"judged_on": "valid"} for one in distinct], [0]),
    }
    return {
        name: Study(name=name, trial=on_texts, settings=settings, seeds=seeds, data=TEXTS)
        for name, (settings, seeds) in declared.items()
    }


def _on_convex_problem(parameters) -> dict[str, Study]:
    reachable = {version: parameters.saddle_steps for version in VERSIONS} | {"strongly-convex": LONGEST_RESPONSE}
    settings = [
        {"version": version, "steps": steps}
        for version in VERSIONS
        for steps in HORIZONS
        if steps <= min(reachable[version], parameters.saddle_steps)
    ]
    seeds = range(parameters.saddle_seeds)
    name = "duality-gap"
    return {name: Study(name=name, trial=to_saddle_point, settings=settings, seeds=seeds, warm={"steps": 2})}
