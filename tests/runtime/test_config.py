"""Pipeline files are read strictly."""

from __future__ import annotations

import pytest

from edgedla.errors import DocumentError
from edgedla.runtime.pipeline.config import load_config

GOOD = "version: 1\nartifact: a\nsource: csi://0\n"


def load(tmp_path, text):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return load_config(str(path))


def test_paths_are_relative_to_the_file(tmp_path):
    config = load(tmp_path, "version: 1\nartifact: a\nsource: film.mp4\noutputs: {jsonl: out/r.jsonl}\n")
    assert config.artifact == str(tmp_path / "a")
    assert config.source.uri == str(tmp_path / "film.mp4")
    assert config.outputs.jsonl == str(tmp_path / "out/r.jsonl")


def test_source_options_are_given_next_to_the_uri(tmp_path):
    config = load(tmp_path, "version: 1\nartifact: a\nsource: {uri: 'csi://0', width: 1280, flip: rotate-180}\n")
    assert config.source.options == {"width": 1280, "flip": "rotate-180"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty"),
        ("- 1", "is a mapping"),
        ("a: [", "not valid YAML"),
        ("version: 3\nartifact: a\nsource: x", "version is 3"),
        ("version: 2\nartifact: a\nsource: x", "it is a key of version 1"),
        ("artifact: a\nsource: x", "version is missing (allowed: version: 1, version: 2)"),
        ("version:\nartifact: a\nsource: x", "version is missing"),
        ("version: 1\nsource: x", "artifact is missing"),
        ("version: 1\nartifact: a", "source is missing"),
        (GOOD + "devises: [DLA0]", "did you mean devices"),
        (GOOD + "decode: {scroe: 1}", "did you mean score"),
        ("version: 1\nartifact: a\nsource: {uri: x, ratte: 5}", "did you mean rate"),
        (GOOD + "decode: {score: high}", "a number"),
        (GOOD + "decode: {reg_max: 1.5}", "a whole number"),
        (GOOD + "decode: [yolov8]", "a mapping"),
        (GOOD + "metrics: 8080", "(allowed: a mapping with any of jsonl, "),
        (GOOD + "preprocess: {mean: [1, 2]}", "3 numbers"),
        (GOOD + "capture: {reconnect: 1}", "true, false"),
        (GOOD + "artifact: b", "appears twice"),
        (GOOD + "outputs: {jsonl: 5}", "put it in quotes"),
        (GOOD + "outputs: {jsonl: r, rotate_mb: 1, keep: 1000000000}", "outputs.keep is 1000000000 (allowed: up to 10000)"),
        (GOOD + "metrics: {jsonl: m, keep: 10001}", "metrics.keep is 10001"),
        (GOOD + "capture: {stall_s: 0}", "capture.stall_s is 0 (allowed: 0.1 or more)"),
        (GOOD + "metrics: {prometheus_port: 65536}", "metrics.prometheus_port is 65536"),
        (GOOD + 'metrics: {address: "\N{FOX FACE}"}', "metrics.address is"),
        (GOOD + 'view: {port: 80, address: ""}', "view.address is ''"),
    ],
)
def test_errors_name_the_mistake_and_the_allowed_values(tmp_path, text, says):
    with pytest.raises(DocumentError) as e:
        load(tmp_path, text)
    assert says in str(e.value)
    assert "p.yaml" in str(e.value)


def test_a_missing_file_is_a_document_error(tmp_path):
    with pytest.raises(DocumentError, match="cannot be read"):
        load_config(str(tmp_path / "no.yaml"))
