"""Models in memory: detected by class without an import, exported, compared with themselves, left unchanged."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.conversion.objects import object_kind, saved
from edgedla.errors import ModelError, UsageError

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
needs_keras = pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow is not installed")


def instance(*names: str) -> Any:
    """Of a class that derives from classes with these dotted names, the base first."""
    bases: Any = ()
    for name in names:
        module, _, own = name.rpartition(".")
        bases = (type(own, bases, {"__module__": module}),)
    return bases[0]()


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["torch.nn.modules.module.Module", "mine.Net"], "module"),
        (["torch.nn.modules.module.Module", "torch.jit._script.ScriptModule", "torch.jit._trace.Traced"], "script"),
        (["torch.export.exported_program.ExportedProgram"], "program"),
        (["keras.src.models.model.Model", "mine.Net"], "keras"),
        (["tensorflow.python.module.module.Module", "tensorflow.python.keras.engine.training.Model"], "keras"),
        (["tensorflow.python.module.module.Module", "mine.Net"], "tensorflow"),
        (["onnx.onnx_ml_pb2.ModelProto"], None),
        (["mine.Module"], None),
    ],
)
def test_models_are_detected_by_their_classes(names: Any, kind: Any) -> None:
    assert object_kind(instance(*names)) == kind


def test_objects_of_other_classes_are_refused() -> None:
    assert [object_kind(x) for x in ("m.pt2", Path("m.pt2"), b"", None, 3)] == [None] * 5
    with pytest.raises(UsageError, match="a dict is not a model"):
        edgedla.convert({})


@needs_torch
def test_a_pytorch_module_is_exported_and_compared() -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Dropout(), torch.nn.ReLU()).train()
    made = edgedla.convert(net, example_inputs=torch.zeros(1, 3, 8, 8))
    assert made.within
    assert (made.kind, made.exporter, made.opset, made.source) == ("module", "torchscript", 17, "Sequential")
    assert net.training
    sized = edgedla.convert(net, shapes={"": [1, 3, 8, 8]})
    assert sized.within
    with pytest.raises(UsageError, match="sizes of its inputs"):
        edgedla.convert(net)


@needs_torch
@pytest.mark.slow
def test_programs_and_scripts_in_memory_give_the_same_network() -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    x = torch.zeros(1, 3, 8, 8)
    every = [
        edgedla.convert(net, example_inputs=x),
        edgedla.convert(torch.export.export(net, (x,))),
        edgedla.convert(torch.jit.trace(net, x), example_inputs=x),
    ]
    assert [m.within for m in every] == [True] * 3
    verdicts = [[(n.type, str(n.placed)) for n in edgedla.check(m.model, target="orin").layers] for m in every]
    assert verdicts[0] == verdicts[1] == verdicts[2]


@needs_torch
def test_integer_inputs_are_compared_with_their_values() -> None:
    import torch

    class Lookup(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(100, 4)

        def forward(self, words: Any) -> Any:
            return {"vectors": self.table(words), "more": [words.float()]}

    assert edgedla.convert(Lookup(), example_inputs={"words": torch.tensor([[99, 3]])}).within


@needs_torch
def test_a_pytorch_module_is_deployed(tmp_path: Path) -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
    options: Any = {"target": "agx-orin-64gb", "backend": "host", "level": 0, "place": "dla"}
    made = edgedla.deploy(net, tmp_path, example_inputs=torch.zeros(1, 3, 8, 8), **options)
    document = made.to_dict()
    assert (document["model"], document["conversion"]["within"]) == ("Sequential", True)
    assert "converted Sequential by torchscript" in made.render("text")
    x = np.ones((1, 3, 8, 8), np.float32)
    outputs = made.run(x)
    with torch.no_grad():
        expected = net.eval()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(next(iter(outputs.values())), expected, rtol=2e-2, atol=2e-3)


@needs_keras
@pytest.mark.slow
def test_a_keras_model_is_converted_from_memory() -> None:
    import keras

    made = edgedla.convert(keras.Sequential([keras.layers.Input((8, 8, 3)), keras.layers.Conv2D(4, 3), keras.layers.ReLU()]))
    assert made.within
    assert made.source == "Sequential"
    assert edgedla.check(made.model, target="orin").totals.macs > 0


@needs_keras
@pytest.mark.slow
def test_a_keras_file_of_layers_in_a_row_is_converted(tmp_path: Path) -> None:
    import keras

    net = keras.Sequential([keras.layers.Input((None, None, 3)), keras.layers.Conv2D(4, 3, name="last")])
    net.save(tmp_path / "m.keras")
    made = edgedla.convert(tmp_path / "m.keras", shapes={"": [1, 8, 8, 3]})
    assert made.within
    (output,) = onnx.load_from_string(made.model).graph.output
    assert output.name == "last"


@needs_keras
@pytest.mark.slow
def test_a_keras_model_is_deployed(tmp_path: Path) -> None:
    import keras

    net = keras.Sequential([keras.layers.Input((8, 8, 3), batch_size=1), keras.layers.Conv2D(4, 3), keras.layers.ReLU()])
    made = edgedla.deploy(net, tmp_path, target="agx-orin-64gb", backend="host", level=1, place="dla")
    document = made.to_dict()
    assert (document["model"], document["conversion"]["within"]) == ("Sequential", True)
    x = np.random.default_rng(0).standard_normal((1, 8, 8, 3)).astype(np.float32)
    outputs = made.run(x)
    np.testing.assert_allclose(next(iter(outputs.values())), np.asarray(net(x)), rtol=2e-2, atol=2e-3)


@needs_keras
@pytest.mark.slow
def test_a_keras_model_of_two_inputs_takes_its_sizes_from_examples() -> None:
    import keras

    sides = [keras.layers.Input((4,), name="left"), keras.layers.Input((4,), name="right")]
    net = keras.Model(sides, keras.layers.Dense(2)(keras.layers.Add()(sides)))
    made = edgedla.convert(net, example_inputs={"left": np.zeros((1, 4)), "right": np.zeros((1, 4))})
    assert made.within


@needs_keras
def test_a_keras_model_without_weights_is_refused_by_name() -> None:
    import keras

    with pytest.raises(ModelError, match="cannot be saved") as caught:
        edgedla.convert(keras.Sequential([keras.layers.Dense(3)], name="unbuilt"))
    assert caught.value.where == "Sequential"


def test_a_model_whose_own_code_ends_the_program_is_refused_by_name() -> None:
    class Model:
        def export(self, *_: object, **__: object) -> None:
            sys.exit(0)

    with pytest.raises(ModelError, match="cannot be saved: SystemExit: 0") as caught, saved(Model(), "keras", None):
        pass
    assert caught.value.where == "Model"
