# Two commands: `make demo` and `make test`. Both need Python 3.11+, make and the package registry, and can be repeated.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
DEMO   := find-living-thing,find-plant,identify-life-stages-1,inclined-plane-determine-angle,lifespan-longest-lived,use-thermometer

.PHONY: demo test lint docs install clean

demo: install
	$(BIN)/rsso-dspy compile --calib 1-per-task --method rsso --protocol sso-adapt/1-cap60 \
	  --jobs $(JOBS) -o runs/demo.json --tasks $(DEMO)
	$(BIN)/rsso-dspy evaluate runs/demo.json --unconfirmed --protocol sso-adapt/1-cap60 --trials 3 --per-task 2 \
	  --jobs $(JOBS) --out runs/demo
	$(BIN)/rsso-dspy report runs/demo --html runs/demo/report.html

test: install
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

docs: install
	$(BIN)/python -m rsso_dspy.cli.reference docs/CLI.md
	$(BIN)/python -m mkdocs build --strict --site-dir site

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rsso-dspy needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) site runs/demo runs/demo.json .pytest_cache .ruff_cache .mypy_cache
