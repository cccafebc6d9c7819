# Everything a newcomer or a developer types. `make demo` and `make test` set up all they need by themselves.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
# A wheel with extension modules (hatch_build.py), unpacked: nothing that is compiled is ever among the sources.
BUILD := build/compiled
# The first Python on the path that is new enough; `make demo PYTHON=/path/to/python` overrides it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
# Tests run on this many processes: many of them wait for servers, so four more than there are processors.
JOBS ?= $(shell echo $$(($(PROCESSORS) + 4)))
# Whoever sets it pays for it: each of some hundred processes that the tests start would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

# `stale` if the environment's interpreter has gone (upgraded away) or if it was made in another folder: whatever target
# needs it makes it anew.
STALE := $(if $(wildcard $(VENV)/made),$(shell \
	[ "$$(cat $(VENV)/made)" = "$(CURDIR)" ] && $(BIN)/python -c '' >/dev/null 2>&1 || echo stale))

.PHONY: help
help: ## Show this list
	@echo "Upquery: SQL views answered from memory, kept right by the database's change stream."
	@echo
	@echo "  make demo   try it: an embedded PostgreSQL, a news site, a live write load, curl lines to copy"
	@echo "  make check  while working: lint, types, all tests that need no server"
	@echo "  make test   before a change goes in: lint, types, all tests, on servers that they start themselves"
	@echo
	@echo "All need Python 3.11 or newer and a network, install into ./$(VENV) only, and are the only set-up there is."
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-8s %s\n", $$1, $$2 }'
	@echo
	@echo "  Variables: PYTHON=python3.12   JOBS=2   ARGS='--port 9000' (handed to demo, sim, fuzz, fuzz-api, bench, pytest)"

.PHONY: demo
demo: $(VENV)/made ## Start the demo; Ctrl-C stops all of it
	@$(BIN)/upquery demo $(ARGS)

.PHONY: test
test: servers ## Lint, types, then all tests; ARGS='tests/cdc' only some
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint $(if $(ARGS),,compiled)
	@echo "── pytest"
	@$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

.PHONY: check
# Without servers nothing waits, and each process pays for its own imports.
check: JOBS := $(PROCESSORS)
check: lint ## Lint, types, and the tests that need no server: after each change
	@echo "── pytest, without servers"
	@SIM_STEPS=50000 $(BIN)/python -m pytest -n $(JOBS) -m 'not server' $(ARGS)

# All test processes would compile the same modules at once.
.PHONY: compiled
compiled: $(VENV)/made-dev
	@$(BIN)/python -m compileall -q api_schemas cdc dataflow load service
	@said=$$($(BIN)/python -m pytest --collect-only -qq 2>&1) || { echo "$$said" | tail -n 40; exit 1; }

.PHONY: test-compiled
test-compiled: $(BUILD)/made ## The tests of what mypyc compiles, on a compiled build (needs a C compiler): some minutes
	@rm -rf $(BUILD)/tests && cp -r tests pyproject.toml $(BUILD)
	@cd $(BUILD) && $(COMPILED_PYTHON) -m pytest -n $(JOBS) \
		$(or $(ARGS),tests/simulation tests/plans tests/sql tests/dataflow tests/cdc tests/service)

# Fetched into the user's cache once, so that tests do not wait for it.
.PHONY: servers
servers: $(VENV)/made-servers

