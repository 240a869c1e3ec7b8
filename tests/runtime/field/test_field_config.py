"""Pipeline files of version 2: names, references between models, and what is refused."""

from __future__ import annotations

import pytest

from edgedla.errors import DocumentError, UsageError
from edgedla.runtime.pipeline.config import load_config, name_sources, with_overrides
from edgedla.runtime.pipeline.settings import ModelConfig, PipelineConfig, SourceConfig

GOOD = """
version: 2
sources:
  gate: {uri: "rtsp://cam/1", weight: 2, priority: 1, max_rate: 10, latency: 200}
  yard: film.mp4
models:
  plates:
    artifact: plates
    devices: [DLA1]
    crops: {of: objects, classes: [car, truck], min_size: 32, most: 4}
    decode: {kind: classification}
  objects:
    artifact: detector
    devices: DLA0, GPU=other
    sources: [gate]
    every: 2
    batch_wait_ms: 5
    decode: {kind: yolov8, labels: a.txt}
  people: {artifact: detector, sources: yard, track: bytetrack, decode: {kind: ssd}}
"""


def load(tmp_path, text):
    (tmp_path / "a.txt").write_text("car\ntruck\n")
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return load_config(str(path))


def test_a_file_of_several_sources_and_models_is_read(tmp_path):
    config = load(tmp_path, GOOD)
    gate = config.sources["gate"]
    assert (gate.weight, gate.priority, gate.max_rate, gate.options) == (2.0, 1, 10.0, {"latency": 200})
    assert config.sources["yard"].uri == str(tmp_path / "film.mp4")
    assert list(config.named_models) == ["objects", "people", "plates"], "crops come after what they are cut from"
    objects = config.models["objects"]
    assert objects.devices == ("DLA0", f"GPU={tmp_path / 'other'}")
    assert (objects.every, objects.batch_wait_ms, objects.decode.labels) == (2, 5.0, ("car", "truck"))
    assert config.models["plates"].crops.classes == ("car", "truck")
    assert config.models["people"].sources == ("yard",)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("sources: [gate]", "sources: [gat]"), "models.objects.sources names 'gat'"),
        (("of: objects", "of: things"), "models.plates.crops.of is 'things'"),
        (("of: objects", "of: plates"), "models.plates.crops.of is 'plates'"),
        (("of: objects", "from: objects"), "unknown key 'models.plates.crops.from'"),
        (("crops: {of: objects, ", "crops: {"), "models.plates.crops.of is ''"),
        (("kind: yolov8", "kind: segmentation"), "objects finds no boxes"),
        (("most: 4", "most: 0"), "crops.most is 0"),
        (("every: 2", "every: 0"), "every is 0"),
        (("weight: 2", "wieght: 2"), "unknown key 'sources.gate.wieght'"),
        (("weight: 2", "maxrate: 2"), "did you mean max_rate?"),
        (("weight: 2", "weight: 0"), "sources.gate.weight is 0"),
        (("weight: 2", "weight: -1"), "sources.gate.weight is -1"),
        (("track: bytetrack", "track: sort"), "models.people.track is 'sort'"),
        (("gate:", "the gate:"), "the name 'the gate'"),
        (("gate:", "'../x':"), "letters, digits"),
        ((", sources: yard, track", ", sources: gate, track"), "no model takes frames of sources.yard"),
        (("artifact: plates", "sources: []"), "models.plates.artifact is missing"),
        (("version: 2", "version: 2\nplacement: p.json"), "both say where the model runs"),
        (("version: 2", "version: 2\ndecode: {kind: none}"), "it is a key of version 1"),
        (("version: 2", "version: 1"), "it is a key of version 2"),
        (("version: 2", "version: 2.0"), "version is 2.0"),
        (("models:", "modles:"), "did you mean models?"),
        (("  gate:", "  - gate:"), "not valid YAML"),
    ],
)
def test_contradicting_settings_are_named(tmp_path, change, says):
    assert change[0] in GOOD
    with pytest.raises(DocumentError) as e:
        load(tmp_path, GOOD.replace(*change, 1))
    assert says in str(e.value)
    assert "p.yaml" in str(e.value)


def test_a_cycle_of_crop_models_is_refused():
    from edgedla.runtime.decode.make_decoder import DecodeOptions
    from edgedla.runtime.pipeline.cascade import CropRule
    from edgedla.runtime.pipeline.config import check_names

    def model(of):
        return ModelConfig("x", crops=CropRule(of), decode=DecodeOptions("ssd"))

    config = PipelineConfig(sources={"s": SourceConfig("csi://0")}, models={"a": model("b"), "b": model("a")})
    with pytest.raises(UsageError, match="a, b form a cycle"):
        check_names(config)


def test_sources_of_the_command_line_are_named_or_numbered():
    named = name_sources(["csi://0", "gate=rtsp://cam/1", "synthetic://?rate=5"])
    assert {n: s.uri for n, s in named.items()} == {"cam0": "csi://0", "gate": "rtsp://cam/1", "cam2": "synthetic://?rate=5"}
    with pytest.raises(UsageError, match="given twice"):
        name_sources(["a=x.mp4", "a=y.mp4"])


def test_an_existing_file_with_an_equals_sign_is_not_a_named_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "take=1.mp4").touch()
    named = name_sources(["take=1.mp4", "gate=take=1.mp4"])
    assert {name: s.uri for name, s in named.items()} == {"cam0": "take=1.mp4", "gate": "take=1.mp4"}


def test_one_source_of_a_pipeline_file_can_be_overridden(tmp_path):
    config = with_overrides(load(tmp_path, GOOD), sources=["yard=synthetic://"])
    assert config.sources["yard"].uri == "synthetic://"
    assert config.sources["gate"].uri == "rtsp://cam/1"
    with pytest.raises(UsageError, match="names 'gate'"):
        with_overrides(load(tmp_path, GOOD), sources=["csi://0"])


def test_settings_of_one_model_are_refused_where_there_are_several(tmp_path):
    with pytest.raises(UsageError, match="is a setting of one model"):
        with_overrides(load(tmp_path, GOOD), decode={"score": 0.5})
    assert with_overrides(load(tmp_path, GOOD), stop_after={"frames": 3}).stop_after.frames == 3


def test_several_sources_share_one_model_without_a_file():
    config = with_overrides(None, artifact="a", sources=["csi://0", "csi://1"])
    assert list(config.named_sources) == ["cam0", "cam1"]
    assert list(config.named_models) == [""]
    assert with_overrides(None, artifact="a", sources=["csi://0"]).named_sources.keys() == {""}
