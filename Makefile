# Every target sets up what it needs in .venv; a second run installs nothing.
#
#   PYTHON           the Python that makes the environment (3.11 or later)
#   TORCH_INDEX      an index with CPU builds of torch; empty: only what pip is configured to use
#   PIP_EXTRA_ARGS   more arguments for pip install
#   WORLD            a world's folder for demo, serve and eval (default: the demo company)
#   TESTS            what `make test` runs (default: everything)
#   TEST_PROCESSES   how many processes share the tests (0: this one alone, for a debugger)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := core graph ingestion query context_engine
TESTS ?=
TEST_PROCESSES ?= 2
PYTEST := $(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
# How often what is random is tried; each file says what its variable counts.
THOROUGHLY := TEST_EVENT_ROWS=200 TEST_HISTORIES=40 TEST_HISTORY_STEPS=30 TEST_FAULT_ROUNDS=120 TEST_KILLS=800 \
	TEST_SIGKILLS=40 TEST_RACES=10 TEST_STEPS=12 TEST_ACCESS_ROWS=20 TEST_ACCESS_SHARE=1 TEST_QUESTION_SHARE=1 TEST_ASKERS=9 \
	TEST_WORLD_EXAMPLES=500 \
	RANDOM_ORGANIZATIONS_ROUNDS=64 RANDOM_COMPANIES=300 TRUTH_TABLE=all RANDOM_REQUESTS=200
THOROUGH_TESTS := tests/invariants tests/security tests/operations/test_killed_process.py tests/sandbox/test_world_schema.py \
	tests/ingestion/azure_devops/test_cheap_access.py
ENGINE := $(BIN)/context-engine
ON_WORLD := $(if $(WORLD),--world '$(WORLD)')

export PYTHON
# The embedding model ships as a package: nothing is downloaded at run time, and nothing tries to.
export HF_HUB_OFFLINE := 1
export TRANSFORMERS_OFFLINE := 1

.DEFAULT_GOAL := help
.PHONY: help demo serve eval test test-thorough check clean setup setup-dev

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 22

demo: setup ## Crawl the demo company and ask three questions as two people each
	@$(ENGINE) demo $(ON_WORLD)

serve: setup ## Serve the HTTP API over the demo company, with a token for each person
	@$(ENGINE) serve $(ON_WORLD)

eval: setup ## Ask the golden questions
	@$(ENGINE) eval $(ON_WORLD)

test: setup-dev ## Run all tests
	@$(PYTEST) $(TESTS)

test-thorough: setup-dev ## Run the tests of random histories, deaths, faults and worlds many times over: hours
	@$(THOROUGHLY) $(PYTEST) $(or $(TESTS),$(THOROUGH_TESTS))

check: setup-dev ## Lint, formatting, types, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

clean: ## Remove the environment and caches (embedded stores stay: they are in data/)
	rm -rf $(VENV) build *.egg-info .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup:
	@sh requirements/setup.sh $(VENV)

setup-dev:
	@sh requirements/setup.sh $(VENV) dev
