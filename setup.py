"""Lists the packages: `kernels/` and `papers/` live at the top of the repository and ship inside `fedrepro`."""

from setuptools import find_packages, setup

own = find_packages(include=["fedrepro", "fedrepro.*"])
grafted = [f"fedrepro.{name}" for name in find_packages(include=["kernels", "kernels.*", "papers", "papers.*"])]
setup(packages=own + grafted)
