# `make` alone lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
RUN ?= runs/phrasebook
BIN := $(VENV)/bin
PACKAGE := $(BIN)/python -m keras_transformer
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SENTENCES := "I love you." "I love you" "She is reading a book." "Do you have time tomorrow?"

.PHONY: help train gpu test test-slow test-all lint format docs soak

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s%s\n", $$1, $$2 }' Makefile

# An existing run is resumed, never overwritten.
train: $(VENV)/.installed  ## train on the built-in corpus, print BLEU and some translations
	$(PACKAGE).train --run $(RUN) $(if $(wildcard $(RUN)),--resume)
	$(PACKAGE).evaluate --run $(RUN) --data builtin:phrasebook:test
	@echo
	@printf '%s\n' $(SENTENCES) | $(PACKAGE).translate --run $(RUN) \
		| paste -d '\t' <(printf '%s\n' $(SENTENCES)) -

gpu: $(VENV)/.installed  ## install the CUDA libraries, so that TensorFlow uses NVIDIA GPUs
	$(PIP) install "tensorflow[and-cuda]>=2.21.0,<2.22"
	$(BIN)/python -c 'import tensorflow as tf; print(tf.config.list_physical_devices("GPU"))'

test: $(VENV)/.installed-dev  ## run the quick tests, minutes on two cores
	$(BIN)/python -m pytest -q -n 2 --dist loadscope --no-loadscope-reorder -m "not slow"

test-slow: $(VENV)/.installed-dev $(VENV)/tensorflow-2.20/.installed  ## run the slow tests
	$(BIN)/python -m pytest -q -n 2 --dist loadscope --no-loadscope-reorder -m slow

test-all: test test-slow  ## run all tests

lint: $(VENV)/.installed-dev  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy keras_transformer tools

format: $(VENV)/.installed-dev  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.installed-docs  ## build the documents as a site in site/
	$(BIN)/python -m mkdocs build

# Goes on where an earlier call stopped; remove the folder to start again.
soak: $(VENV)/.installed-dev  ## endurance test: kills, signals, limits, server; an hour
	$(BIN)/python -m tools.soak --folder runs/soak --results docs/soak.json

# The stamps make a second call quick; a changed requirements file installs again.
$(VENV)/.installed: requirements.txt | $(VENV)/bin/python
	$(PIP) install -r requirements.txt
	touch $@

$(VENV)/.installed-dev: requirements.txt requirements-dev.txt requirements-docs.txt | $(VENV)/bin/python
	$(PIP) install -r requirements-dev.txt
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: requirements-docs.txt | $(VENV)/bin/python
	$(PIP) install -r requirements-docs.txt
	touch $@

# The oldest supported versions, for a test in a process of its own (PYTHONPATH); the tests of
# exports load the C++ libraries, which are those of TensorFlow Serving 2.20.
$(VENV)/tensorflow-2.20/.installed: | $(VENV)/bin/python
	$(PIP) install --no-deps --target $(VENV)/tensorflow-2.20 \
		tensorflow-cpu==2.20.0 tensorflow-text==2.20.0 tensorflow-serving-api==2.20.0 \
		keras==3.13.2 keras-nlp==0.26.0 keras-hub==0.26.0 sentencepiece==0.2.2 protobuf==5.29.6
	touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
		echo "Python 3.11 to 3.13 is needed (TensorFlow 2.21), $(PYTHON) is" \
			"$$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
