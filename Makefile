# Everything a person types. `make help` prints the list.
VENV := .venv
PY := $(VENV)/bin/python
.DEFAULT_GOAL := help

.PHONY: help setup app test check fix fuzz golden bench docs accuracy ablation examples equality proof e2e

help: ## print this list
	@grep -E '^[a-z0-9]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 10

$(VENV)/.ready: pyproject.toml
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -c 'import torch' 2>/dev/null || $(PY) -m pip install --quiet torch==2.13.0
	$(PY) -m pip install --quiet -e '.[dev,runtime]'
	touch $@

setup: $(VENV)/.ready ## make the virtual environment (torch's CPU build first, so that no CUDA arrives)

$(VENV)/.peers: tests/peers.txt $(VENV)/.ready
	$(PY) -m pip install --quiet --no-deps -r tests/peers.txt
	touch $@

app: setup ## serve the dashboard with the example runs
	$(VENV)/bin/zerosim dashboard

test: setup $(VENV)/.peers ## all tests: unit, property, golden, docs, real ranks, browser journeys
	$(PY) -m pytest -q -n 2 -m 'not runtime and not e2e'
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n 2 --dist loadfile -m '(runtime or e2e) and not quiet'
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -m quiet

check: setup ## format, lint, floors, types
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/lint-imports
	$(VENV)/bin/mypy

fix: setup ## format, and mend what can be mended
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

fuzz: setup ## 20,000 damaged files of every format, at random
	ZEROSIM_FUZZ=20000 $(PY) -m pytest -q -n 2 tests/zerosim/importers/test_fuzz.py tests/zerosim/importers/test_misfilled.py

golden: setup ## write the golden files anew
	$(PY) -m pytest -q tests --update-golden

bench: setup ## the benchmarks, with their bars
	$(PY) benchmarks/engine.py
	$(PY) benchmarks/timeline.py
	$(PY) benchmarks/extract.py
	$(PY) benchmarks/tracing.py
	$(PY) benchmarks/importing.py

docs: setup ## write the generated pages of docs/ anew
	$(PY) -m pytest -q tests/docs --update-docs

accuracy: setup ## simulate all measured runs anew: the scores that zerosim comes with, and docs/accuracy.md
	$(VENV)/bin/zerosim validate --publish zerosim/validation/facts/scoreboard.json
	$(PY) -m pytest -q tests/docs/test_accuracy_page.py --update-docs

FITTED := efficiency attention_efficiency memory_efficiency kernel_s

ablation: setup ## the same without each mechanism, constants fitted anew each time: it takes half an hour
	$(VENV)/bin/zerosim validate --ablation --fit $(FITTED:%=--constant %) --publish zerosim/validation/facts/ablation.json
	$(PY) -m pytest -q tests/docs/test_accuracy_page.py --update-docs

examples: setup ## make the example runs inside the package anew
	$(VENV)/bin/zerosim simulate lesson-zero3 -o zerosim/examples/lesson-zero3
	$(VENV)/bin/zerosim simulate gpt2-1.5b -o zerosim/examples/gpt2-1.5b
	$(VENV)/bin/zerosim simulate five-parameters-old -o zerosim/examples/five-parameters-old
	$(VENV)/bin/zerosim simulate five-parameters -o zerosim/examples/five-parameters
	$(VENV)/bin/zerosim trace --nproc 3 lesson-zero3 -o zerosim/examples/lesson-zero3-gloo

equality: setup ## run the real engines beside the plans, and write docs/equality.md anew
	OMP_NUM_THREADS=1 PYTHONPATH=runtime $(PY) -m zerosim_runtime.equality --report docs/equality.md
	OMP_NUM_THREADS=1 PYTHONPATH=runtime $(PY) -m zerosim_runtime.equality.memory --report docs/equality-memory.md

proof: setup ## train every case of the ZeRO library beside DDP, 20 steps on 1 to 4 ranks: it takes a quarter of an hour
	OMP_NUM_THREADS=1 PYTHONPATH=runtime $(PY) -m zerosim_runtime.zero.proof
	OMP_NUM_THREADS=1 PYTHONPATH=runtime $(PY) -m zerosim_runtime.zero.proof.oracle

e2e: setup ## only the browser journeys
	$(PY) -m pytest -q -m e2e
