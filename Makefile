# Every command a newcomer needs. `make` alone lists them.

VENV_PYTHON := .venv/bin/python
NAME ?= pipeline
OUT ?=
SEEDS ?= 100
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo up test check dollhouse faults bench docs lock clean

help: ## show this list
	@grep -E '^[a-z]+: .*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z]+): .*## /  make \1\t/' | expand -t 16

demo: ## see the whole platform at work: about two minutes (ARGS="--chaos" kills services on the way)
	@tools/setup run
	@$(VENV_PYTHON) -m gangline_embedded demo $(ARGS)

up: ## start the platform for daily use on this machine (Ctrl-C stops it)
	@tools/setup run
	@$(VENV_PYTHON) -m gangline_embedded up $(ARGS)

test: ## run everything that must be green
	@tools/setup dev
	@tools/check

check: ## only the quick checks: walls, types, lint, tidy, generated pages, locks
	@tools/setup dev
	@tools/check quick

dollhouse: ## break everything in one process: make dollhouse SEEDS=10000 [ARGS="--keep tests/sim/stories"]
	@tools/setup dev
	@$(VENV_PYTHON) -m dollhouse --seeds $(SEEDS) $(ARGS)

faults: ## kill and pause every service at every phase of a job: ten minutes (make test strikes half of that table)
	@tools/setup dev
	@WHOLE_FAULT_TABLE=1 $(VENV_PYTHON) -m pytest -q tests/faults/test_phases.py $(ARGS)

bench: ## measure: make bench NAME=pipeline [OUT=file.json]
	@tools/setup dev
	@$(VENV_PYTHON) -m bench $(NAME) $(if $(OUT),--out "$(OUT)") $(ARGS)

docs: ## draw the generated pages again
	@tools/setup dev
	@$(VENV_PYTHON) -m draw

lock: ## solve the dependencies again and write requirements/*.txt
	@tools/lock

clean: ## remove everything that make made
	rm -rf .venv .lock-venv build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
