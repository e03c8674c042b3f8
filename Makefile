# `make run` opens the dashboard on the sample runs; `make test` passes the tests. Both create the virtual environment themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: run test lint samples benchmarks browser clean

run: $(VENV)/.installed
	$(BIN)/python -m streamlit run app.py

test: $(VENV)/.installed-for-tests browser
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-for-tests
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

# Make every sample run again from its seed; takes minutes.
samples: $(VENV)/.installed
	$(BIN)/python -m sample_runs.lab make

benchmarks: $(VENV)/.installed-for-tests
	$(BIN)/python -m tests.benchmarks.kernel
	$(BIN)/python -m tests.benchmarks.readers
	$(BIN)/python -m tests.benchmarks.wandb_file
	$(BIN)/python -m tests.benchmarks.alerts
	$(BIN)/python -m tests.benchmarks.watch
	$(BIN)/python -m tests.benchmarks.recorder
	$(BIN)/python -m tests.benchmarks.diagnosis
	$(BIN)/python -m tests.benchmarks.what_if
	$(BIN)/python -m tests.benchmarks.corrections

# Nothing is ever deleted here: venv repairs what an interrupted call left behind. The stamp says that it is whole.
SUPPORTED := 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
$(VENV)/.made:
	@$(PYTHON) -c $(SUPPORTED) \
	  || { echo "Ratiometer needs Python 3.11, 3.12 or 3.13; '$(PYTHON)' is another, or is missing. Name one: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' \
	  || { echo "The venv module is missing: apt-get install python3-venv"; exit 1; }
	@if [ -e $(BIN)/python ]; then $(BIN)/python -c $(SUPPORTED) \
	  || { echo "$(VENV) belongs to another Python, or its interpreter is gone: remove $(VENV) and try again"; exit 1; }; fi
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: requirements.txt $(VENV)/.made
	@$(BIN)/python -c 'import pip' || { echo "$(VENV) does not work here any more: remove $(VENV) and try again"; exit 1; }
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
