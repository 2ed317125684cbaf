"""What can be moved in an explorer: numbers on a slider, and choices."""

import math
from dataclasses import dataclass
from typing import Any

from fedrepro.errors import UserError


@dataclass(frozen=True)
class Choice:
    """One of several values.

    Parameters
    ----------
    name
        As ``draw`` calls it.
    options
        The values; the first is where it starts.
    label
        What stands beside it.
    """

    name: str
    options: tuple[Any, ...]
    label: str

    @property
    def start(self) -> Any:
        """Where it stands at first."""
        return self.options[0]

    def accept(self, value: Any) -> Any:
        """The value, or a `UserError` that says what there is."""
        if value not in self.options:
            there = ", ".join(repr(one) for one in self.options)
            raise UserError(f"The control {self.name!r} has no position {value!r}: choose from {there}.")
        return value

    def widget(self, value: Any):
        """The control in a notebook."""
        from ipywidgets import Dropdown

        return Dropdown(options=self.options, value=value, description=self.label)


@dataclass(frozen=True)
class Slider:
    """A number between two ends.

    Parameters
    ----------
    name
        As ``draw`` calls it.
    start, low, high
        Where it stands at first, and its ends.
    label
        What stands beside it.
    step
        Between two positions; on a logarithmic slider, in powers of ten.
    log
        Whether it is logarithmic.
    """

    name: str
    start: float
    low: float
    high: float
    label: str
    step: float = 1
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether its positions are whole numbers."""
        return not self.log and all(isinstance(one, int) for one in (self.start, self.low, self.high, self.step))

    def accept(self, value: Any) -> float:
        """The value, or a `UserError` that names the ends."""
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not self.low <= value <= self.high or (self.whole and value != int(value)):
            kind = "a whole number" if self.whole else "a number"
            raise UserError(
                f"The control {self.name!r} takes {kind} from {self.low:g} to {self.high:g}, and {value!r} is not one."
            )
        return int(value) if self.whole else float(value)

    def widget(self, value: float):
        """The control in a notebook."""
        import ipywidgets

        if self.log:
            # The browser counts positions from the lower end: it lies so that the start is one of them.
            start = math.log10(self.start)
            below = math.floor((start - math.log10(self.low)) / self.step + 1e-9)
            ends = {"min": start - below * self.step, "max": math.log10(self.high)}
            return ipywidgets.FloatLogSlider(
                value=value, base=10, step=self.step, readout_format=".2g", description=self.label, **ends
            )
        kind = ipywidgets.IntSlider if self.whole else ipywidgets.FloatSlider
        return kind(value=value, min=self.low, max=self.high, step=self.step, description=self.label)
