# Two commands: `make demo` and `make test`. Both need Python 3.11+, make and the package registry, and can be repeated.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
RSSO   := $(BIN)/rsso-dspy
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# What `make demo` shows: a recorded run of a language model, and two parts that the embedded player plays by its rules.
# Neither method holds skills, so no embedder is asked for anything.
DEMO     := examples/recorded/house-rules-one
CEILING  := --ceiling react+constitution+hand
RECORDED := examples/recorded/babyai-2x2
RULES    := --protocol adapt/4 --set protocol.trials=3 --set protocol.steps=20

.PHONY: demo test lint docs install install-demo clean

demo: install-demo
	@echo "1 of 3: a small language model in a repository with rules of its own, without a memory and with four of them: 96"
	@echo "held-out requests, replayed from its log without the model; then what it did where skill is asked for, in BabyAI"
	@mkdir -p runs/demo
	$(RSSO) run --replay $(DEMO) --out runs/demo/replayed > runs/demo/replayed.txt 2>&1 || { cat runs/demo/replayed.txt; exit 1; }
	@$(RSSO) report runs/demo/replayed $(CEILING) | sed -n '/^How much of the room/,/^$$/p'
	$(RSSO) report runs/demo/replayed $(CEILING) --html runs/demo/report.html > runs/demo/report.txt
	@awk -v RS= 'END { print }' runs/demo/report.txt
	@echo; $(RSSO) report $(RECORDED) --against react | awk -v RS= 'END { print }'
	@echo; echo "2 of 3: equal retries and reflections on three variants, played here by rules: what is written after a trial is read in the next"
	$(BIN)/python examples/watch_it_learn.py
	@echo; echo "3 of 3: two instructions by hand, one kind, one that knows animals: a compile tells which of them helps"
	$(RSSO) compile --method reflexion --candidates examples/lifespans/candidates.toml --calib 3-per-task \
	  --tasks lifespan-longest-lived $(RULES) --jobs $(JOBS) -o runs/demo/program.json
	@echo; echo "Open runs/demo/report.html: every prompt, answer and trial of the recorded run. Then play your own model:"
	@echo "  . .venv/bin/activate && rsso-dspy run --model PROVIDER/NAME --methods react,reflexion --per-task 1 --dry-run"
	@echo "Read on: docs/TUTORIAL.md"

test: install
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

docs: install
	$(BIN)/python -m typer rsso_dspy.cli.app utils docs --name rsso-dspy --title "Command line" --output docs/CLI.md
	$(BIN)/python -m mkdocs build --strict --site-dir site

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What the demo needs: no torch, embedding model, Ray or browser.
install-demo: $(VENV)/.installed-demo

install: $(VENV)/.installed

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rsso-dspy needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --no-compile --no-cache-dir -e .
	@touch $@

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.installed-demo

clean:
	rm -rf $(VENV) site runs/demo .pytest_cache .ruff_cache .mypy_cache
