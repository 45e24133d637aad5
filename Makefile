# Everything a developer or an operator trying this out runs. `make` alone lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# One thing at a time, also under -j: the targets share a virtual environment and the terminal.
.NOTPARALLEL:

PY := .venv/bin/python
CODE := gateway adapters db devnets tests .ci
WITH_DATABASES := $(PY) .ci/databases.py --
PYTEST := $(PY) -m pytest
ARGS ?=

.PHONY: help setup demo test test-fast campaign bench lint format lock clean

help: ## List these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1|\2/' | column -t -s '|'
	@echo '  (ARGS="-k reorg -x" is handed on to pytest and to the bench)'

setup: ## Install everything into this folder; done by every other target when needed
	@.ci/setup

demo: setup ## Watch withdrawals go through on a local network
	@.venv/bin/gateway demo $(ARGS)

test: lint ## Everything that has to pass: lint, types, import rules, all tests (campaign and bench apart)
	@$(WITH_DATABASES) $(PYTEST) -n 2 --dist worksteal $(ARGS)

test-fast: setup ## Under a minute: unit and property tests, one chain, SQLite
	@$(PYTEST) -m "not slow and not bitcoin and not postgres and not mariadb and not campaign and not bench" $(ARGS)

campaign: setup ## Long randomised fault runs: crashes, reorgs, lying nodes
	@$(WITH_DATABASES) $(PYTEST) -m campaign --timeout=3600 $(ARGS)

bench: setup ## Measure against the performance targets
	@$(WITH_DATABASES) $(PY) -m tests.bench $(ARGS)

lint: setup ## Lint, format check, types, import rules
	@$(PY) -m ruff check $(CODE)
	@$(PY) -m ruff format --check $(CODE)
	@$(PY) -m mypy
	@PYTHONPATH=.ci .venv/bin/lint-imports

format: setup ## Rewrite the code in the one format, with the lint fixes that are safe
	@$(PY) -m ruff check --fix-only $(CODE)
	@$(PY) -m ruff format $(CODE)

lock: setup ## Resolve the dependencies anew and write requirements.lock
	@$(PY) -m uv pip compile --quiet --upgrade --universal --generate-hashes --all-extras \
		--no-header --no-annotate --no-emit-index-url pyproject.toml -o requirements.lock
	@if grep -n '://' requirements.lock; then echo "an address stands in requirements.lock" >&2; exit 1; fi

clean: ## Remove everything that set-up, tests and runs have made
	@rm -rf .venv devnets/node_modules .run build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache \
		.import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
