# Two commands: `make run` measures this machine and serves the dashboard; `make test` tests everything.
# Both set themselves up; a second call installs nothing.

PYTHON ?= python3
SUITE  ?= quick
STORE  ?= observatory-data
PORT   ?= 8501
SERVE  ?= 1
# Processes that run tests side by side.
JOBS   ?= 2

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help run demo test test-long lint format clean
.DEFAULT_GOAL := help

help:                      ## What there is to make
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

run: .venv/.node-host .venv/.compiled-$(SUITE)  ## Measure this machine, judge it, serve the dashboard (SERVE=0: do not serve)
	$(BIN)/collector run --suite $(SUITE) --store $(STORE)
ifeq ($(SERVE),1)
	$(BIN)/collector dashboard --store $(STORE) --port $(PORT)
endif

demo: .venv/.node-host     ## A simulated fleet, judged, in a store of its own, and the dashboard on it
	rm -rf observatory-demo
	$(BIN)/collector demo --store observatory-demo
ifeq ($(SERVE),1)
	$(BIN)/collector dashboard --store observatory-demo --port $(PORT)
endif

# A file stays on one process, so that what its tests share is made once.
test: .venv/.dev           ## All tests but the hour-long ones
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not long"

test-long: .venv/.dev      ## The hour-long tests, and property tests on examples not drawn before
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -q -m "long or hypothesis"

lint: .venv/.dev           ## Style, types and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev         ## Put the code into its form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:                     ## Remove the environment; stores are left alone
	rm -rf .venv

$(BIN)/python:
	$(PYTHON) -m venv .venv

# torch first and by its exact version: a bare `torch` may bring a CUDA build of several gigabytes.
.venv/.node-host: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) --editable '.[node,host]'
	touch $@

.venv/.compiled-$(SUITE): .venv/.node-host
	$(BIN)/collector run --suite $(SUITE) --prepare-only
	touch $@

.venv/.dev: .venv/.node-host
	$(PIP) --editable '.[node,host,fleet,dev]'
	bash tests/ensure_chromium.sh
	touch $@
