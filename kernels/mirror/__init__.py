"""Mirror maps of mirror descent on the simplex: one file each, and one line in `maps`."""

from fedrepro.kernels.mirror.maps import MIRROR_MAPS, Mirror, mirror_project, mirror_step

__all__ = ["MIRROR_MAPS", "Mirror", "mirror_project", "mirror_step"]
