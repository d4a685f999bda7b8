# Every target that needs the environment makes it first; `make setup` is a no-op when it is current.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RQ := $(BIN)/retrieval-quality
export RQ_LANDING ?= landing
export RQ_WAREHOUSE ?= warehouse/retrieval_quality.duckdb
export RQ_PUBLISHED ?= published

.PHONY: help setup run demo nightly doctor drill freshness alert publish rollback purge test test-slow bench lint format lock clean

help: ## what can be made (default)
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/' | expand -t 12

setup: $(READY) ## the environment, in .venv

$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: $$($(PYTHON) --version) is too old, Python >= 3.11 is needed (PYTHON=python3.12 make ...)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: $(READY) demo ## land the demo, one night, print what it says
	@# the demo ends with a regression: 1 says that its verdict is breached
	$(RQ) nightly --vars '{as_of: "2026-11-30T00:00:00Z"}' || [ $$? -eq 1 ]

demo: $(READY) ## land the demo: "ask the Python docs" (traffic and feedback are simulated)
	$(RQ) demo

nightly: $(READY) ## one night on RQ_LANDING: check what landed, build, publish, alert
	$(RQ) nightly

doctor: $(READY) ## what your data lack to produce each mart
	$(RQ) doctor

drill: $(READY) ## break the demo's retriever on purpose: does the alert fire? (docs/drill.md)
	$(RQ) drill

freshness: $(READY) ## has anything landed lately? (dbt source freshness)
	$(BIN)/dbt source freshness --profiles-dir profiles

alert: $(READY) ## alert by the current publication again: sends what has not arrived
	$(RQ) alert

publish: $(READY) ## publish the warehouse again as it is
	$(RQ) publish

rollback: $(READY) ## point `current` at the version before
	$(RQ) rollback

purge: $(READY) ## drop raw rows older than retention_days (docs/operations.md)
	$(RQ) purge

test: $(READY) ## everything CI runs
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow'

test-slow: $(READY) ## simulations and exhaustive runs
	$(BIN)/python -m pytest -m slow

bench: $(READY) ## measure everything on this machine, write docs/benchmarks.md
	$(BIN)/python benchmarks/run.py

lint: $(READY) ## ruff, mypy, sqlfluff
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/sqlfluff lint --processes 2 models tests/data

format: $(READY) ## let the linters mend what they can
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/sqlfluff fix --processes 2 models tests/data

lock: ## resolve the dependencies again (needs uv)
	uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras --generate-hashes \
		--quiet --no-emit-index-url --no-header --no-strip-extras -o constraints.txt

clean: ## remove what is made, not the landing folder
	rm -rf $(VENV) target logs warehouse published
