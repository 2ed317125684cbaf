"""The mirror maps by name and by number: the line that imports a map is all that a new one needs here.

`mirror_step` and `mirror_project` call the functions of a map by its number; `Mirror` has the names and the numbers.
"""

from fedrepro.kernels._choices import by_number, numbered
from fedrepro.kernels.mirror.base import MirrorMap
from fedrepro.kernels.mirror.entropy import ENTROPY as ENTROPY
from fedrepro.kernels.mirror.euclidean import EUCLIDEAN as EUCLIDEAN
from fedrepro.kernels.mirror.tsallis import TSALLIS as TSALLIS

MIRROR_MAPS = {value.name: value for value in list(globals().values()) if isinstance(value, MirrorMap)}
Mirror = numbered("Mirror", MIRROR_MAPS)

mirror_step = by_number(
    "mirror_step", [each.step for each in MIRROR_MAPS.values()], "origin, direction, size, moved", __name__, __file__
)
mirror_project = by_number(
    "mirror_project", [each.project for each in MIRROR_MAPS.values()], "moved", __name__, __file__
)
