# `make` lists the targets. Everything runs from .venv, which `make setup` builds once and rebuilds when a pin changes.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
LIVES  ?= 500

# Processes that share the tests, a file at a time; each has its own Spark session.
LANES  ?= 2
PYTEST  = $(BIN)/pytest -n $(LANES) --dist loadscope --no-loadscope-reorder

# What `make test-matrix` runs, and on which servers; those that the packages do not bring are fetched into .venv.
PG      ?= 10 11 12 13 14 15 16 17 18
CAPTURE := tests/postgres/capture $(wildcard tests/postgres/test_*.py) tests/faults

# A stamp per step, so that a changed pin does not compile kernels again and a changed kernel does not reinstall.
INSTALLED := $(VENV)/.installed
KERNELS   := $(VENV)/.kernels
JARS      := $(VENV)/.delta-jars
CLASSES   := $(VENV)/.spark-classes

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench soak test-matrix clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED) $(KERNELS) $(JARS) $(CLASSES) ## Build .venv, compile the kernels, fetch Spark's Delta jar, archive Spark's classes

demo: setup ## A shop database, live changes, fresh views, verified at the end (ARGS="--seconds 20")
	@$(BIN)/penstock demo $(ARGS)

test: lint ## Lint, types, import contracts and all tests
	$(PYTEST) -m "not matrix" $(ARGS)

lint: setup ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check penstock tests
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## Measure capture and refresh on this machine
	@$(BIN)/penstock bench $(ARGS)

soak: setup ## Random queries by the thousand, random lives, ten minutes of kills, the demo for half an hour (SEED=…, LIVES=…)
	@seed=$${SEED:-$$($(BIN)/python -c 'import secrets; print(secrets.randbits(32))')}; \
	  echo "Seed $$seed: make soak SEED=$$seed repeats it"; \
	  PENSTOCK_LIVES=$(LIVES) $(BIN)/pytest -s -m soak --hypothesis-seed=$$seed
	@$(BIN)/penstock demo --home soak-data --seconds 1800 --rate 200 $(ARGS)

test-matrix: setup ## Capture on every PostgreSQL from 10 to 18, and the slow combinations (PG="10 14" for some)
	@for version in $(PG); do \
	  echo "PostgreSQL $$version"; \
	  PENSTOCK_TEST_PG=$$version $(PYTEST) -m "not matrix" $(CAPTURE) $(ARGS) || exit 1; \
	done
	$(BIN)/pytest -m "matrix and not soak" $(ARGS)

clean: ## Remove caches and the data of the demo and the soak (not .venv, not ./data)
	rm -rf demo-data soak-data build dist .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

define check_java
@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	[ "$${version:-0}" -ge 17 ] || { \
	  echo "Error: Spark needs Java 17 or newer; found $${version:-none}." >&2; \
	  echo "Hint: install a JDK (Debian and Ubuntu: openjdk-17-jre-headless) and, if it is not on PATH, set JAVA_HOME." >&2; \
	  exit 1; }
endef

$(BIN)/python:
	$(check_java)
	@command -v $(PYTHON) >/dev/null 2>&1 && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Error: penstock needs Python 3.11 or newer; '$(PYTHON)' is missing or older." >&2; \
	  echo "Hint: install one and name it: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "Error: $(PYTHON) could not make a virtual environment." >&2; \
	  echo "Hint: on Debian and Ubuntu, install the python3-venv package." >&2; exit 1; }

$(INSTALLED): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing the pinned packages into $(VENV) (a few minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

# A changed kernel has all compiled again, into files of other names (penstock/compiled.py): the old ones go.
$(KERNELS): $(INSTALLED) penstock/compiled.py $(wildcard penstock/capture/kernels/*.py penstock/parquet/*.py)
	@echo "Compiling the kernels ..."
	@find penstock -name '*.nb[ic]' -delete
	@$(BIN)/python -m penstock.capture.kernels
	@touch $@

# Spark reports every artifact it looks at; that is shown only when it fails.
$(JARS): $(INSTALLED)
	$(check_java)
	@echo "Fetching Spark's Delta jar (once) ..."
	@$(BIN)/python -m penstock.lake.session >$@.log 2>&1 || { \
	  cat $@.log >&2; echo "Error: Spark could not start with its Delta jar; its own words are above." >&2; exit 1; }
	@mv $@.log $@

# Spark starts in a third of the time with it, and without it too: a JVM that cannot make one is no error.
$(CLASSES): $(JARS)
	@echo "Putting Spark's classes into an archive (once) ..."
	@$(BIN)/python -m penstock.lake.class_archive >$@.log 2>&1 || echo "Left out: $$(tail -n 1 $@.log)"
	@mv $@.log $@
