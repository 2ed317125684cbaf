# Everything here works on a machine that has make, Python 3.11 or newer and a package registry; each target first
# makes .venv from requirements.lock where that is not done yet.

PAPERS  ?=
PROFILE ?= quick
JOBS    ?=
# How long `make soak` goes on.
SECONDS ?= 1200
# Options for `make lock`; --upgrade takes the newest versions instead of keeping the pins that still fit.
LOCK    ?=

BIN   := .venv/bin
READY := .venv/.ready
FEDREPRO := $(BIN)/fedrepro

jobs := $(if $(JOBS),--jobs $(JOBS))
pip  := $(BIN)/python -m pip install -qq --disable-pip-version-check

# Only the registry counts: a folder of wheels or a second index on this machine is not everybody's. The extras stay in
# the pins: of `coverage[toml]`, pinned as `coverage`, pip takes the newest release and then refuses it for its hash.
pin := env -u UV_FIND_LINKS -u UV_EXTRA_INDEX_URL -u UV_INDEX $(BIN)/uv pip compile --quiet --universal \
	--generate-hashes --no-header --no-annotate --no-strip-extras --python-version 3.11 $(LOCK) --output-file .venv/new.lock

export JUPYTER_PREFER_ENV_PATH := 1
# Bytecode is kept, also where a container's image says otherwise: .venv comes without any, and every process would
# compile what it imports, 4 seconds of a processor each.
unexport PYTHONDONTWRITEBYTECODE

# What depends on other packages most: the command line, notebooks, pages, studies, networks. (Same bits are promised for
# the versions of the lock alone.)
LOWEST_TESTS := tests/reproduction tests/models/test_networks.py tests/test_import.py

.PHONY: help reproduce full report test lowest ray soak lab notebooks bench lock clean
.DELETE_ON_ERROR:

help: ## say what there is (the default)
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST) | expand -t 18
	@echo 'Variables: PAPERS="fedboost" (all papers), PROFILE=full (quick), JOBS=2 (all cores), PYTHON=python3.12, SECONDS=300 (1200).'

reproduce: $(READY) ## run the papers and write out/<profile>/index.html
	@$(FEDREPRO) reproduce $(PAPERS) --profile $(PROFILE) $(jobs)

full: PROFILE = full
full: reproduce ## the same at the papers' own sizes (hours; goes on where it was stopped)

report: $(READY) ## write the pages: the committed full runs, and your own run beside them
	@$(FEDREPRO) report --profile $(PROFILE)

test: $(READY) .venv-bench/.ready ## everything that CI checks, with a store and a cache of its own
	@$(BIN)/python tools/check.py

lowest: .venv-lowest/.ready ## test with the lowest versions that pyproject.toml allows (minutes; not a part of CI)
	@.venv-lowest/bin/python -m pytest -q $(LOWEST_TESTS)

ray: .venv-bench/.ready ## the strategies for Flower on its own simulation engine, with Ray (minutes; not a part of CI)
	@.venv-bench/bin/python tools/on_ray.py

soak: $(READY) ## kill, stop, damage and confuse a small run for SECONDS (1200), and count what that breaks
	@$(BIN)/python tools/soak.py $(SECONDS)

lab: $(READY) ## open JupyterLab on a copy of the notebooks, out/lab, at start.ipynb
	@$(FEDREPRO) lab

notebooks: $(READY) ## refresh the outputs that the papers' notebooks are committed with
	@$(FEDREPRO) notebooks $(PAPERS) $(jobs)

bench: $(READY) .venv-bench/.ready ## measure ours against plain counterparts, Flower, FedJAX and the machine's limits
	@$(FEDREPRO) bench

lock: $(READY) ## pin the dependencies of pyproject.toml again and write environment.yml (LOCK=--upgrade: newest versions)
	@echo "Writing requirements.lock, requirements-bench.lock and environment.yml ..."
	@cp requirements.lock .venv/new.lock
	@$(pin) --extra test pyproject.toml
	@# A lock that did not change keeps its time, and .venv with it.
	@cmp -s .venv/new.lock requirements.lock || cp .venv/new.lock requirements.lock
	@cp requirements-bench.lock .venv/new.lock
	@$(pin) --extra bench pyproject.toml
	@cmp -s .venv/new.lock requirements-bench.lock || cp .venv/new.lock requirements-bench.lock
	@$(BIN)/python tools/environment.py

clean: ## remove .venv, .venv-bench, .venv-lowest, out and what the tools leave in this folder (not out/lab, nor your cache of data and trials)
	@rm -rf .venv .venv-bench .venv-lowest build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .coverage
	@# out/lab holds what somebody has written.
	@[ ! -d out ] || find out -mindepth 1 -maxdepth 1 ! -name lab -exec rm -rf {} +
	@rmdir out 2>/dev/null || true
	@find . -name __pycache__ -prune -exec rm -rf {} +
	@find . -path ./out -prune -o -name .ipynb_checkpoints -prune -exec rm -rf {} +

# A new lock makes a new environment: nothing that is no longer pinned stays in it.
.venv/.locked: requirements.lock tools/install-lock
	@python=$$(sh tools/find-python "$(PYTHON)") || exit 2; \
		echo "Making .venv with $$python and the packages of requirements.lock ..."; \
		"$$python" -m venv --clear .venv
	@sh tools/install-lock .venv requirements.lock
	@touch $@

# setuptools is in the lock, so the build fetches nothing.
$(READY): .venv/.locked pyproject.toml setup.py
	@echo "Installing fedrepro into .venv from this folder ..."
	@$(pip) --no-deps --no-build-isolation --editable .
	@touch $@

# The lowest version of what is named in pyproject.toml, the newest of what these need: whoever has an older package than
# the lock meets this. Python is the oldest that is supported, where it is there.
.venv-lowest/.ready: pyproject.toml setup.py $(READY)
	@python=$$(sh tools/find-python "$(or $(PYTHON),$(shell command -v python3.11))") || exit 2; \
		echo "Making .venv-lowest with $$python and the lowest versions that are allowed ..."; \
		"$$python" -m venv --clear .venv-lowest
	@$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable '.[test]'
	@touch $@

# Flower pins packages of which requirements.lock has newer versions. Where this environment cannot be made, the benchmark
# and the tests say so and do the rest; the next `make` tries again.
.venv-bench/.ready: requirements-bench.lock pyproject.toml setup.py tools/install-lock
	@python=$$(sh tools/find-python "$(PYTHON)") || exit 2; \
		echo "Making .venv-bench with Flower and FedJAX, for the benchmark and the tests of the strategies ..."; \
		"$$python" -m venv --clear .venv-bench && sh tools/install-lock .venv-bench requirements-bench.lock \
		&& .venv-bench/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable . \
		&& touch $@ || { \
		echo "Flower and FedJAX could not be installed; this goes on without them."; rm -rf .venv-bench; }
