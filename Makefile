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
ENGINE := $(BIN)/context-engine
ON_WORLD := $(if $(WORLD),--world '$(WORLD)')

export PYTHON
# The embedding model ships as a package: nothing is downloaded at run time, and nothing tries to.
export HF_HUB_OFFLINE := 1
export TRANSFORMERS_OFFLINE := 1

.DEFAULT_GOAL := help
.PHONY: help demo serve eval test check clean setup setup-dev

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 16

demo: setup ## Crawl the demo company and ask three questions as two people each
	@$(ENGINE) demo $(ON_WORLD)

serve: setup ## Serve the HTTP API over the demo company, with a token for each person
	@$(ENGINE) serve $(ON_WORLD)

eval: setup ## Ask the golden questions
	@$(ENGINE) eval $(ON_WORLD)

test: setup-dev ## Run all tests
	@$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(TESTS)

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
