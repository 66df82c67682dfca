# Poolhouse. `make help` lists the targets.
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PORT ?= 8000
KILLS ?= 1000
FAULTS ?= valkey,postgres
MINUTES ?= 60
NODES ?= 1000
PYTEST := $(BIN)/python -m pytest
LOCAL := DJANGO_SETTINGS_MODULE=portal.settings.local
COMPILE := $(BIN)/python -m uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make requirements"

export PYTHONDONTWRITEBYTECODE ?=
# A real vLLM is installed only where the demo asks for one and names none.
DEMO_VLLM := $(if $(filter vllm,$(ENGINE)),$(if $(POOLHOUSE_VLLM),,.venv-vllm/.installed))

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-break test check e2e screenshots test-vllm test-gpu chaos soak fleet openapi format requirements bench

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv and install everything (done by the other targets too)

$(STAMP): requirements-dev.txt agent/pyproject.toml contrib/bootstrap.sh
	@sh contrib/bootstrap.sh $(VENV)
	@$(BIN)/python manage.py build_assets 1>&2
	@touch $@

demo: $(STAMP) $(DEMO_VLLM) ## Run the whole pool on this machine; ONCE=1 to the payout and out; PORT=, ENGINE_URL=, ENGINE=vllm
	@exec $(BIN)/python manage.py demo --port $(PORT) $(if $(filter 1,$(ONCE)),--once) \
		$(if $(ENGINE_URL),--engine-url "$(ENGINE_URL)") $(if $(ENGINE),--engine $(ENGINE))

.venv-vllm/.installed: tests/vllm/requirements.txt tests/vllm/install.sh
	@PYTHON311=$(BIN)/python sh tests/vllm/install.sh .venv-vllm 1>&2
	@touch $@

demo-break: $(STAMP) ## Break a part of the running demo and heal it: WHAT=node|gateway|worker|stripe|postgres
	@$(BIN)/python manage.py demo_break $(WHAT)

test: $(STAMP) ## The whole test suite
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder

check: $(STAMP) ## Linters, types, import contracts, migrations, templates, OpenAPI drift
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy portal agent
	$(BIN)/lint-imports
	$(BIN)/python -m portal.sandbox.checks

e2e: $(STAMP) ## Browser tests with Debian's Chromium
	POOLHOUSE_CHROMIUM="$$(sh contrib/browser.sh)" $(PYTEST) -m e2e

screenshots: $(STAMP) ## Pictures of every page in both themes and two widths, into screenshots/
	POOLHOUSE_CHROMIUM="$$(sh contrib/browser.sh)" $(PYTEST) -m e2e tests/e2e/screenshots.py

test-vllm: $(STAMP) ## Install the CPU build of vLLM into .venv-vllm and run the tests marked vllm (Python 3.11 only)
	@if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then \
		echo "test-vllm: skipped: vLLM's CPU build exists for Python 3.11 only, this is $$($(BIN)/python --version)"; \
		echo "0 passed, 0 failed"; \
	else \
		$(MAKE) --no-print-directory .venv-vllm/.installed && $(PYTEST) -m vllm; \
	fi

test-gpu: $(STAMP) ## Probes, benchmarks and tests on this machine's NVIDIA GPU; without one it says so: SHORT=1
	@exec $(BIN)/python -m tests.gpu $(if $(filter 1,$(SHORT)),--short)

bench: $(STAMP) ## What the gateway costs beside its peers: PEERS="vllm-router litellm"; GROWTH=1: how cost grows
	@sh tests/bench/wrk.sh
	@exec $(BIN)/python -m tests.bench --peers "$(PEERS)" $(if $(filter 1,$(GROWTH)),--growth)

chaos: $(STAMP) ## Kill gateways at random under load, with broken servers too: KILLS=1000, FAULTS=valkey,postgres
	KILLS="$(KILLS)" FAULTS="$(FAULTS)" $(PYTEST) -s -m chaos tests/chaos

fleet: $(STAMP) ## Simulated nodes against a whole pool on two cores: NODES=1000, MINUTES=10
	@exec $(BIN)/python -m tests.fleet --nodes $(NODES) --minutes $(if $(filter command line,$(origin MINUTES)),$(MINUTES),10)

soak: $(STAMP) ## Mixed load; memory, files and tasks must stay flat: MINUTES=60
	MINUTES="$(MINUTES)" $(PYTEST) -s -m soak tests/soak

openapi: $(STAMP) ## Write docs/openapi/ anew
	$(LOCAL) $(BIN)/python manage.py openapi

format: $(STAMP) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

requirements: ## Compile the requirements with hashes from the two pyproject.toml; the agent's travel with its releases
	$(COMPILE) pyproject.toml -o requirements.txt
	$(COMPILE) pyproject.toml agent/pyproject.toml --extra demo --extra otlp --extra dev -o requirements-dev.txt
	$(COMPILE) agent/pyproject.toml -c requirements-dev.txt -o agent/requirements.txt
