# make demo: set up and run edgedla on a real model. make test: set up and run the suite. Everything stays in this folder.
PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= test,host
OUT ?= out

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test setup clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'
	$(BIN)/python -m compileall -q edgedla
	touch $@

setup: $(STAMP)

# The trained example network on a module with DLA, and a network that does not fit, with the reports people read.
demo: $(STAMP)
	mkdir -p $(OUT)
	$(BIN)/edgedla check examples/00_shapes_detector/shapes_detector.onnx --target orin-nx-16gb --fail-on unknown
	$(BIN)/python examples/01_check_a_model/make_model.py $(OUT)/street.onnx
	$(BIN)/edgedla check $(OUT)/street.onnx --target orin-nx-16gb --fail-on never -o - -o $(OUT)/street.html -o $(OUT)/street.json
	$(BIN)/edgedla check $(OUT)/street.onnx --compare xavier,orin@jp6.0,orin@jp6.2,orin-nano --fail-on never

test: $(STAMP)
	$(BIN)/python -m pytest -n 2

clean:
	rm -rf $(OUT) build dist .venv* .pytest_cache .mypy_cache .ruff_cache .hypothesis
