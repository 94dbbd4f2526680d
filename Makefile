# `make` alone lists what there is.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
RUN ?= runs/phrasebook
BIN := $(VENV)/bin
PACKAGE := $(BIN)/python -m keras_transformer
SENTENCES := "I love you." "I love you" "She is reading a book." "Do you have time tomorrow?"

.PHONY: help train test test-slow test-all lint format docs

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s%s\n", $$1, $$2 }' Makefile

# A run that is there already is finished, never overwritten.
train: $(VENV)/.installed  ## train on the built-in corpus, print BLEU and some translations
	$(PACKAGE).train --run $(RUN) $(if $(wildcard $(RUN)),--resume)
	$(PACKAGE).evaluate --run $(RUN) --data builtin:phrasebook:test
	@echo
	@printf '%s\n' $(SENTENCES) | $(PACKAGE).translate --run $(RUN) \
		| paste -d '\t' <(printf '%s\n' $(SENTENCES)) -

test: $(VENV)/.installed-dev  ## run the tests that take seconds
	$(BIN)/python -m pytest -q -m "not slow"

test-slow: $(VENV)/.installed-dev $(VENV)/serving-2.20/.installed  ## run the tests that take minutes
	$(BIN)/python -m pytest -q -m slow

test-all: test test-slow  ## run every test

lint: $(VENV)/.installed-dev  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy keras_transformer tools

format: $(VENV)/.installed-dev  ## put the code into the agreed format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.installed-docs  ## build the documents as a site in site/
	$(BIN)/mkdocs build

# The stamps make a second call quick; a changed requirements file installs again.
$(VENV)/.installed: requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/.installed-dev: requirements.txt requirements-dev.txt requirements-docs.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: requirements-docs.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	touch $@

# The libraries of TensorFlow Serving 2.20, which exports are tried in; no Python of theirs runs.
$(VENV)/serving-2.20/.installed: | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--target $(VENV)/serving-2.20 tensorflow-cpu==2.20.0 tensorflow-text==2.20.0
	touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
		echo "Python 3.11 to 3.13 is needed (TensorFlow 2.21), $(PYTHON) is" \
			"$$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
