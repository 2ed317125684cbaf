"""What the notebook shows and judges, measured on the stored zoos: rows of tables, series of figures, comparisons."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from fedrepro.papers.efl_fg import checks, online, studies, trials
from fedrepro.papers.efl_fg import claims as judge
from fedrepro.reproduction import verdicts
from fedrepro.reproduction.paper import declaration
from fedrepro.reproduction.study.runs import at_hand
from fedrepro.reproduction.verdicts import Comparison
from fedrepro.trace import Trace

TITLES = studies.TITLES
SAMPLED = 20_000  # draws by which an expectation is estimated
INSTANCES = 20  # random instances of a universal statement
_MSE_AXES = declaration("efl_fg").primary("efl-fg-lower-mse-bias")
_BEST_STEPS: dict[str, Callable[[online.Tuned], list[Trace]]] = {
    "FedBoost, best of eleven steps": lambda tuned: tuned.best().fedboost[0][1],
    "FedBoost, best of eleven steps and of all readings": lambda tuned: tuned.strongest_fedboost(),
    "EFL-FG, best of eleven steps": lambda tuned: tuned.best().efl_fg[0][1],
}
# What the paper leaves open of the models besides their predictions: the reading, and what it changes in a problem.
_MODELS: tuple[tuple[dict[str, str], dict], ...] = (
    ({"kernel-parameter": "inverse"}, {"zoo": "inverse"}),
    ({"kernel-cost": "coefficients"}, {"counting": "coefficients"}),
)


class Stage:
    """The zoos of all data sets that can be had, and what the methods do on them.

    Parameters
    ----------
    paper
        The notebook's `Paper`.
    """

    def __init__(self, paper):
        self.parameters = paper.parameters
        self.published = paper.published("table-1")
        self.every_zoo = {name: paper.runs(f"zoo-{name}") for name in studies.NAMES}
        self.other_zoos = {name: paper.runs(f"other-zoos-{name}") for name in studies.NAMES}
        self.further_zoos = paper.runs(f"further-zoos-{studies.FURTHER}")
        self.zoos = {name: runs for name, runs in self.every_zoo.items() if runs}
        self.problems = {name: self.built(name) for name in self.zoos}
        self._played: dict[tuple, online.Played] = {}
        self._tuned: dict[str, online.Tuned] = {}

    def need(self, *names: str) -> list[str]:
        """The data sets at hand, of these or of all; raises `DataUnavailable` where there is none."""
        return list(at_hand({name: self.every_zoo[name] for name in names or studies.NAMES}))

    def built(self, name: str, **reading) -> list[online.Problem]:
        """The online problems of a data set, one per seed."""
        return [online.problem(run, self.parameters, **reading) for run in self.zoos[name]]

    def other(self, name: str, changed: Mapping) -> list[online.Problem]:
        """The same for zoos that were trained otherwise; empty where the run left them out."""
        settings = studies.used_zoo(self.parameters.ridge) | changed
        if not self.parameters.other_zoo_seeds or settings not in studies.other_zoos(name, self.parameters.ridge):
            return []
        return [online.problem(run, self.parameters) for run in self.other_zoos[name].select(**settings)]

    def played(self, name: str, **reading) -> online.Played:
        """Both methods on a data set under every reading of theirs; by default with the models of the primary one."""
        key = name, *reading.items()
        if key not in self._played:
            given = self.built(name, **reading) if reading else self.problems[name]
            self._played[key] = online.played(given)
        return self._played[key]

    def tuned(self, name: str) -> online.Tuned:
        """Both methods on a data set with every step: a control."""
        if name not in self._tuned:
            self._tuned[name] = online.tuned(self.problems[name])
        return self._tuned[name]

    def by_title(self, measure: Callable[[str], object]) -> dict:
        """A measure of every data set by its title; of one that cannot be had, the reason."""
        return {
            title: measure(name) if name in self.zoos else self.every_zoo[name].why for name, title in TITLES.items()
        }

    # --- Table I and Figure 1 ----------------------------------------

    @cached_property
    def rounds(self) -> dict[str, list[int]]:
        """The rounds at which curves are drawn, by data set."""
        return {name: online.whole_run(given[0].rounds) for name, given in self.problems.items()}

    @cached_property
    def traces(self) -> dict[tuple[str, str], list[Trace]]:
        """Every method on every data set."""
        return {
            (name, method): [play(one, evaluate=self.rounds[name]) for one in given]
            for name, given in self.problems.items()
            for method, play in online.METHODS.items()
        }

    def table_1(self) -> list[dict]:
        """Table I, with further methods and the best single model."""
        self.need()
        rows = []
        for method in [*online.METHODS, *_BEST_STEPS, "best single model in hindsight"]:
            row: dict = {"method": method}
            for at, (name, title) in enumerate(TITLES.items()):
                if name not in self.zoos:
                    continue
                row |= _mean_of(title, self._errors(name, method))
                row[f"published, {title}"] = self.published["mse"].get(method, [np.nan] * 3)[at]
            for at, (name, title) in enumerate(TITLES.items()):
                if name in self.zoos and method in self.published["mse"]:
                    above = verdicts.interval(online.percent_above(self.traces[name, method]))
                    row |= {f"violations, {title}, %": above.mean, f"± violations, {title}": above.high - above.mean}
                    row[f"published violations, {title}"] = self.published["violations"][method][at]
            rows.append(row)
        return rows

    def numbers(self) -> dict:
        """Our values for every seed behind the cells that the paper printed."""
        found = {}
        for method in self.published["mse"]:
            for name, title in TITLES.items():
                runs = self.traces[name, method] if name in self.zoos else None
                found[f"{method}, {title}"] = None if runs is None else online.errors_of(runs)
                found[f"{method}, violations, {title}, %"] = None if runs is None else online.percent_above(runs)
        return found

    def _errors(self, name: str, method: str) -> np.ndarray:
        if method in online.METHODS:
            return online.errors_of(self.traces[name, method])
        if method in _BEST_STEPS:
            return online.errors_of(_BEST_STEPS[method](self.tuned(name)))
        return np.array([1000 * online.best_model(one)[1] for one in self.problems[name]])

    def zoo_rows(self) -> list[dict]:
        """What the models of each data set are worth: MSE × 10⁻³ by family, in the order of their parameters."""
        rows = []
        for name, given in self.problems.items():
            first, final = given[0], self.zoos[name][0].trace.final
            errors = 1000 * np.stack([((p.ensemble.dense() - p.federation.y) ** 2).mean(axis=1) for p in given])
            row = {"data": TITLES[name], "T": first.rounds, "features": final["features"]}
            row |= {"trained on": final["samples"], "least cost": f"{first.costs.min():.2g}"}
            for family in dict.fromkeys(member.family for member in first.members):
                of_family = [k for k, member in enumerate(first.members) if member.family == family]
                row[family] = " ".join(f"{float(f'{value:.2g}'):g}" for value in errors.mean(axis=0)[of_family])
            rows.append(row)
        return rows

    # --- claims that compare the two methods ----------------------------------------

    def lower_mse(self, name: str) -> list[Comparison]:
        """EFL-FG against FedBoost: every reading of the methods with both kinds of predictions; then one at a time."""
        self.need(name)
        groups = [({"predictions": "confined"}, *self.played(name))]
        groups += [({"predictions": "free"}, *self.played(name, confined=False))]
        groups += [(reading, *online.primary_runs(self.built(name, **changed))) for reading, changed in _MODELS]
        if scaled := self.other(name, {"fitted_to": "training"}):
            groups.append(({"scaling": "training rows"}, *online.primary_runs(scaled)))
        return judge.lower_mse(TITLES[name], _as_errors(groups), _MSE_AXES)

    def lower_mse_with_drawn_clients(self) -> list[Comparison]:
        """The same where the server draws some of the clients in each round."""
        drawn = self.parameters.drawn_clients
        return self._on_every_data_set(
            "lower-mse-with-drawn-clients", lambda name: online.played(self.problems[name], participants=drawn)
        )

    def lower_mse_when_tuned(self) -> list[Comparison]:
        """The same where both methods have the best of the same steps: a control of ours."""
        return self._on_every_data_set("lower-mse-when-both-are-tuned", lambda name: self.tuned(name).best())

    def lower_mse_by_ratio(self) -> list[Comparison]:
        """The same where predictions are free, of the logarithms: a mean that no few seeds carry."""
        return self._on_every_data_set(
            "lower-mse-by-ratio-when-free", lambda name: self.played(name, confined=False), judge.lower_mse_by_ratio
        )

    def free_predictions(self) -> list[dict]:
        """Mean, median and what two seeds make of it, with predictions that are confined and that are free."""
        rows = []
        for name in self.need():
            for predictions, confined in online.PREDICTION_READINGS.items():
                found = self.played(name) if confined else self.played(name, confined=False)
                ours, theirs = (online.errors_of(method[0][1]) for method in found)
                for method, errors in (("EFL-FG", ours), ("FedBoost", theirs)):
                    row = {"data": TITLES[name], "predictions": predictions, "method": method}
                    row |= {"mean": errors.mean(), "median": np.median(errors), "largest": errors.max()}
                    row |= {"share of the two largest seeds, %": share_of_largest(errors, 2), "seeds": errors.size}
                    rows.append(row | {"EFL-FG below in": int((ours < theirs).sum())})
        return rows

    def _on_every_data_set(
        self, claim: str, play: Callable[[str], online.Played], compare: Callable = judge.lower_mse
    ) -> list[Comparison]:
        axes = declaration("efl_fg").primary(claim)
        found = []
        for name in self.need():
            found += compare(TITLES[name], _as_errors([({}, *play(name))]), axes)
        missing = [name for name in studies.NAMES if name not in self.zoos]
        return found + [verdicts.unavailable(TITLES[name], self.every_zoo[name].why) for name in missing]

    def drawn_clients(self) -> list[dict]:
        """Both methods by the number of clients that are drawn in a round."""
        rows = []
        for drawn in (*(some for some in (10, 50) if some < self.parameters.clients), None):
            for method, play in (("EFL-FG", online.play_efl_fg), ("FedBoost", online.play_fedboost)):
                row = {"clients of a round": drawn or self.parameters.clients, "method": method}
                for name in self.need():
                    runs = [play(one, participants=drawn) for one in self.problems[name]]
                    row |= _mean_of(TITLES[name], online.errors_of(runs))
                rows.append(row)
        return rows

    def violations(self) -> dict:
        """FedBoost's percentage of rounds above the budget, by data set and reading."""
        return self.by_title(
            lambda name: [(reading, online.percent_above(runs)) for reading, runs in self._fedboosts_of(name)]
        )

    def _fedboosts_of(self, name: str) -> online.ByReading:
        """FedBoost under every reading of its own, with both readings of what a kernel machine costs."""
        by_cost = {"coefficients and samples": {}, "coefficients": {"counting": "coefficients"}}
        return [
            ({"kernel-cost": cost} | reading, runs)
            for cost, changed in by_cost.items()
            for reading, runs in self.played(name, **changed).fedboost
        ]

    def violation_claim(self, least: float) -> list[Comparison]:
        """FedBoost's share of rounds above the budget against the least that the paper names."""
        axes = declaration("efl_fg").primary("fedboost-violates-at-least-13-percent")
        return judge.violates_at_least(self.violations(), least, axes)

    def steps(self, name: str) -> dict[str, dict[float, np.ndarray]]:
        """Final MSE by step, for the readings that are drawn."""
        found = self.tuned(name).curves()
        return {label: {step: online.errors_of(some) for step, some in runs.items()} for label, runs in found.items()}

    def excess(self) -> dict[str, np.ndarray]:
        """Cost less budget of every round of EFL-FG: with the one budget, with random ones, on random instances."""
        found = {}
        for name, given in self.problems.items():
            varying = [online.play_efl_fg(one, budget=online.varying_budgets(one)) for one in given]
            for kind, runs in (("the budget", self.traces[name, "EFL-FG"]), ("random budgets", varying)):
                found[f"{TITLES[name]}, {kind}"] = np.concatenate([_excess(run) for run in runs])
        return found | {"random instances": np.concatenate([_excess(run) for run in random_instances()])}

    # --- other readings, as tables ----------------------------------------

    def constraint_2(self) -> list[dict]:
        """EFL-FG by what (2) compares, and by sums or means of losses."""
        return [
            {"losses in (6), (8)": losses, "limit in (2)": limit}
            | self._efl_fg_row(self.problems, limit=limit, losses=losses)
            for losses in ("sum", "mean")
            for limit in online.LIMITS
        ]

    def models(self) -> list[dict]:
        """EFL-FG by the reading of the models and of their costs, closest to Table I first."""
        rows = []
        for parameter in trials.BANDWIDTHS:
            for counting in online.COUNTINGS:
                built = {name: self.built(name, zoo=parameter, counting=counting) for name in self.need()}
                rows += self._model_rows({"parameter": parameter, "cost": counting}, built)
        for changed in ({"ridge": studies.OTHER_RIDGE}, {"scaling": "norm"}, {"fitted_to": "training"}):
            built = {name: self.other(name, changed) for name in self.need()}
            rows += self._model_rows(changed, built) if any(built.values()) else []
        return _closest_first(rows)

    def _model_rows(self, changed: dict, built: Mapping[str, Sequence[online.Problem]]) -> list[dict]:
        used = {"features": studies.SCALING, "extremes of": studies.FITTED_TO, "ridge": self.parameters.ridge}
        called = {"scaling": "features", "fitted_to": "extremes of"}
        used |= {"parameter": "bandwidth", "cost": "all"}
        used |= {called.get(name, name): value for name, value in changed.items()}
        return [
            used | {"limit in (2)": limit} | self._efl_fg_row(built, limit=limit)
            for limit in online.LIMIT_READINGS.values()
        ]

    def _efl_fg_row(self, built: Mapping[str, Sequence[online.Problem]], **settings) -> dict:
        row, means = {}, {}
        for name in (one for one in self.need() if built[one]):
            errors = online.errors_of([online.play_efl_fg(one, **settings) for one in built[name]])
            row |= _mean_of(TITLES[name], errors)
            means[name] = errors.mean()
        return row | {"off by a factor of": self._off("EFL-FG", means)}

    def fedboosts(self) -> list[dict]:
        """FedBoost under every reading of its own, closest to Table I first."""
        played = {name: self.played(name).fedboost for name in self.need()}
        rows = []
        for at, (reading, _) in enumerate(next(iter(played.values()))):
            row, means = {axis.removeprefix("fedboost-"): value for axis, value in reading.items()}, {}
            for name, by_reading in played.items():
                runs = by_reading[at][1]
                means[name] = online.errors_of(runs).mean()
                row |= {TITLES[name]: means[name], f"{TITLES[name]}, % above": online.percent_above(runs).mean()}
            rows.append(row | {"off by a factor of": self._off("FedBoost", means)})
        return _closest_first(rows)

    def _off(self, method: str, means: Mapping[str, float]) -> float:
        """How far off the published values, as the largest factor over the data sets."""
        printed = [self.published["mse"][method][list(studies.NAMES).index(name)] for name in means]
        return float(np.exp(np.abs(np.log(np.array(list(means.values())) / printed)).max()))

    # --- regret ----------------------------------------

    @property
    def horizons(self) -> list[int]:
        """Numbers of rounds at which the regret is measured."""
        return [rounds for rounds in online.HORIZONS if rounds <= self.parameters.longest_horizon]

    @cached_property
    def regrets(self) -> dict[str, dict[str, dict[int, list[Trace]]]]:
        """Runs with their regret by data set, rates and number of rounds."""
        return {
            name: {
                rates: {rounds: [_play_with_regret(one, rates, rounds) for one in given] for rounds in self.horizons}
                for rates in online.SCHEDULES
            }
            for name, given in self.problems.items()
        }

    @cached_property
    def frozen(self) -> dict[str, dict[str, dict[int, np.ndarray]]]:
        """The regret per client of who does not learn: the same draws and the same ξ, with weights that stay equal."""
        return {
            name: {
                rates: self._per_client(
                    {T: [_play_with_regret(one, rates, T, rate=online.FROZEN) for one in given] for T in self.horizons},
                    rates,
                    "regret",
                )
                for rates in online.SCHEDULES
            }
            for name, given in self.problems.items()
        }

    def per_client(self, name: str, rates: str, column: str) -> dict[int, np.ndarray]:
        """A column at the end of the runs, per client, by the number of rounds."""
        return self._per_client(self.regrets[name][rates], rates, column)

    def _per_client(self, by_rounds: Mapping[int, Sequence[Trace]], rates: str, column: str) -> dict[int, np.ndarray]:
        clients = 1 if online.SCHEDULES[rates] == "mean" else self.parameters.clients
        return {rounds: np.array([run[column][-1] for run in runs]) / clients for rounds, runs in by_rounds.items()}

    def exponents(self, name: str) -> dict[str, np.ndarray]:
        """By rates: the exponent with which each seed's regret grows in T."""
        return {reading: exponents(self.per_client(name, rates, "regret")) for rates, reading in online.RATES.items()}

    def regret_rows(self) -> list[dict]:
        """Regret per round and client, × 10⁻³, and its exponent."""
        rows = []
        for name in self.need():
            for rates, reading in online.RATES.items():
                row: dict = {"data": TITLES[name], "rates": reading}
                for rounds, values in self.per_client(name, rates, "regret").items():
                    row[f"T = {rounds:,}"] = 1000 * values.mean() / rounds
                row["models in effect at the end"] = self._models_in_effect(name, rates)
                rows.append(row | _mean_of("exponent of T", _known(self.exponents(name)[reading])))
                rows.append(self._frozen_row(name, rates, reading))
        return rows

    def _frozen_row(self, name: str, rates: str, reading: str) -> dict:
        regret = self.frozen[name][rates]
        row: dict = {"data": TITLES[name], "rates": f"{reading}, weights frozen"}
        row |= {f"T = {rounds:,}": 1000 * values.mean() / rounds for rounds, values in regret.items()}
        row["models in effect at the end"] = float(len(self.problems[name][0].members))
        return row | _mean_of("exponent of T", _known(exponents(regret)))

    def _models_in_effect(self, name: str, rates: str) -> float:
        """1/Σw² after the longest run, mean over the seeds: K if nothing was learned, 1 if one model has all weight."""
        last = [run["weights"][-1] for run in self.regrets[name][rates][self.horizons[-1]]]
        return float(np.mean([1 / (weights**2).sum() for weights in last]))

    def regret_falls(self) -> list[Comparison]:
        """The regret per round from each number of rounds to the next, on each data set."""
        measured = self.by_title(
            lambda name: {reading: self._regret_of_all_seeds(name, rates) for rates, reading in online.RATES.items()}
        )
        return judge.regret_per_round_falls(measured, list(pairwise(self.horizons)))

    def regret_falls_by_learning(self) -> list[Comparison]:
        """The same beside weights that are frozen, which cannot learn, on each data set."""
        measured = self.by_title(
            lambda name: {
                reading: (self.per_client(name, rates, "regret"), self.frozen[name][rates])
                for rates, reading in online.RATES.items()
            }
        )
        return judge.regret_falls_by_learning(measured, list(pairwise(self.horizons)))

    def _regret_of_all_seeds(self, name: str, rates: str) -> dict[int, np.ndarray]:
        """The regret per client by the number of rounds, with the further seeds that serve this claim alone."""
        found = self.per_client(name, rates, "regret")
        if name != studies.FURTHER or not self.further_zoos:
            return found
        given = [online.problem(run, self.parameters) for run in self.further_zoos]
        played = {rounds: [_play_with_regret(one, rates, rounds) for one in given] for rounds in self.horizons}
        further = self._per_client(played, rates, "regret")
        return {rounds: np.concatenate([found[rounds], further[rounds]]) for rounds in self.horizons}

    def bounds(self) -> dict[str, tuple]:
        """Regret and printed bound (11): on the data sets, on random instances, and of two models."""
        cases = {}
        for name in self.problems:
            for rates, reading in online.RATES.items():
                regret, printed = (self.per_client(name, rates, column) for column in ("regret", "printed_bound"))
                per_round = [np.concatenate([one[T] / T for T in self.horizons]) for one in (regret, printed)]
                cases[f"{TITLES[name]}, rates of {reading}"] = (*per_round, 1.0)
        instances = random_instances()
        cases["random instances"] = (*([run[c][-1] for run in instances] for c in ("regret", "printed_bound")), 5 * 400)
        example = checks.two_models()
        cases["two models that only see themselves"] = (example["regret"], example["printed_bound"], 100 * 10_000)
        return cases

    # --- the budget and the graph ----------------------------------------

    @cached_property
    def by_budget(self) -> dict[str, dict[str, dict[float, np.ndarray]]]:
        """By data set, quantity and budget: MSE and α with Section IV's rates; regret and bounds with those of (12)."""
        found = {}
        rounds = self.horizons[1]
        for name, given in self.problems.items():
            printed = {B: [online.play_efl_fg(p, budget=B, theory=True) for p in given] for B in online.BUDGETS}
            theory = {B: [_play_with_regret(p, "theorem", rounds, budget=B) for p in given] for B in online.BUDGETS}
            found[TITLES[name]] = {
                "MSE": {B: online.errors_of(runs) for B, runs in printed.items()},
                "α": {B: np.array([r.final["independence"].mean() for r in runs]) for B, runs in printed.items()},
                "regret": {B: 1000 * np.array([r["regret"][-1] for r in runs]) / rounds for B, runs in theory.items()},
                "bound": {B: np.array([r["bound"][-1] for r in runs]) / rounds for B, runs in theory.items()},
                "(13)": {B: np.array([_order(r, rounds, given) for r in runs]) for B, runs in theory.items()},
            }
        return found

    def falls_with_budget(self, quantity: str, called: str) -> list[Comparison]:
        """A quantity from each budget to the next, on each data set."""
        measured = self.by_title(lambda name: self.by_budget[TITLES[name]][quantity])
        return judge.falls_with_budget(measured, online.BUDGETS, called)

    def dominating(self) -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
        """|D_t|, α(G_t) and K: on the data sets, on random instances, and on tournaments of up to 64 models."""
        cases = {}
        for name, by_rates in self.regrets.items():
            runs = [run for by_rounds in by_rates.values() for some in by_rounds.values() for run in some]
            cases[TITLES[name]] = (*_sizes(runs), len(self.problems[name][0].members))
        cases["random instances"] = (*_sizes(random_instances()), 6)
        for models in (8, 16, 32, 64):
            found = np.array([checks.tournament(seed, models) for seed in range(INSTANCES)])
            cases[f"tournaments of {models} models"] = (*found.T, models)
        return cases

    def sampled_bias(self, of: str) -> dict[str, float]:
        """Bias of (6) or (8) on the experiments' own last weights, in standard errors."""
        return {
            f"{SAMPLED:,} draws on {TITLES[name]}": checks.sampled_estimate_bias(
                given[0], self.traces[name, "EFL-FG"][0], of=of, draws=SAMPLED, seed=0
            )
            for name, given in self.problems.items()
        }

    def bound_over_trivial(self) -> dict[str, float]:
        """(11), put right, over N·T, which no regret exceeds, at the sizes of Section IV."""
        found = {}
        for name, given in self.problems.items():
            bounds = [online.play_efl_fg(one, theory=True)["bound"][-1] for one in given]
            largest = self.parameters.clients * given[0].rounds
            found[f"{TITLES[name]}, T = {given[0].rounds}: bound / (N·T)"] = float(np.mean(bounds) / largest)
        return found

    def mean_errors(self, change: Callable[[online.Problem], online.Problem] = lambda one: one, **settings) -> dict:
        """EFL-FG's mean MSE by data set, on problems that may be changed."""
        return {
            TITLES[name]: float(
                online.errors_of([online.play_efl_fg(change(one), **settings) for one in self.problems[name]]).mean()
            )
            for name in self.need()
        }


