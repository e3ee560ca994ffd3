# What a contributor runs; `make` alone lists it. The first target that needs Python builds .venv
# from the lock, and it is built anew whenever the lock changes, so it never holds anything else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help run test quick check campaign bench lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/installed ## watch a network of brokers at work (FOR=30: for 30 seconds)
	@$(BIN)/python -m tidings.cli demo $(if $(FOR),--for $(FOR))

# loadgroup: a file whose tests share one Spark stays in one process.
test: $(VENV)/installed ## run all tests
	@$(BIN)/pytest -n auto --dist loadgroup

quick: $(VENV)/installed ## run the fast tests, with few examples each: the inner loop
	@HYPOTHESIS_PROFILE=quick $(BIN)/pytest -n auto -m "not slow"

check: $(VENV)/installed ## check format, lint, types and the direction of imports
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

campaign: $(VENV)/installed ## try random trials at fresh seeds (TRIALS=20000, FIRST=a seed, PROCESSES=2)
	@$(BIN)/python -m tests.simulation.campaign $(if $(TRIALS),--trials $(TRIALS)) \
		$(if $(FIRST),--first $(FIRST)) $(if $(PROCESSES),--processes $(PROCESSES))

bench: $(VENV)/bench ## run the benchmarks (installs what they compare with)
	@$(BIN)/python -m bench

# Pins stay as they are unless pyproject.toml asks otherwise; UPGRADE=1 moves them all to the newest.
COMPILE = .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-emit-index-url --no-annotate \
	--custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade) pyproject.toml

# What the benchmarks compare with is the pickiest, so it chooses first: the other way round, a
# shared package could be pinned so new that only an ancient rule-engine can live with it.
lock: .venv-lock/bin/uv ## pin the dependencies of pyproject.toml anew (UPGRADE=1: the newest)
	$(COMPILE) --extra bench --output-file requirements-bench.lock
	$(COMPILE) --extra dev --extra experiments --constraint requirements-bench.lock \
		--output-file requirements.lock

clean: ## remove everything that make and the tools have made
	rm -rf $(VENV) .venv-lock dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# A stamp is written last: an interrupted install leaves none, and the next run starts over.

$(VENV)/locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("tidings needs Python 3.11 or newer, but $(PYTHON) is %d.%d. Try: make PYTHON=/path/to/python3.12" % sys.version_info[:2])'
	@echo "Building $(VENV) from requirements.lock, once; it takes a minute or two."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet --require-hashes --requirement requirements.lock
	@touch $@

$(VENV)/installed: $(VENV)/locked pyproject.toml
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/bench: $(VENV)/installed requirements-bench.lock
	@$(BIN)/pip install --quiet --require-hashes --requirement requirements-bench.lock
	@touch $@

.venv-lock/bin/uv:
	@$(PYTHON) -m venv --clear .venv-lock
	@.venv-lock/bin/pip install --quiet uv
