# Two commands: `make report` does the main job, `make test` checks everything. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help install report test lint types imports tests docs conformance gpu fuzz clean

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  if command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

help: ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(VENV)/.installed ## create .venv with a working .venv/bin/attenio

report: install ## the main job on the default workload: tables here, plots in report.html
	$(BIN)/attenio report --out report.html

test: lint types imports tests docs ## lint, types, import contracts, tests, doctests

lint: $(VENV)/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.developing
	$(BIN)/mypy

imports: $(VENV)/.developing
	$(BIN)/lint-imports --no-cache

tests: $(VENV)/.developing
	$(BIN)/pytest -n 2

docs: $(VENV)/.developing
	$(BIN)/sphinx-build -q -W --keep-going -b doctest docs docs/_build/doctest
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

conformance: $(VENV)/.developing ## every decoder of the installed transformers beside its eager attention, by name
	$(BIN)/pytest -n 2 -q --no-header tests/conformance/every_architecture.py

gpu: $(VENV)/.developing ## tests that need a Hopper GPU, in eight processes
	pids=(); for share in 1 2 3 4 5 6 7 8; do $(BIN)/pytest tests/on_gpu --share $$share/8 & pids+=($$!); done; \
	failed=0; for pid in "$${pids[@]}"; do wait "$$pid" || failed=1; done; exit $$failed

fuzz: $(VENV)/.developing ## random calls of attention() against the definition: make fuzz TIME=600 SEED=7
	$(BIN)/python -m attenio.measurement.fuzz --seconds $(or $(TIME),60) --seed $(or $(SEED),0)

clean: ## remove what make made
	rm -rf $(VENV) docs/_build report.html

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then echo "attenio needs Python 3.11 or newer and found none; install one, or run make PYTHON=/path/to/python" >&2; exit 2; fi
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[report,parquet,pebble,approximation]'
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	$(PIP) --editable '.[report,parquet,pebble,approximation,torch,cpu,triton,transformers,docs,dev]'
	@touch $@
