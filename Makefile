# Needs Python 3.11 or newer and make; everything else is installed into .venv by the first target that wants it.
# Only the targets of the VS Code client (test-client, editor, vsix) need Node 20 or newer and npm.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
DIR ?= .
TESTS ?= tests

.PHONY: help demo test test-slow test-client editor vsix check check-lint check-format check-types check-rules check-pages
.PHONY: bench docs clean

help:
	@echo 'make demo DIR=folder   a session in that folder, without a key and read-only'
	@echo 'make test              the tests (TESTS=tests/core for a part)'
	@echo 'make test-slow         all tests, also those too slow for CI'
	@echo 'make test-client       the VS Code client, in Chromium and in a real VS Code'
	@echo 'make editor DIR=folder a VS Code in the browser with the client, on loopback'
	@echo 'make vsix              package the client'
	@echo 'make check             lint, format, types, import rules, generated pages (make -k check: all at once)'
	@echo 'make bench             measure the goals'
	@echo 'make docs              write the generated pages'

# Installing is done once for a state of these two files; the stamp remembers which.
.venv/.installed: pyproject.toml constraints.txt
	@test -n '$(PYTHON)' || { echo 'No Python 3.11 or newer found. Install one, or say make PYTHON=/path/to/python3.'; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
		{ echo 'Python cannot make a virtual environment here (on Debian: apt install python3-venv).'; rm -rf .venv; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/.installed
	@$(BIN)/ullage demo '$(DIR)'

test: .venv/.installed
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m 'not slow' $(TESTS)

test-slow: .venv/.installed
	$(BIN)/python -m pytest -q -n auto --dist loadfile $(TESTS)

CLIENT := client-vscode

$(CLIENT)/node_modules/.installed: $(CLIENT)/package-lock.json
	@command -v npm >/dev/null || { echo 'The client needs Node 20 or newer and npm (on Debian: apt install nodejs npm).'; exit 1; }
	cd $(CLIENT) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# Types, view models, the panel in headless Chromium, and one story in a real VS Code in the browser.
test-client: .venv/.installed $(CLIENT)/node_modules/.installed
	$(CLIENT)/test/chromium.sh
	$(CLIENT)/test/editor/install.sh
	cd $(CLIENT) && npm run --silent check && npm run --silent build && npm run --silent test && npm run --silent story

editor: .venv/.installed $(CLIENT)/node_modules/.installed
	$(CLIENT)/test/editor/install.sh
	cd $(CLIENT) && npm run --silent build && node test/editor/editor.mjs '$(abspath $(DIR))'

vsix: $(CLIENT)/node_modules/.installed
	cd $(CLIENT) && npm run --silent build && npm run --silent vsix

check: check-lint check-format check-types check-rules check-pages

check-lint: .venv/.installed
	$(BIN)/ruff check .

check-format: .venv/.installed
	$(BIN)/ruff format --check .

check-types: .venv/.installed
	$(BIN)/mypy

check-rules: .venv/.installed
	$(BIN)/python -m pytest -q tests/test_architecture.py

check-pages: .venv/.installed
	$(BIN)/python docs/generate.py --check

bench: .venv/.installed
	@set -- benchmarks/bench_*.py; test -e "$$1" || { echo 'There are no benchmarks yet.'; exit 1; }; \
	for bench in "$$@"; do $(BIN)/python "$$bench" || exit 1; done

docs: .venv/.installed
	$(BIN)/python docs/generate.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
