# make demo: set up and run edgedla on a real model. make test: set up and run the suite. Everything stays in this folder.
PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= test,host
OUT ?= out
# Four on two cores: one in three tests mostly waits.
WORKERS ?= 4
# More arguments for pytest, for example PYTEST=--slow.
PYTEST ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test docs pictures setup contract-wheels attack mutants release floors clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'
	$(BIN)/python -m compileall -q edgedla
	touch $@

setup: $(STAMP)

# Check, place, build, accuracy and a run over a video, with a trained detector; files land in $(OUT).
demo: $(STAMP)
	$(BIN)/python examples/demo.py $(OUT)

test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -rsfE $(PYTEST)

# The documentation: build/docs/site/VERSION. Show it with `python -m http.server -d build/docs/site`. zensical needs Python 3.11.
DOCS := .venv-docs
DOCS_PYTHON ?= $(firstword $(foreach version,3.12 3.11 3.13,$(shell .ci/find-python $(version))) $(PYTHON))
$(DOCS)/.installed: pyproject.toml
	test -x $(DOCS)/bin/python || $(DOCS_PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make docs needs Python 3.11: DOCS_PYTHON=python3.12")'
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

docs: $(DOCS)/.installed
	$(DOCS)/bin/python -m docs.generator build/docs
	$(DOCS)/bin/zensical build --clean --strict -f build/docs/mkdocs.yml
	$(DOCS)/bin/python -m docs.generator.search_order build/docs/site
	$(DOCS)/bin/python -m docs.generator.versions build/docs/site
	$(DOCS)/bin/python -m docs.generator.check_site build/docs/site

# The pictures of README and documentation, with the figures that they show as JSON; needs Chromium. For example PICTURES="worth fix".
PICTURES ?=
pictures: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pillow nbconvert ipykernel pandas
	$(BIN)/python docs/make_pictures.py $(PICTURES)

# The Python bindings of four TensorRT releases (thin, without TensorRT), which tests/contract reads.
contract-wheels: $(STAMP)
	$(BIN)/python tests/contract/fetch_wheels.py

# Hours of mutated models, killed builds, changed artifacts and a camera that breaks; figures in benchmarks/results.
# For example ATTACK="--models 200000 --kills 2000 --tampers 10000 --soak-minutes 30 --seed 2".
ATTACK ?= --models 200000 --kills 2000 --tampers 10000 --soak-minutes 30 --unmutated --files 2000 --processes 200
attack: $(STAMP)
	$(BIN)/python -m tests.hostile.attack $(ATTACK) -o benchmarks/results/attack.json

# Share of sampled small changes of the code, in every room, that the tests of the room notice; hours. Figures in
# benchmarks/results/mutants.json. For example MUTANTS="--rooms rules regions --sample 60 --seed 2".
MUTANTS ?= --sample 50
mutants: $(STAMP)
	$(BIN)/python benchmarks/mutants.py $(MUTANTS)

# dist/: sdist, wheel, CycloneDX bill of materials, SHA256SUMS; the wheel tried in fresh environments of Python 3.8, 3.10, 3.12, 3.13.
release:
	.ci/release $(PYTHON)

# Fresh installs at the lowest and the newest versions that pyproject.toml allows, under four Pythons, each with the demo; minutes.
# Table in benchmarks/results/floors.txt. For example FLOORS="3.8 3.13".
FLOORS ?= 3.8 3.10 3.12 3.13
floors:
	.ci/floors $(FLOORS)

clean:
	rm -rf $(OUT) build dist .venv* .pytest_cache .mypy_cache .ruff_cache .hypothesis
