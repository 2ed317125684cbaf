"""The rows of the notebook's tables that the paper does not have."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fedrepro.algorithms.domains import CappedSimplex, Simplex, skewness
from fedrepro.papers.afl.claims import by_domain, interval, on_uniform, worst_of_each_run
from fedrepro.papers.afl.section_3 import LinearClass
from fedrepro.papers.afl.trials.rows import COPIED, SIMPLEX
from fedrepro.reproduction.study import Runs


def selected(best: Mapping[str, list[dict]], shown: int = 5) -> list[dict]:
    """The best sets of hyper-parameters of each data set."""
    return [{"data": data, "rank": rank} | row for data in best for rank, row in enumerate(best[data][:shown], 1)]


def under_readings(readings: Sequence[tuple[dict, Mapping[str, Runs]]], domains: Sequence[str]) -> list[dict]:
    """Accuracy of every model of Adult under every reading."""
    return [
        reading | {"trained on": row, "Û": float(on_uniform(runs).mean())} | _means(by_domain(runs), domains)
        for reading, rows in readings
        for row, runs in rows.items()
    ]


def variants(data: str, runs: Mapping[str, Runs], domains: Sequence[str]) -> list[dict]:
    """Accuracy of the agnostic model with another gradient, another Λ, or another objective."""
    found = []
    for name, one in runs.items():
        worst = interval(worst_of_each_run(by_domain(one), np.min))
        found.append(
            {"data": data, "variant": name, "Û": float(on_uniform(one).mean())}
            | _means(by_domain(one), domains)
            | {"worst of each run": worst.mean, "±": worst.high - worst.mean}
            | {"largest share of λ^A": float(one.final("average_mixture").max(axis=1).mean())}
        )
    return found


def copied_projection(pairs: Mapping[str, Mapping[str, Runs]]) -> list[dict]:
    """How often λ is no mixture, and the worst domain's accuracy with both projections."""
    found = []
    for name, runs in pairs.items():
        right, copied = (worst_of_each_run(by_domain(runs[which]), np.min) for which in (SIMPLEX, COPIED))
        found.append(
            {
                "data": name,
                "steps with λ outside, %": float(100 * runs[COPIED].final("outside").mean()),
                "sum of λ at the end": float(runs[COPIED].column("mixture")[:, -1].sum(axis=1).mean()),
                "worst accuracy, right": float(right.mean()),
                "worst accuracy, copied": float(copied.mean()),
                "largest change of a run": float(np.abs(copied - right).max()),
            }
        )
    return found


def skewnesses(sizes: Mapping[str, np.ndarray], classes: Mapping[str, LinearClass]) -> Iterator[dict]:
    """The skewness of each data set, as it is and as printed, and what Theorem 1 adds at m̄ and at the worst corner."""
    for name, each in sizes.items():
        m, p = int(each.sum()), each.size
        row = {"data": name, "domains": p, "m": m, "smallest m_k": int(each.min())}
        row |= {"𝔰(Δ ‖ m̄) = max m/m_k": skewness(Simplex(), each), "max 1/m_k, as printed": float(1 / each.min())}
        row |= {"no share above 0.6": skewness(CappedSimplex(0.6), each) if p > 1 else 1.0}
        for where, mixture in (("m̄", each / m), ("the worst corner", np.eye(p)[np.argmin(each)])):
            linear = classes.get(name)
            row |= {f"ℜ, linear, at {where}": linear.complexity(mixture)[0] if linear else None}
            row |= {f"its closed form at {where}": linear.closed_form(mixture) if linear else None}
        yield row


def searched_texts(runs: Runs, domains: Sequence[str]) -> Iterator[dict]:
    """Perplexities on the validation text for every value that was tried, means over the seeds."""
    names = ("trained_on", "step", "dropout", "step_domains")
    for settings in dict.fromkeys(tuple(one.settings[name] for name in names) for one in runs):
        chosen = dict(zip(names, settings, strict=True))
        found = runs.select(**chosen)
        values = np.exp(np.log(by_domain(found)).mean(axis=0))
        yield (
            chosen
            | dict(zip(domains, values.tolist(), strict=True))
            | {
                "Û": float(np.exp(np.log(on_uniform(found)).mean())),
                "worst": float(np.exp(np.log(by_domain(found).max(axis=1)).mean())),
            }
        )


def documents_alone(runs: Runs, published: Mapping[str, float]) -> list[dict]:
    """The perplexity of the LSTM on all documents, run by run, beside the literature's."""
    return [
        {"seed": one.seed, "last": float(one.trace["last"][-1, 0]), "average": float(one.trace["average"][-1, 0])}
        | {"units": one.settings["units"], "passes": one.settings["epochs"]}
        | {
            "training tokens": int(one.trace.final["tokens"].sum()),
            "test tokens": int(one.trace.final["test_tokens"].sum()),
        }
        | {"literature, 200 units": published["literature"], "Table 3": published["published"]}
        for one in runs
    ]


def _means(values: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    return dict(zip(names, values.mean(axis=0).tolist(), strict=True))
