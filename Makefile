# Everything that is done with Stagecut, from a fresh clone on. `make help` lists it.

PYTHON ?= python3
VENV ?= .venv
HOST ?= 127.0.0.1
PORT ?= 8000
EXAMPLE ?= examples/llama-3.1-70b-h100x64.json
BIN = $(VENV)/bin
CODE = solver service migrations tests benchmarks docs

# Services and commands start again and again; compiled modules are kept between their starts.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: run plan test screenshots check lint types benchmark accuracy calibrate load constraints clean help pytorch frameworks

run: $(VENV)/.installed ## Start the service, plan an example over HTTP, stay up until Ctrl-C
	@$(BIN)/stagecut migrate
	@exec $(BIN)/stagecut serve --host $(HOST) --port $(PORT) --plan $(EXAMPLE)

plan: $(VENV)/.installed ## Plan an example on the command line
	@$(BIN)/stagecut plan $(EXAMPLE)

test: lint types ## Run every check and every test
	$(BIN)/pytest -n 3 --dist worksteal

check: lint types ## Run the checks and the fast tests, within a minute
	$(BIN)/pytest -n 3 --dist worksteal -m "not slow"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(VENV)/.installed-dev
	$(BIN)/mypy

benchmark: $(VENV)/.installed-dev ## Measure the solver
	$(BIN)/python -m benchmarks

accuracy: $(VENV)/.installed-dev ## Compare predicted times and memory with published runs
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.memory_accuracy

calibrate: $(VENV)/.installed-dev ## Fit the efficiencies to published runs
	$(BIN)/python -m benchmarks.calibrate

load: $(VENV)/.installed-dev ## Measure the service under load
	$(BIN)/python -m benchmarks.load

screenshots: $(VENV)/.installed-dev ## Write every page, light and dark, wide and narrow, to screenshots/
	$(BIN)/python -m tests.service.pages.screenshots screenshots

constraints: $(VENV)/.installed-dev ## Pin the newest versions that fit pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --strip-extras \
	  --no-header --no-annotate --no-emit-index-url --upgrade pyproject.toml -o constraints.txt

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info

# Debian ships venv without pip unless python3-venv is installed; pip then comes from outside.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Stagecut needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 \
	  || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
	       && $(PYTHON) -m pip --python $(VENV)/bin/python install --quiet pip; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.installed

pytorch: $(VENV)/.installed-pytorch ## Install PyTorch, against which tests check the cost model

$(VENV)/.installed-pytorch: | $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	@touch $@

frameworks: $(VENV)/.installed-frameworks ## Install training frameworks, whose own code reads exports back

# DeepSpeed is built from its sources, by the setuptools that PyTorch is there with.
$(VENV)/.installed-frameworks: tests/frameworks/requirements.txt | $(VENV)/.installed-pytorch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check setuptools wheel
	DS_BUILD_OPS=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --no-build-isolation -r tests/frameworks/requirements.txt
	@touch $@

help: ## Show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
