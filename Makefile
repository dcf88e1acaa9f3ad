# make quickstart   set up, then watch three players in TextCraft and compare two of them
# make test         set up, then lint, types and all tests
# make test-vllm    set up, then the tests against vLLM's engine on the CPU
SHELL := /bin/bash
RUN := .venv/bin/practicum
QUICK := runs/quickstart
INPUTS := pyproject.toml constraints-dev.txt tools/setup

# vLLM's tests need 1.6 GB: CI always runs them, others once they ran `make test-vllm`.
VLLM_TESTS := $(if $(filter true,$(CI))$(wildcard .venv-vllm),test-vllm)

.PHONY: quickstart test test-vllm lint bench docs clean

.venv/.base: $(INPUTS)
	@tools/setup base && touch $@

.venv/.dev: $(INPUTS)
	@tools/setup dev && touch $@

quickstart: .venv/.base
	@rm -rf $(QUICK)
	@.venv/bin/python examples/watch_episode.py
	@echo; echo '$$ practicum eval textcraft --panel dev --policy expert --out $(QUICK)'
	@$(RUN) eval textcraft --panel dev --policy expert --out $(QUICK)
	@echo; echo '$$ practicum eval textcraft --panel dev --policy random --out $(QUICK)/random'
	@$(RUN) eval textcraft --panel dev --policy random --out $(QUICK)/random
	@echo; echo '$$ practicum eval textcraft --panel dev --policy novice --out $(QUICK)/novice'
	@$(RUN) eval textcraft --panel dev --policy novice --out $(QUICK)/novice
	@echo; echo '$$ practicum compare $(QUICK)/novice $(QUICK)'
	@$(RUN) compare $(QUICK)/novice $(QUICK)
	@echo; echo '$$ practicum compare $(QUICK)/random $(QUICK)/novice'
	@$(RUN) compare $(QUICK)/random $(QUICK)/novice
	@echo; echo 'The report: $(QUICK)/report.json'

.venv-vllm/.vllm: pyproject.toml constraints-vllm.txt tools/setup
	@tools/setup vllm && touch $@

test: .venv/.dev lint $(VLLM_TESTS)
	.venv/bin/python -m pytest -n 2

test-vllm: .venv-vllm/.vllm
	.venv-vllm/bin/python -m pytest tests/policies/test_vllm_policy.py

lint: .venv/.dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

bench: .venv/.dev
	.venv/bin/python benchmarks/textcraft.py
	.venv/bin/python benchmarks/envs.py
	benchmarks/run_rollout
	benchmarks/run_train

docs: .venv/.dev
	.venv/bin/mkdocs build --strict --quiet
	@echo 'open site/index.html'

clean:
	rm -rf .venv .venv-vllm .venv-bench .venv-trl build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
