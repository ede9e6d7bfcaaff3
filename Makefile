# Everything is done in .venv, made by the first `python3` in PATH (or PYTHON=...), and in build/ and .cache/.
PYTHON ?= python3
PYTEST_FLAGS ?=
TURNS := $(if $(FULL),,--by-turns)

BIN := .venv/bin
# A stamp a step, so that nothing is done twice.
VENV := .venv/.made
TOOLS := .venv/.build-requirements
BUILT := .venv/.built
CHECKERS := .venv/.check-requirements
TESTERS := .venv/.test-requirements
NATIVE := $(wildcard native/*.cpp native/*/*.cpp native/*.h native/*/*.h bpf/*.c bpf/*.h)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Where it is set, as in images of Docker, each start of weft would compile all of weft again: that takes half a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{ printf "make %-8s %s\n", $$1, $$2 }'

.PHONY: build
build: $(BUILT)  ## the virtual environment and weft in it (editable; later builds are incremental)

.PHONY: demo
demo: build  ## record the bundled example and write its flame graph
	@$(BIN)/weft demo

.PHONY: test
test: setup  ## all tests, and what they need (root or sudo helps); FULL=1: of each interpreter with each collector
	@$(BIN)/pytest -n 3 --dist worksteal -m "not serial" $(TURNS) $(PYTEST_FLAGS)
	@$(BIN)/pytest -m serial $(TURNS) $(PYTEST_FLAGS) || [ $$? = 5 ]  # 5: there are none

.PHONY: setup
setup: build $(TESTERS)
	@$(BIN)/python scripts/setup_tests.py
	@$(BIN)/python tests/programs.py

.PHONY: check
check: build $(CHECKERS)  ## linters, formatters and types, changing nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(NATIVE)
	$(BIN)/python scripts/tidy.py

.PHONY: format
format: $(CHECKERS)  ## format Python and C++
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(NATIVE)

.PHONY: bench
bench: setup  ## weft beside its peers, on this machine, into docs/bench (QUICK=1: in a few minutes)
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

.PHONY: clean
clean:  ## remove what was built; the cache of test interpreters stays
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "make: $(PYTHON) is older than 3.11; say PYTHON=/path/to/a/newer/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	    { echo "make: $(PYTHON) has no venv; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv .venv
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

# What pyproject.toml asks for, and a cmake and a ninja that need no system packages.
$(TOOLS): pyproject.toml $(VENV)
	@echo "make: installing the build requirements (zig is the compiler)"
	@$(PIP) install cmake ninja $$($(BIN)/python -c 'import tomllib; \
	    print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
	@touch $@

$(BUILT): CMakeLists.txt $(wildcard cmake/*) $(NATIVE) $(TOOLS)
	@echo "make: building weft (the first time takes a minute or two: zig builds its C++ library)"
	@headers=$$(sh scripts/python_headers.sh $(BIN)/python) && PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install \
	    --no-build-isolation --editable . $${headers:+-Ccmake.define.Python_INCLUDE_DIR=$$headers}
	@touch $@

$(CHECKERS): pyproject.toml $(VENV)
	@$(PIP) install --group check --group test
	@touch $@

$(TESTERS): pyproject.toml $(VENV)
	@$(PIP) install --group test
	@touch $@