def random_instances() -> list[Trace]:
    """EFL-FG on random predictions, costs, rates and budgets."""
    return [checks.random_regret(seed) for seed in range(INSTANCES)]


def exponents(by_rounds: Mapping[int, np.ndarray]) -> np.ndarray:
    """The slope of log regret against log T, for every seed; where a regret is not positive, of the others.

    A seed with fewer than two positive regrets has no slope: NaN.
    """
    rounds, slopes = np.log(np.array(list(by_rounds))), []
    for regret in np.stack(list(by_rounds.values()), axis=1):
        positive = regret > 0
        fits = positive.sum() > 1
        slopes.append(float(np.polyfit(rounds[positive], np.log(regret[positive]), 1)[0]) if fits else np.nan)
    return np.array(slopes)


def mean_in(rows: Sequence[Mapping], **settings) -> dict[str, float]:
    """The means by data set in the first row with these settings."""
    row = next(one for one in rows if settings.items() <= one.items())
    return {title: float(row[title]) for title in TITLES.values() if title in row}


def share_of_largest(values: np.ndarray, count: int) -> float:
    """The percentage of a sum that its largest terms make."""
    return float(100 * np.sort(values)[-count:].sum() / values.sum())


def _order(run: Trace, rounds: int, given: Sequence[online.Problem]) -> float:
    return checks.order_of_regret(run.final["independence"], rounds, len(given[0].members))


def _known(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]


def _play_with_regret(given: online.Problem, rates: str, rounds: int, **settings) -> Trace:
    chosen = checks.schedule(rates, rounds, len(given.members)) | settings
    losses = online.SCHEDULES[rates]
    return online.play_efl_fg(given, rounds=rounds, replay=True, theory=True, losses=losses, **chosen)


def _as_errors(groups) -> list[tuple]:
    return [
        (extra, *([(reading, online.errors_of(runs)) for reading, runs in method] for method in methods))
        for extra, *methods in groups
    ]


def _mean_of(title: str, values: np.ndarray) -> dict[str, float]:
    if len(values) < 2:
        return {title: np.nan, f"± {title}": np.nan}
    found = verdicts.interval(values)
    return {title: found.mean, f"± {title}": found.high - found.mean}


def _closest_first(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: row["off by a factor of"])


def _excess(run: Trace) -> np.ndarray:
    return run.final["costs"] - run.final["budgets"]


def _sizes(runs: Sequence[Trace]) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.concatenate([run.final[column] for run in runs]) for column in ("dominating", "independence"))
