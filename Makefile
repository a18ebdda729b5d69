# Two commands: `make report` does the main job, `make test` checks everything. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help install report test lint types imports tests docs browsing browser versions conformance gpu instructions fuzz release pictures clean

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  if command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
# How long `make test` takes, as measured once everything is installed; renew it when the tests grow.
TEST_MINUTES := 11
TEST_CORES := 2
# What types, imports and documentation say while the tests run; it is shown when they are done.
BESIDE := $(VENV)/beside-the-tests.log
# Processes of the tests and of Sphinx start in half of the time where modules are compiled once.
unexport PYTHONDONTWRITEBYTECODE
# Extras of the commands that people use.
ASKED := report,parquet,pebble,approximation
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

help: ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(VENV)/.installed ## create .venv with a working .venv/bin/attenio

report: install ## the main job on the default workload: tables here, plots in report.html
	$(BIN)/attenio report --out report.html

test: $(VENV)/.developing ## lint, types, import contracts, tests, doctests
	@echo "make test: up to $(TEST_MINUTES) minutes on $(TEST_CORES) cores; begun at $$(date +%H:%M:%S)"
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory --keep-going types imports docs >$(BESIDE) 2>&1 & beside=$$!; trap "kill $$beside 2>/dev/null || true" EXIT; failed=; \
	$(MAKE) --no-print-directory tests || failed=tests; \
	echo "what ran beside the tests:"; wait $$beside || failed="$$failed beside"; cat $(BESIDE); \
	$(MAKE) --no-print-directory browsing || failed="$$failed browsing"; \
	if [ -n "$$failed" ]; then echo "make test: failed at $$(date +%H:%M:%S)" >&2; exit 1; fi
	@echo "make test: passed at $$(date +%H:%M:%S)"

lint: $(VENV)/.developing
	@echo "1 of 6: style, seconds"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.developing
	@echo "2 of 6: types, beside the tests"
	$(BIN)/mypy

imports: $(VENV)/.developing
	@echo "3 of 6: imports, beside the tests"
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.developing ## the documentation, with what it computes: docs/_build/html/index.html opens from disk
	@echo "4 of 6: documentation and what it computes, beside the tests"
	$(BIN)/python docs/both.py

# Each worker has half of the list and takes from the other when it is done: tests of a file share what it computed.
tests: $(VENV)/.developing $(VENV)/.imported
	@echo "5 of 6: tests, most of the time; the share that is done stands at the end of each line"
	$(BIN)/pytest -n $(TEST_CORES) --dist worksteal --ignore tests/browser

browsing: $(VENV)/.developing
	@echo "6 of 6: pages in a browser, where there is one; seconds"
	$(BIN)/pytest -rs tests/browser

browser: $(VENV)/.developing docs ## every page in headless Chromium; installs what that needs
	$(PIP) playwright
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }
	$(BIN)/python tests/browser/packages.py
	$(BIN)/attenio explore --build .browser/explorer
	$(BIN)/pytest -rs tests/browser --every-page

conformance: $(VENV)/.developing ## every decoder of the installed transformers beside its eager attention, by name
	$(BIN)/pytest -n 2 -q --no-header tests/conformance/every_architecture.py

versions: $(VENV)/.developing ## every command with the oldest and the newest versions of other packages, in fresh environments
	$(BIN)/python tests/environments/versions.py

gpu: $(VENV)/.developing ## tests that need a Hopper GPU, in eight processes
	pids=(); for share in 1 2 3 4 5 6 7 8; do $(BIN)/pytest tests/on_gpu --share $$share/8 & pids+=($$!); done; \
	failed=0; for pid in "$${pids[@]}"; do wait "$$pid" || failed=1; done; exit $$failed

instructions: $(VENV)/.developing ## compile every Hopper kernel anew, without a GPU, and record the instructions; minutes
	rm -f tests/kernels/*/instructions.json
	RECORD_INSTRUCTIONS=1 $(BIN)/pytest tests/kernels/hopper tests/kernels/triton -k 'tensor_core or spills'

fuzz: $(VENV)/.developing ## random calls of attention() against the definition: make fuzz TIME=600 SEED=7
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(or $(TIME),60) --seed $(or $(SEED),0)

release: $(VENV)/.developing ## a wheel and an sdist in dist/, installed from the files in clean environments
	$(BIN)/python tests/environments/release.py dist

pictures: $(VENV)/.installed ## draw the pictures of the README and the documentation again
	grep '^\$$ attenio' docs/pictures/README.md | sed 's/^. //' | while read -r line; do $(BIN)/$$line; done

clean: ## remove what make made
	rm -rf $(VENV) docs/_build report.html .browser

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then echo "attenio needs Python 3.11 or newer and found none; install one, or run make PYTHON=/path/to/python" >&2; exit 2; fi
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing attenio into $(VENV), a minute or two at first"
	$(PIP) --editable '.[$(ASKED)]'
	@touch $@

# Two workers that begin at once would each compile the modules that they import: half a minute, which one has here.
$(VENV)/.imported: $(VENV)/.developing
	-$(BIN)/python -W ignore -c 'import torch._dynamo, torch._inductor.compile_fx, torch.distributed.tensor, transformers, torch.testing._internal.common_methods_invocations'
	@touch $@

# All at once, and modules compiled when they are first imported, which most of them never are.
$(VENV)/.developing: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing attenio and what the tests need into $(VENV), two minutes at first"
	$(PIP) --no-compile --editable '.[$(ASKED),torch,cpu,triton,transformers,dask,docs,dev,pandas]'
	@touch $(VENV)/.installed $@
