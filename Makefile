# install: the environment; demo: the study this project starts from; test: fast tests and checks; test-slow: the rest;
# gpu: tests marked gpu and the paper's question on CPU and GPU, for a machine with both (results/gpu_gap)
# bench: the benchmarks, beside what is used otherwise (docs/benchmarks.md); nothing else should run meanwhile. Apart:
# benchmarks/curvature.py (docs/curvature.md), which needs the packages that it compares with
# statistics: how often tests, intervals and headlines are right, by simulation (docs/statistics.md)
.PHONY: install demo gpu bench statistics test test-slow lint wheel-test clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OPENBLAS_NUM_THREADS ?= 1

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(f"Python 3.11 or newer is needed, $(PYTHON) is {v.major}.{v.minor}: make PYTHON=python3.12 install" if v < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[video,kitti,dev]'
	touch $@

demo: install
	$(BIN)/ablate launch configs/retracted_gap.yaml

# Without a network: make gpu GPU_PYTHON=python3, an interpreter that has torch with CUDA and the dependencies but Ray.
GPU_PYTHON ?= $(BIN)/python
gpu: $(if $(filter $(BIN)/python,$(GPU_PYTHON)),install)
	PYTHONPATH=. $(GPU_PYTHON) benchmarks/gpu_gap.py

bench: install
	PYTHONPATH=. $(BIN)/python benchmarks/all.py

statistics: install
	PYTHONPATH=. $(BIN)/python benchmarks/error_rates.py --studies 2000 --seed 20261130 --processes 2 --write docs/statistics.md

test: install lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder  # long files have few tests, and would come last

test-slow: install
	$(BIN)/python -m pytest -m 'slow and not gpu'

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

wheel-test: install
	$(BIN)/python -m pytest -m slow tests/test_wheel.py

clean:
	rm -rf $(VENV) build dist