$(VENV)/made-servers: $(VENV)/made-dev $(wildcard tests/fixtures/jvm/* tests/fixtures/*.sh) tests/fixtures/jvm.py tests/fixtures/node.py
	@tests/fixtures/install_servers.sh
	@echo "── Apache Kafka and Debezium, by Maven"
	@$(BIN)/python -m tests.fixtures.jvm
	@echo "── TypeScript and generators of clients, by npm"
	@$(BIN)/python -m tests.fixtures.node
	@touch $@

.PHONY: lint
lint: $(VENV)/made-dev ## ruff (lint and format) and mypy, changing nothing
	@echo "── ruff check"
	@$(BIN)/ruff check
	@echo "── ruff format --check"
	@$(BIN)/ruff format --check
	@echo "── mypy --strict"
	@$(BIN)/mypy

.PHONY: format
format: $(VENV)/made-dev ## Let ruff fix and format the code
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

.PHONY: sim
sim: $(VENV)/made-dev ## The long simulation: 2 million random steps against an oracle
	@$(BIN)/python -m tests.simulation $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/made-dev ## Random SQL against PostgreSQL (MariaDB: ARGS='--database mariadb'); ARGS=hostile: hostile values
	@$(BIN)/python -m tests.fuzz $(ARGS)

.PHONY: soak
soak: $(VENV)/made-servers ## Writers, readers, evictions and DDL for 10 minutes on each kind of upstream: SOAK_SECONDS=3600
	@SOAK_SECONDS=$${SOAK_SECONDS:-600} $(BIN)/python -m pytest -s tests/integration/test_consistency.py tests/integration/test_schema_changes.py $(ARGS)

.PHONY: faults
faults: $(VENV)/made-servers ## Everything that can break, hang or fill up, under load; MINUTES=30: at random for so long
	@$(if $(MINUTES),$(BIN)/python -m tests.faults --soak $(MINUTES),ALL_FAULTS=1 $(BIN)/python -m pytest -s tests/faults) $(ARGS)

.PHONY: fuzz-api
fuzz-api: $(VENV)/made-dev ## Random requests to both ports of a live service: 20,000 of them
	@$(BIN)/python -m tests.fuzz_api $(ARGS)

.PHONY: bench
bench: $(VENV)/made-bench $(if $(COMPILED),$(BUILD)/made) ## Measure it against its peers, on this machine; COMPILED=1: a compiled build
	@$(if $(COMPILED),cd $(BUILD) && $(COMPILED_PYTHON),$(BIN)/python) -m load $(ARGS)

.PHONY: openapi
openapi: $(VENV)/made-dev ## Write api_schemas/openapi.json anew
	@$(BIN)/python -m service.demo.golden_openapi > api_schemas/openapi.json.new
	@mv api_schemas/openapi.json.new api_schemas/openapi.json && echo "wrote api_schemas/openapi.json"

.PHONY: clean
clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ── The virtual environment ──────────────────────────────────────────────────────────────────────────────────────────
# One environment, made anew whenever pyproject.toml changes; `made-dev` and `made-bench` add what only they need.

.PHONY: python
python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "Upquery needs Python 3.11 or newer with venv (Debian: apt install python3-venv)."; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11 …"; exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$($(PYTHON) --version 2>&1); Upquery needs Python 3.11 or newer."; exit 1; }

.PHONY: stale
stale:

$(VENV)/made: pyproject.toml $(STALE) | python
	@echo "── Making ./$(VENV) with $$($(PYTHON) --version) (once; it takes a minute or two and about 250 MB)"
	@rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
	@$(PIP) install --root-user-action=ignore --quiet --progress-bar off --editable '.[demo]' & \
		pid=$$!; $(call WAIT,installing the service and an embedded PostgreSQL)
	@echo "$(CURDIR)" > $@

$(VENV)/made-dev: $(VENV)/made
	@$(PIP) install --root-user-action=ignore --quiet --progress-bar off --editable '.[dev]' & \
		pid=$$!; $(call WAIT,installing the test tools)
	@touch $@

$(VENV)/made-bench: $(VENV)/made
	@$(PIP) install --root-user-action=ignore --quiet --progress-bar off --editable '.[bench]' & \
		pid=$$!; $(call WAIT,installing the peers of the benchmark)
	@touch $@

# Its Python finds the wheel's modules before the environment's.
COMPILED_PYTHON = PYTHONPATH=$(CURDIR)/$(BUILD) $(CURDIR)/$(BIN)/python

$(BUILD)/made: hatch_build.py pyproject.toml $(shell find api_schemas cdc dataflow load service -name '*.py') | $(VENV)/made-dev
	@rm -rf $(BUILD) && mkdir -p $(BUILD)
	@UPQUERY_COMPILE=1 $(PIP) wheel --quiet --no-deps --wheel-dir $(BUILD)/wheel . & \
		pid=$$!; $(call WAIT,compiling)
	@$(PIP) install --quiet --no-deps --target $(BUILD) $(BUILD)/wheel/*.whl
	@ls $(BUILD)/*.so >/dev/null && touch $@

# Says what runs and for how long it has, until the background job $$pid ends, and ends as it does. Off a terminal: a
# line every ten seconds.
define WAIT
trap "kill $$pid 2>/dev/null; echo; exit 130" INT TERM; start=$$SECONDS; \
while kill -0 $$pid 2>/dev/null; do \
	if [ -t 1 ]; then printf '\r   $(1) … %d s, %s so far' $$((SECONDS - start)) "$$(du -sh $(VENV) 2>/dev/null | cut -f1)"; \
	elif [ $$(( (SECONDS - start) % 10 )) -eq 0 ]; then echo "   $(1) … $$((SECONDS - start)) s"; fi; \
	sleep 1; \
done; \
if wait $$pid; then echo "$$([ -t 1 ] && printf '\r')   $(1): done in $$((SECONDS - start)) s.                    "; \
else echo; echo "   $(1) failed: pip says why above."; exit 1; fi
endef
