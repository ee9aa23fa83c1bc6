# Two commands do everything: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN ?= runs/demo
# Installed once; the stamp is newer than pyproject.toml and constraints.txt when nothing is missing.
STAMP := $(VENV)/installed.test

.PHONY: help demo test test-thorough test-variants test-jax test-jax-thorough test-torch test-torch-thorough test-browser test-slow fuzz notebooks docs lint format wheel clean install

help:
	@echo "make demo       train RNNsearch on dates, evaluate, plot, export and query it"
	@echo "make test       the fast tests"
	@echo "make test-thorough every layer's training under XLA, every recipe's commands, other long tests"
	@echo "make test-variants the conformance suite for variants of layers with other arguments"
	@echo "make test-jax   the conformance suite on the JAX backend"
	@echo "make test-jax-thorough the same for every variant of a layer, and gradients in half precision"
	@echo "make test-torch the conformance suite on the PyTorch backend; test-torch-thorough as above"
	@echo "make test-slow  the tests that train or measure for minutes"
	@echo "make fuzz       a million random requests to an exported translator"
	@echo "make notebooks  run every notebook with little training"
	@echo "make test-browser the site, the explorer and the playground in Chromium, which must be installed"
	@echo "make docs       build the site into build/site; warnings are errors"
	@echo "make lint       what CI and pre-commit check"
	@echo "make wheel      build the wheel and test it away from the checkout"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 13); \
	sys.exit(0 if ok else "Python 3.11 to 3.13 is needed, this is %d.%d. Name another one: make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv "$(VENV)"
	"$(BIN)/python" -m pip install --quiet --upgrade pip
	"$(BIN)/python" -m pip install --quiet --editable ".[export,fonts,plot,serve]" --group test \
	  --constraint constraints.txt
	@touch "$(STAMP)"

demo: $(STAMP)
	@echo "== 1/5  train RNNsearch to write dates as ISO 8601"
	@rm -rf "$(RUN)"
	@"$(BIN)/python" -m examples train rnnsearch --run "$(RUN)" --units 128 --embedding-dim 64 \
	  --batch-size 128 --num-buckets 3 --epochs 6 --max-minutes 6 --learning-rate 0.002 --ema-decay 0.99
	@echo "== 2/5  measure it on dates it has never seen"
	@"$(BIN)/python" -m examples evaluate "$(RUN)" --beam-width 2
	@echo "== 3/5  plot what it attends to"
	@"$(BIN)/python" -m examples plot "$(RUN)" --output-dir "$(RUN)/plots"
	@echo "== 4/5  export it for TensorFlow Serving"
	@"$(BIN)/python" -m examples export "$(RUN)" "$(RUN)/served"
	@echo "== 5/5  query the SavedModel, without this library"
	@"$(BIN)/python" -m examples.predict "$(RUN)/served" "3. Mai 1979" "Thursday, 21 November 2024" \
	  "14 juillet 1989" "2001年9月8日"

docs: $(STAMP)
	"$(BIN)/python" -m pip install --quiet --group docs --constraint constraints.txt
	"$(BIN)/python" -m sphinx -c docs -W --keep-going -q . build/site
	@echo "build/site/index.html"

# Fails without a browser; the other targets skip its tests and say so.
test-browser: docs
	"$(BIN)/python" -m pip install --quiet --group browser --constraint constraints.txt
	KERAS_ATTENTION_REQUIRE_BROWSER=1 "$(BIN)/python" -m pytest -n auto --maxprocesses 4 --dist loadscope \
	  -m "browser and not slow"

test: $(STAMP)
	"$(BIN)/python" -m pytest -n auto --maxprocesses 4 --dist loadscope
	@echo "NOT RUN: tests in a browser; make test-browser runs them"

# In two parts: a process keeps what it compiled, 10 GB after all of them.
test-thorough: $(STAMP)
	"$(BIN)/python" -m pytest -n auto --maxprocesses 4 --dist worksteal -m "thorough and not slow and not variant" \
	  --ignore=tests/examples --ignore=tests/export
	"$(BIN)/python" -m pytest -n auto --maxprocesses 4 --dist worksteal -m "thorough and not slow and not variant" \
	  tests/examples tests/export

test-jax:
	PYTHON="$(PYTHON)" sh .ci/jax

test-jax-thorough:
	PYTHON="$(PYTHON)" sh .ci/jax -m "(thorough or variant) and not slow"

test-torch:
	PYTHON="$(PYTHON)" sh .ci/torch

test-torch-thorough:
	PYTHON="$(PYTHON)" sh .ci/torch -m "(thorough or variant) and not slow"

test-variants: $(STAMP)
	"$(BIN)/python" -m pytest -n auto --maxprocesses 4 --dist worksteal -m "variant and not slow"

test-slow: $(STAMP)
	"$(BIN)/python" -m pytest -m slow

fuzz: $(STAMP)
	"$(BIN)/python" tests/export/serving/fuzz.py --requests 1000000

notebooks: $(STAMP)
	"$(BIN)/python" -m pytest -n auto --maxprocesses 4 --dist load -m slow tests/examples/test_notebooks.py

lint: $(STAMP)
	"$(BIN)/python" -m ruff check .
	"$(BIN)/python" -m ruff format --check .
	"$(BIN)/python" tests/tools/check_vocabulary.py keras_attention export benchmarks examples tests \
	  README.md CONTRIBUTING.md docs/architecture.md docs/glossary.md

format: $(STAMP)
	"$(BIN)/python" -m ruff format .
	"$(BIN)/python" -m ruff check --fix .

wheel: $(STAMP)
	PYTHON="$(BIN)/python" sh .ci/wheel

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache
