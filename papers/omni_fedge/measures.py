"""From the runs of Omni-Fedge to the rows of its tables and the values that its claims compare."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedrepro.papers.omni_fedge import claims as judge
from fedrepro.papers.omni_fedge import studies
from fedrepro.papers.omni_fedge.trials import FAIR, FEDSGD, LOCAL, OF_THE_CODE, OMNI_FEDGE, PRINTED, RELEASED
from fedrepro.reproduction import verdicts
from fedrepro.reproduction.paper import declaration
from fedrepro.reproduction.paper.judging import number
from fedrepro.reproduction.study.runs import Runs, at_hand
from fedrepro.reproduction.verdicts import Comparison

METHODS = (OMNI_FEDGE, FEDSGD, LOCAL)
OTHERS = {FEDSGD: "FedSGD", LOCAL: "local training"}
FROM_SCRATCH = [panel for panel in studies.PANELS if panel[1] == "noniid"]
READ_OFF = [panel for panel in studies.PANELS if panel != ("mnist", "iid")]  # whose plot has one axis label
RELEASED_TARGET = 85  # percent on non-i.i.d. MNIST, to which rounds can be read off the released plot
TERMS = ("objective", "complexity", "printed_deviation", "deviation", "largest loss", "bound", "risk")

LENGTH, MEASURED_ON = "local-training", "local-accuracy"  # axes of readings

Panel = tuple[str, str]


def title_of(panel: Panel) -> str:
    """What a panel is called."""
    data_set, split = panel
    return f"{studies.TITLES[data_set]} {studies.SPLIT_TITLES[split]}"


def shares_of(setting: str, losses: np.ndarray) -> np.ndarray:
    """What a setting makes of a matrix of losses."""
    form = {"weights": "inverse", "rows": "network"} | ({} if setting == PRINTED else OF_THE_CODE)
    return judge.shares_of(losses, form["weights"], form["rows"])


class Figure1:
    """The runs of the four panels.

    Parameters
    ----------
    runs
        Panel to its runs.
    longer
        Data set to the runs of longer local training.
    parameters
        The notebook's parameters.
    """

    def __init__(self, runs: Mapping[Panel, Runs], longer: Mapping[str, Runs], parameters: Any):
        self.runs = runs
        self.longer = longer
        self.parameters = parameters
        self.targets = {"mnist": parameters.mnist_accuracy, "fmnist": parameters.fmnist_accuracy}

    def values(self, panel: Panel, setting: str, method: str, what: str = "test") -> np.ndarray:
        """A column of a method, seeds × rounds; of local training what it ends at, one value per seed.

        As printed and on equal terms FedSGD and local training are the same.
        """
        owner = setting if method == OMNI_FEDGE or setting == RELEASED else FAIR
        name = f"{owner}/{method}/{what}"
        return self.runs[panel].final(name) if method == LOCAL else self.runs[panel].column(name)

    def end(self, panel: Panel, setting: str, method: str, what: str = "test") -> np.ndarray:
        """The mean over the last tenth of the rounds, one value per seed."""
        found = self.values(panel, setting, method, what)
        return found if method == LOCAL else judge.at_the_end(self.runs[panel].rounds, found)

    def gap(self, panel: Panel, setting: str, method: str) -> np.ndarray:
        """Training less test accuracy at the end, one value per seed."""
        return self.end(panel, setting, method, "train") - self.end(panel, setting, method)

    def after_longer(self, panel: Panel, what: str = "test") -> np.ndarray:
        """What local training of ten times as many steps ends at, one value per seed."""
        data_set, split = panel
        return self.longer[data_set].select(split=split).column(what)[:, 0]

    def rounds_to(
        self, panel: Panel, setting: str, method: str, target: float | np.ndarray | None = None
    ) -> np.ndarray:
        """Rounds to the accuracy that is asked for, one value per seed; all rounds where it is never reached."""
        level = self.targets[panel[0]] if target is None else target
        needed = judge.rounds_to(level, self.runs[panel].rounds, self.values(panel, setting, method))
        return np.minimum(needed, float(self.parameters.rounds))

    # --- curves -----------------------------------------------------------------------------------------------------

    def curves(self, panel: Panel, parts) -> dict:
        """Setting to method to part to values."""
        return {
            setting: {m: {part: self.values(panel, setting, m, part) for part in parts} for m in METHODS}
            for setting in studies.SETTINGS
        }

    def rounds_by_level(self) -> tuple[dict, dict]:
        """For each case the rounds to growing accuracies, of each method, and the accuracy that is asked for."""
        cases, targets = {}, {}
        for panel in at_hand({panel: self.runs[panel] for panel in FROM_SCRATCH}):
            levels = np.arange(min(40, self.targets[panel[0]] - 6), 98, 3)
            for setting in studies.SETTINGS:
                case = f"{title_of(panel)}, {setting}"
                targets[case] = self.targets[panel[0]]
                cases[case] = {m: (levels, self._rounds(panel, setting, m, levels)) for m in (OMNI_FEDGE, FEDSGD)}
        return cases, targets

    def _rounds(self, panel: Panel, setting: str, method: str, levels: np.ndarray) -> np.ndarray:
        accuracies = self.values(panel, setting, method)
        return np.stack([judge.rounds_to(level, self.runs[panel].rounds, accuracies) for level in levels], axis=1)

    # --- tables -----------------------------------------------------------------------------------------------------

    def samples(self, published: Mapping[str, list[int]]) -> Iterator[dict]:
        """Samples per node, beside those that are printed."""
        for panel, runs in at_hand(self.runs).items():
            row: dict[str, Any] = {"panel": title_of(panel)}
            for part in ("train", "test"):
                sizes = runs.final(f"{part}_sizes")
                printed = published[part][studies.PANELS.index(panel)]
                row |= {f"{part}, published": printed, f"{part}, node 0": sizes[:, 0].mean()}
                row |= {f"{part}, all nodes": sizes.mean(), f"{part}, from": int(sizes.min())}
                row |= {f"{part}, to": int(sizes.max())}
            yield row

    def released(self) -> dict[str, np.ndarray | None]:
        """What was read off the released plots: our values, one per seed; None where the data cannot be had."""
        found = {}
        for panel in READ_OFF:
            cells = {f"{m} test": (m, "test") for m in METHODS} | {"local all images": (LOCAL, "all images")}
            for cell, (method, what) in cells.items():
                here = self.end(panel, RELEASED, method, what) if self.runs[panel] else None
                found[f"{title_of(panel)}, {cell}"] = here
        panel = ("mnist", "noniid")
        for method in (OMNI_FEDGE, FEDSGD):
            here = self.rounds_to(panel, RELEASED, method, RELEASED_TARGET) if self.runs[panel] else None
            found[f"{title_of(panel)}, rounds to {RELEASED_TARGET} %, {method}"] = here
        return found

    def released_rows(self) -> Iterator[dict]:
        """The same beside what was read off, with the place of each value in what our seeds predict for one run."""
        at_hand(self.runs)
        read_off = declaration("omni_fedge").tables["released-values"].numbers
        for cell, sample in self.released().items():
            if sample is not None:
                held = number(read_off[cell], sample)
                yield {
                    "what": cell,
                    "read off": held.published,
                    "mean of our runs": held.mean,
                    "one run of ours, from": held.low,
                    "to": held.high,
                    "off by": held.published - held.mean,
                    "near": read_off[cell].near,
                    "place": held.place,
                }

    def ends(self) -> Iterator[dict]:
        """Training and test accuracy at the end, and the gap."""
        for panel in at_hand(self.runs):
            for setting in studies.SETTINGS:
                for method in METHODS:
                    row = {"panel": title_of(panel), "setting": setting, "method": method}
                    train, test = (self.end(panel, setting, method, part) for part in ("train", "test"))
                    for what, sample in {"train": train, "test": test, "gap": train - test}.items():
                        interval = verdicts.interval(sample)
                        row |= {what: interval.mean, f"± {what}": interval.high - interval.mean}
                    yield row

    def communication(self) -> Iterator[dict]:
        """Scalars of a round, and until the accuracy that is asked for."""
        panel = next(iter(at_hand({panel: self.runs[panel] for panel in FROM_SCRATCH})))
        for setting in studies.SETTINGS:
            for method in (OMNI_FEDGE, FEDSGD):
                sent, received = (
                    self.values(panel, setting, method, way)[0, -1] / self.parameters.rounds
                    for way in ("sent", "received")
                )
                until = self.rounds_to(panel, setting, method).mean()
                yield {
                    "setting": setting,
                    "method": method,
                    "sent in a round": sent,
                    "received in a round": received,
                    f"rounds to {self.targets[panel[0]]} %": until,
                    "scalars until then": until * (sent + received),
                }

    def bound(self) -> list[dict]:
        """The terms of Theorem 1 for the last networks of Algorithm 1."""
        return [
            {"panel": title_of(panel)} | {term.replace("_", " "): runs.final(f"bound/{term}").mean() for term in TERMS}
            for panel, runs in at_hand(self.runs).items()
        ]

    # --- claims -----------------------------------------------------------------------------------------------------

    def beats(self, panel: Panel, other: str) -> list[Comparison]:
        """Omni-Fedge against FedSGD, or against local training of either length, on test data at the end."""
        if other == FEDSGD:
            return self._beats_fedsgd(panel, "test")
        found = []
        for length, theirs in self._local_ends(panel, "test").items():
            pairs = {s: (self.end(panel, s, OMNI_FEDGE), theirs[s]) for s in studies.SETTINGS}
            found += judge.beats(pairs, OTHERS[LOCAL], title_of(panel), {LENGTH: length})
        return found

    def training_beats(self, other: str) -> list[Comparison]:
        """The same on training data, in all panels; as released also by what the code calls local training accuracy."""

        def compare(panel):
            if other == FEDSGD:
                return self._beats_fedsgd(panel, "train")
            found = []
            for further, theirs in self._local_training_accuracies(panel):
                pairs = {s: (self.end(panel, s, OMNI_FEDGE, "train"), values) for s, values in theirs.items()}
                found += judge.beats(pairs, OTHERS[LOCAL], title_of(panel), further)
            return found

        return self._in(studies.PANELS, compare)

    def _beats_fedsgd(self, panel: Panel, part: str) -> list[Comparison]:
        pairs = {s: (self.end(panel, s, OMNI_FEDGE, part), self.end(panel, s, FEDSGD, part)) for s in studies.SETTINGS}
        return judge.beats(pairs, OTHERS[FEDSGD], title_of(panel))

    def _local_ends(self, panel: Panel, part: str) -> dict[str, dict[str, np.ndarray]]:
        """Length of local training to setting to what it ends at."""
        longer = self.after_longer(panel, part)
        return {
            judge.OF_THE_EXPERIMENT: {s: self.end(panel, s, LOCAL, part) for s in studies.SETTINGS},
            judge.LONGER: dict.fromkeys(studies.SETTINGS, longer),
        }

    def _local_training_accuracies(self, panel: Panel) -> Iterator[tuple[dict[str, str], dict[str, np.ndarray]]]:
        """Every reading of local training's training accuracy, but for the experiment, with its values by setting."""
        for length, by_setting in self._local_ends(panel, "train").items():
            yield {LENGTH: length, MEASURED_ON: judge.TRAINING_IMAGES}, by_setting
        of_the_code = {RELEASED: self.end(panel, RELEASED, LOCAL, "all images")}
        yield {LENGTH: judge.OF_THE_EXPERIMENT, MEASURED_ON: judge.ALL_IMAGES}, of_the_code

    def smaller_gaps(self) -> list[Comparison]:
        """Omni-Fedge loses less between training and test data than the other methods, in all panels."""
        found = []
        for panel in studies.PANELS:
            for other, compare in ((FEDSGD, self._smaller_than_fedsgd), (LOCAL, self._smaller_than_local)):
                setting = f"{title_of(panel)}, {OTHERS[other]}"
                found += verdicts.if_available(
                    setting, lambda panel=panel, setting=setting, compare=compare: compare(panel, setting)
                )
        return found

    def _smaller_than_fedsgd(self, panel: Panel, setting: str) -> list[Comparison]:
        pairs = {s: (self.gap(panel, s, OMNI_FEDGE), self.gap(panel, s, FEDSGD)) for s in studies.SETTINGS}
        return judge.smaller_gap(pairs, OTHERS[FEDSGD], setting)

    def _smaller_than_local(self, panel: Panel, setting: str) -> list[Comparison]:
        tests, found = self._local_ends(panel, "test"), []
        for further, trains in self._local_training_accuracies(panel):
            pairs = {
                s: (self.gap(panel, s, OMNI_FEDGE), train - tests[further[LENGTH]][s]) for s, train in trains.items()
            }
            found += judge.smaller_gap(pairs, OTHERS[LOCAL], setting, further)
        return found

    def fewer_rounds(self) -> list[Comparison]:
        """Omni-Fedge needs fewer rounds than FedSGD, in the panels that start from scratch."""

        def compare(panel):
            found = []
            for level in (judge.ASKED_FOR, judge.END_OF_FEDSGD):
                pairs = {}
                for s in studies.SETTINGS:
                    target = self.end(panel, s, FEDSGD) if level == judge.END_OF_FEDSGD else None
                    pairs[s] = tuple(self.rounds_to(panel, s, m, target) for m in (OMNI_FEDGE, FEDSGD))
                found += judge.fewer_rounds(pairs, level, title_of(panel))
            return found

        return self._in(FROM_SCRATCH, compare)

    def equal_weights(self, tolerance: float) -> list[Comparison]:
        """Weights under i.i.d. data."""

        def compare(panel):
            rounds = self.runs[panel].rounds
            unequal = {
                setting: [
                    judge.deviation_from_equal(judge.mean_shares(rounds, run))
                    for run in self.values(panel, setting, OMNI_FEDGE, "shares")
                ]
                for setting in studies.SETTINGS
            }
            return judge.equal_weights(unequal, tolerance, title_of(panel))

        return self._in([panel for panel in studies.PANELS if panel[1] == "iid"], compare)

    def _in(self, panels, compare) -> list[Comparison]:
        return [
            one
            for panel in panels
            for one in verdicts.if_available(title_of(panel), lambda panel=panel: compare(panel))
        ]

    # --- errata and choices -----------------------------------------------------------------------------------------

    def rounds_on_iid(self) -> dict[str, dict[str, float]]:
        """Rounds to the accuracy that is asked for in the i.i.d. panels, where they start from scratch."""
        panels = {panel: runs for panel, runs in self.runs.items() if panel not in FROM_SCRATCH}
        return {
            f"{title_of(panel)}, {setting}": {
                method: float(self.rounds_to(panel, setting, method).mean()) for method in (OMNI_FEDGE, FEDSGD)
            }
            for panel in at_hand(panels)
            for setting in (PRINTED, FAIR)
        }

    def lengths_of_local_training(self) -> dict[str, dict[str, float]]:
        """Test accuracies of local training by its length."""
        return {
            title_of(panel): {
                "as released": float(self.end(panel, RELEASED, LOCAL).mean()),
                "as many steps as rounds": float(self.end(panel, FAIR, LOCAL).mean()),
                judge.LONGER: float(self.after_longer(panel).mean()),
            }
            for panel in at_hand(self.runs)
        }

    def by_start(self, starts: Runs) -> dict[str, float]:
        """Test accuracies of the code's methods on MNIST from either start."""
        found = {}
        for split in studies.SPLITS:
            for method in (OMNI_FEDGE, FEDSGD):
                usual = self.values(("mnist", split), RELEASED, method)[: self.parameters.side_seeds, -1]
                other = starts.select(split=split, method=method).column("test")[:, -1]
                for start, sample in ((studies.usual_start(split), usual), (studies.other_start(split), other)):
                    found[f"{title_of(('mnist', split))}, {method}, {start}"] = float(sample.mean())
        return found

    def scalars(self) -> dict[str, float]:
        """Scalars of a round, by method and setting."""
        return {
            f"{row['method']}, {row['setting']}": float(row["sent in a round"] + row["received in a round"])
            for row in self.communication()
        }

    def two_fedsgds(self) -> dict[str, dict[str, float]]:
        """Test accuracies of the FedSGD of the code and of that of the paper."""
        kinds = {"never merged": RELEASED, "one network, from scratch": FAIR}
        return {
            title_of(panel): {name: float(self.end(panel, setting, FEDSGD).mean()) for name, setting in kinds.items()}
            for panel in at_hand(self.runs)
        }

    def steps_of_local_training(self) -> dict[str, dict[str, float]]:
        """How many steps the code's local training takes, and what it and as many steps as rounds end at."""
        found = {}
        for panel, runs in at_hand(self.runs).items():
            each = float(np.ceil(runs.final("train_sizes") / self.parameters.local_samples).mean())
            found[title_of(panel)] = {
                "steps in an epoch": each,
                "in all": each * self.parameters.local_epochs,
                "test accuracy": float(self.end(panel, RELEASED, LOCAL).mean()),
                "with as many steps as rounds": float(self.end(panel, FAIR, LOCAL).mean()),
            }
        return found

    def accuracies_of_local_training(self) -> dict[str, dict[str, float]]:
        """On training images, on all, and on test images."""
        parts = ("train", "all images", "test")
        return {
            title_of(panel): {part: float(self.end(panel, RELEASED, LOCAL, part).mean()) for part in parts}
            for panel in at_hand(self.runs)
        }


