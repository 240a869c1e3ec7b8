"""The Kubernetes manifests: against official schemas if installed, and properties that no schema states."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from edgedla.runtime.health.endpoint import HEALTH_PATH, PATHS
from edgedla.runtime.pipeline.config import load_config
from tests.amounts import amount
from tests.hostile.values import bytes_changed, changed

FOLDER = Path(__file__).resolve().parents[2] / "jetson/kubernetes"
MANIFEST = FOLDER / "edgedla.yaml"
VALIDATE = shutil.which("kubernetes-validate", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


@pytest.fixture
def objects():
    return {d["kind"]: d for d in yaml.safe_load_all(MANIFEST.read_text())}


@pytest.mark.skipif(VALIDATE is None, reason="kubernetes-validate is not installed (pip install kubernetes-validate)")
def test_the_official_schemas_take_every_object():
    done = subprocess.run([VALIDATE, "--strict", str(MANIFEST)], capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    # It only warns of an API version that is gone.
    assert "WARN" not in said, said


def test_selectors_find_the_pods(objects):
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert objects["Service"]["spec"]["selector"].items() <= labels.items()


def test_probes_use_the_pipelines_metrics_port_and_paths(objects, tmp_path):
    container = objects["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    (tmp_path / "p.yaml").write_text(objects["ConfigMap"]["data"]["pipeline.yaml"])
    metrics = load_config(str(tmp_path / "p.yaml")).metrics
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    assert ports["metrics"] == metrics.prometheus_port
    assert metrics.address == "0.0.0.0", "a probe comes from outside the container"
    assert container["readinessProbe"]["httpGet"] == {"path": HEALTH_PATH, "port": "metrics"}
    assert {container[p]["httpGet"]["path"] for p in ("livenessProbe", "startupProbe")} <= set(PATHS)


def test_volumes_and_runtime_class_are_defined(objects):
    spec = objects["Deployment"]["spec"]["template"]["spec"]
    assert spec["runtimeClassName"] == objects["RuntimeClass"]["metadata"]["name"]
    mounted = {m["name"] for m in spec["containers"][0]["volumeMounts"]}
    assert mounted == {v["name"] for v in spec["volumes"]}
    assert spec["volumes"][0]["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
    # A host path without a type is made as a folder where it is missing: in place of the socket of the cameras' daemon too.
    assert all(v["hostPath"].get("type") for v in spec["volumes"] if "hostPath" in v)
    container = spec["containers"][0]
    home = next(e["value"] for e in container["env"] if e["name"] == "HOME")
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert home in {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}


def label(document, node="orin1"):
    return subprocess.run(
        ["bash", str(FOLDER / "label-node.sh"), node, "--dry-run"], input=document, capture_output=True, text=True
    )


def test_node_labels_are_those_of_the_manifest(objects):
    checks = [
        ("module", "ok", "agx-orin-64gb"),
        ("JetPack", "warn", "L4T 99"),
        ("TensorRT", "ok", "10.3.0"),
        ("DLA in this release", "ok", "2 cores"),
    ]
    document = json.dumps({"checks": [{"name": n, "state": s, "found": f} for n, s, f in checks]})
    done = label(document)
    assert done.stdout.split() == [
        "edgedla.dev/module=agx-orin-64gb",
        "edgedla.dev/jetpack-",
        "edgedla.dev/tensorrt=10.3.0",
        "edgedla.dev/dla=true",
    ]
    wanted = objects["Deployment"]["spec"]["template"]["spec"]["nodeSelector"]
    assert {f"{k}={v}" for k, v in wanted.items()} <= set(done.stdout.split())
    assert label("[]").returncode == 1
    assert label(document, "a;b").returncode == 2


@pytest.mark.parametrize("number", range(amount(8, 500)))
def test_a_document_that_somebody_changed_labels_nothing_or_only_what_a_label_may_hold(number):
    """Never a traceback, a word that is no label, or half of the labels."""
    rng = random.Random(number)
    rows = [("module", "agx-orin-64gb"), ("JetPack", "6.1"), ("TensorRT", "10.3.0"), ("DLA in this release", "2 cores")]
    text = json.dumps(changed({"checks": [{"name": n, "state": "ok", "found": f} for n, f in rows]}, rng))
    if number % 4 == 3:
        text = bytes_changed(text.encode(), rng).decode("utf-8", "surrogateescape")
    done = subprocess.run(
        ["bash", str(FOLDER / "label-node.sh"), "orin1", "--dry-run"],
        input=text.encode("utf-8", "surrogateescape"),
        capture_output=True,
    )
    said = done.stdout.decode() + done.stderr.decode("utf-8", "replace")
    assert "Traceback" not in said
    lines = done.stdout.decode().splitlines()
    assert len(lines) == (4 if done.returncode == 0 else 0)
    assert all(re.fullmatch(r"edgedla\.dev/\w+(-|=[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)", line) for line in lines)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"checks": [3]}', '{"checks": [{"name": [], "state": "ok", "found": 1}]}', "", "null"]
)
def test_what_is_no_document_of_doctor_is_refused_in_words(text):
    done = label(text)
    assert done.returncode == 1
    assert done.stderr.strip() == "label-node.sh: not a document of edgedla doctor --format json"
