# make quickstart   set up, then watch a small model learn TextCraft on the CPU, in six minutes
# make test         set up, then lint, types and all tests
# make test-vllm    set up, then the tests against vLLM's engine on the CPU
# make test-osworld set up, then the tests with OSWorld's own client
# make test-verl    set up, then the tests in verl
# make test-verl-training  the same, then train with verl on the CPU, for some minutes
# make test-areal   set up, then the tests in AReaL
# make test-adapters set up, then the tests with verifiers and OpenEnv
SHELL := /bin/bash
RUN := .venv/bin/practicum
QUICK := runs/quickstart
INPUTS := pyproject.toml constraints-dev.txt tools/setup

# vLLM's tests need 1.6 GB: CI always runs them, others once they ran `make test-vllm`.
VLLM_TESTS := $(if $(filter true,$(CI))$(wildcard .venv-vllm),test-vllm)

# The same for OSWorld's client, of 1.1 GB; its tests are among the others.
OSWORLD := $(if $(filter true,$(CI))$(wildcard .venv-osworld),.venv-osworld/.osworld)

# And for verl, of 1.4 GB; only CI trains with it, which takes minutes.
VERL_TESTS := $(if $(filter true,$(CI)),test-verl-training,$(if $(wildcard .venv-verl),test-verl))

# And for AReaL, of 1.8 GB.
AREAL_TESTS := $(if $(filter true,$(CI))$(wildcard .venv-areal),test-areal)

# And for verifiers and OpenEnv, which need 130 MB on top of .venv.
ADAPTER_TESTS := $(if $(filter true,$(CI))$(wildcard .venv-openenv),test-adapters)

# CI's disk may be small: there an environment goes once its tests have passed.
leave = $(if $(filter true,$(CI)),@rm -rf $(1))

.PHONY: quickstart test test-vllm test-osworld test-verl test-verl-training test-areal test-adapters \
  lint bench docs clean

.venv/.train: $(INPUTS)
	@tools/setup train && touch $@

.venv/.dev: $(INPUTS)
	@tools/setup dev && touch $@

quickstart: .venv/.train
	@rm -rf $(QUICK) $(QUICK)-sft
	@.venv/bin/python examples/watch_episode.py
	@echo; echo '$$ practicum sft configs/sft_textcraft_cpu.yaml --out $(QUICK)-sft'
	@$(RUN) sft configs/sft_textcraft_cpu.yaml --out $(QUICK)-sft
	@echo; echo '$$ practicum rl configs/rl_textcraft_cpu.yaml model.path=$(QUICK)-sft/checkpoints/latest --out $(QUICK)'
	@$(RUN) rl configs/rl_textcraft_cpu.yaml model.path=$(QUICK)-sft/checkpoints/latest --out $(QUICK)
	@echo; echo 'The curve: $(QUICK)/curve.png'

.venv-vllm/.vllm: pyproject.toml constraints-vllm.txt tools/setup
	@tools/setup vllm && touch $@

.venv-osworld/.osworld: constraints-osworld.txt tools/setup
	@tools/setup osworld && touch $@

.venv-verifiers/.verifiers: constraints-verifiers.txt tools/setup | .venv/.dev
	@tools/setup verifiers && touch $@

.venv-openenv/.openenv: constraints-openenv.txt tools/setup | .venv/.dev
	@tools/setup openenv && touch $@

.venv-verl/.verl: pyproject.toml constraints-verl.txt tools/setup
	@tools/setup verl && touch $@

# AReaL's tests play on desktops, which come with .venv.
.venv-areal/.areal: pyproject.toml constraints-areal.txt tools/setup | .venv/.dev
	@tools/setup areal && touch $@

test: .venv/.dev lint $(VLLM_TESTS) $(VERL_TESTS) $(AREAL_TESTS) $(ADAPTER_TESTS) $(OSWORLD)
	.venv/bin/python -m pytest -n 2

test-vllm: .venv-vllm/.vllm
	.venv-vllm/bin/python -m pytest tests/policies/test_vllm_policy.py
	$(call leave,.venv-vllm)

test-verl: .venv-verl/.verl
	.venv-verl/bin/python -m pytest tests/adapters/test_verl_loop.py \
	  tests/adapters/test_verl_settings.py tests/train/test_losses_against_verl.py

test-verl-training: test-verl
	.venv-verl/bin/python -m pytest tests/adapters/test_verl_training.py
	$(call leave,.venv-verl)

test-osworld: .venv/.dev .venv-osworld/.osworld
	.venv/bin/python -m pytest tests/desktops/test_osworld_client.py

test-areal: .venv-areal/.areal
	.venv-areal/bin/python -m pytest tests/adapters/test_areal.py \
	  tests/adapters/test_areal_settings.py tests/adapters/test_areal_client.py
	$(call leave,.venv-areal)

test-adapters: .venv-verifiers/.verifiers .venv-openenv/.openenv
	.venv-verifiers/bin/python -m pytest tests/adapters/test_verifiers.py
	.venv-openenv/bin/python -m pytest tests/adapters/test_openenv.py
	$(call leave,.venv-verifiers .venv-openenv)

lint: .venv/.dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

bench: .venv/.dev
	.venv/bin/python benchmarks/textcraft.py
	.venv/bin/python benchmarks/envs.py
	.venv/bin/python benchmarks/desktop.py
	benchmarks/run_rollout
	benchmarks/run_train

docs: .venv/.dev
	.venv/bin/mkdocs build --strict --quiet
	@echo 'open site/index.html'

clean:
	rm -rf .venv .venv-* build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