# --- weights ----------------------------------------------------------------------------------------------------------


def maps(digits: Runs) -> dict[str, list[tuple[str, np.ndarray]]]:
    """Shares of the first seed, for i.i.d. digits and for two groups."""
    found = {}
    for split, label in (("iid", "i.i.d."), ("groups", "two groups")):
        ours, theirs = (digits.select(split=split, setting=setting)[0].trace for setting in (PRINTED, RELEASED))
        reached = ours["round"].astype(int)
        late = f"rounds {reached[-2] + 1} to {reached[-1]}"
        found[label] = [
            (f"as printed\nrounds 1 to {reached[1]}", ours["shares"][1]),
            (f"as printed\n{late}", ours["shares"][-1]),
            ("as printed\ntest images, at the end", shares_of(PRINTED, ours.final["test_losses"])),
            (f"as released\n{late}", theirs["shares"][-1]),
        ]
    return found


def own_shares(digits: Runs) -> Iterator[dict]:
    """What a node's own data weigh under i.i.d. data, by the images on which losses are measured."""
    for setting in (PRINTED, RELEASED):
        traces = [run.trace for run in digits.select(split="iid", setting=setting)]
        measured_on = {
            "the images of late rounds": [trace["shares"][-1] for trace in traces],
            "all training images, at the end": [shares_of(setting, trace.final["losses"]) for trace in traces],
            "test images, at the end": [shares_of(setting, trace.final["test_losses"]) for trace in traces],
        }
        for images, shares in measured_on.items():
            interval = verdicts.interval([judge.own_share(one) for one in shares])
            yield {
                "weights": setting,
                "losses on": images,
                "own node": interval.mean,
                "± own node": interval.high - interval.mean,
                "farthest pair from 1": np.mean([judge.deviation_from_equal(one) for one in shares]),
            }


