# `make run` opens the dashboard on the sample runs; `make test` passes the tests. Both create the virtual environment themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check install --quiet

.PHONY: run test lint samples benchmarks browser clean

run: $(VENV)/.installed
	$(BIN)/streamlit run app.py

test: $(VENV)/.installed-for-tests browser
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Make every sample run again from its seed; takes minutes.
samples: $(VENV)/.installed
	$(BIN)/python -m sample_runs.lab make

benchmarks: $(VENV)/.installed-for-tests
	$(BIN)/python -m tests.benchmarks.kernel
	$(BIN)/python -m tests.benchmarks.readers
	$(BIN)/python -m tests.benchmarks.wandb_file

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "Ratiometer needs Python 3.11, 3.12 or 3.13; '$(PYTHON)' is another. Name one: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "The venv module is missing: apt-get install python3-venv"; exit 1; }

$(VENV)/.installed: requirements.txt | $(VENV)/bin/python
	@echo "Installing what the dashboard needs into $(VENV) (once; a few minutes)"
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.installed-for-tests: tests/requirements.txt $(VENV)/.installed
	@echo "Installing what the tests need into $(VENV) (once)"
	$(PIP) -r tests/requirements.txt
	@touch $@

# The browser tests drive Debian's Chromium. Where it is missing and we may install it, we do; otherwise we say how.
browser:
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ]; then echo "Installing Debian's chromium (once)"; apt-get update -qq && apt-get install -y -qq chromium >/dev/null; \
	  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then echo "Installing Debian's chromium (once)"; sudo apt-get update -qq && sudo apt-get install -y -qq chromium >/dev/null; \
	  else echo "The browser tests need Chromium: sudo apt-get install chromium"; exit 1; fi; }

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
