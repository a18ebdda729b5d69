# Two commands: `make report` does the main job, `make test` checks everything. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help install report test steps lint types imports tests docs versions conformance gpu fuzz pictures clean

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  if command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
# How long `make test` takes, as measured once everything is installed; renew it when the tests grow.
TEST_MINUTES := 10
TEST_CORES := 2
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

help: ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(VENV)/.installed ## create .venv with a working .venv/bin/attenio

report: install ## the main job on the default workload: tables here, plots in report.html
	$(BIN)/attenio report --out report.html

test: $(VENV)/.developing ## lint, types, import contracts, tests, doctests
	@echo "make test: up to $(TEST_MINUTES) minutes on $(TEST_CORES) cores; begun at $$(date +%H:%M:%S)"
	@$(MAKE) --no-print-directory steps
	@echo "make test: passed at $$(date +%H:%M:%S)"

steps: lint types imports tests docs

lint: $(VENV)/.developing
	@echo "1 of 5: style, seconds"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.developing
	@echo "2 of 5: types, a minute at first"
	$(BIN)/mypy

imports: $(VENV)/.developing
	@echo "3 of 5: imports, seconds"
	$(BIN)/lint-imports --no-cache

tests: $(VENV)/.developing
	@echo "4 of 5: tests, most of the time; the share that is done stands at the end of each line"
	$(BIN)/pytest -n $(TEST_CORES)

docs: $(VENV)/.developing
	@echo "5 of 5: documentation and what it computes, a minute or two"
	$(BIN)/sphinx-build -q -W --keep-going -b doctest docs docs/_build/doctest
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

conformance: $(VENV)/.developing ## every decoder of the installed transformers beside its eager attention, by name
	$(BIN)/pytest -n 2 -q --no-header tests/conformance/every_architecture.py

versions: $(VENV)/.developing ## every command with the oldest and the newest versions of other packages, in fresh environments
	$(BIN)/python tests/environments/versions.py

gpu: $(VENV)/.developing ## tests that need a Hopper GPU, in eight processes
	pids=(); for share in 1 2 3 4 5 6 7 8; do $(BIN)/pytest tests/on_gpu --share $$share/8 & pids+=($$!); done; \
	failed=0; for pid in "$${pids[@]}"; do wait "$$pid" || failed=1; done; exit $$failed

fuzz: $(VENV)/.developing ## random calls of attention() against the definition: make fuzz TIME=600 SEED=7
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(or $(TIME),60) --seed $(or $(SEED),0)

pictures: $(VENV)/.installed ## draw the pictures of the README and the documentation again
	grep '^\$$ attenio' docs/pictures/README.md | sed 's/^. //' | while read -r line; do $(BIN)/$$line; done

clean: ## remove what make made
	rm -rf $(VENV) docs/_build report.html

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then echo "attenio needs Python 3.11 or newer and found none; install one, or run make PYTHON=/path/to/python" >&2; exit 2; fi
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing attenio into $(VENV), minutes at first"
	$(PIP) --editable '.[report,parquet,pebble,approximation]'
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	@echo "installing what the tests need, minutes at first"
	$(PIP) --editable '.[report,parquet,pebble,approximation,torch,cpu,triton,transformers,docs,dev,pandas]'
	@touch $@
