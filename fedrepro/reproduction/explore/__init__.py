"""Explorers: a paper's own parameters as controls, and a picture that follows them.

``papers/<key>/explorer.py`` declares the `CONTROLS` and one function, ``draw``, from their values to a drawing
(`Scene`). Where somebody sits at the notebook, `explore` shows sliders; where nobody does (papermill, nbval, a page, a
code host) the same cell shows the same picture without them.
"""

from fedrepro.reproduction.explore.controls import Choice, Slider
from fedrepro.reproduction.explore.explorer import Explorer, explore, shown
from fedrepro.reproduction.explore.scene import Scene

__all__ = ["Choice", "Explorer", "Scene", "Slider", "explore", "shown"]