def higher_weights(digits: Runs, parameters: Any) -> list[Comparison]:
    """Shares within a group and across groups; from scratch the setting fair has the weights of as released."""
    groups = [int(node >= parameters.first_group) for node in range(parameters.nodes)]
    grouped = {}
    for setting in studies.SETTINGS:
        runs = digits.select(split="groups", setting=PRINTED if setting == PRINTED else RELEASED)
        shares = [judge.mean_shares(runs.rounds, run.trace["shares"]) for run in runs]
        grouped[setting] = tuple(zip(*(judge.within_and_across(one, groups) for one in shares), strict=True))
    return judge.higher_weights(grouped, "two groups of digits")


def deviations(runs: Runs, parameters: Any, *names: str) -> dict[str, dict[str, float | str]]:
    """Test accuracies where one thing of Algorithm 1 is changed."""
    found: dict[str, float | str] = {}
    for name in names:
        wanted = studies.settings_of_a_deviation(name, parameters)
        chosen = [run for run in runs if dict(run.settings) == wanted]
        last = np.array([run.trace["test"][-1] for run in chosen])
        lost = int((~np.isfinite(last)).sum())
        found[name] = f"the loss grew beyond all bounds in {lost} of {last.size} seeds" if lost else float(last.mean())
    return {"test accuracy": found}
