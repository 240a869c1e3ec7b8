"""The notebook of the examples runs from its first cell to its last in Jupyter's own kernel, and its results show their pages."""

from __future__ import annotations

import ast
import html
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

pytestmark = pytest.mark.once

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOK = EXAMPLES / "11_in_a_notebook" / "check.ipynb"
#: Folders that the notebook reads.
NEEDS = ("00_shapes_detector", "11_in_a_notebook", "12_mobilenet")


def cells() -> List[Dict[str, Any]]:
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (document["nbformat"], {cell["cell_type"] for cell in document["cells"]}) == (4, {"markdown", "code"})
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def test_it_is_kept_without_outputs_and_each_cell_is_python() -> None:
    for cell in cells():
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        source = "".join(cell["source"])
        if not source.startswith("!"):
            ast.parse(source)


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 10), reason="fix needs Python 3.10")
def test_it_runs_in_a_kernel_and_its_results_are_pages(tmp_path: Path) -> None:
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install -e .[test] brings it")
    client = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install -e .[test] brings it")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed; nbclient brings it")
    for name in NEEDS:
        shutil.copytree(EXAMPLES / name, tmp_path / name)
    folder = tmp_path / "11_in_a_notebook"
    notebook = nbformat.read(str(NOTEBOOK), as_version=4)
    client.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pages = [o["data"]["text/html"] for o in outputs if "text/html" in o.get("data", {})]
    framed = [page for page in pages if page.startswith("<iframe sandbox=")]
    titles = [re.findall("<title>(.*?)</title>", html.unescape(page))[0] for page in framed]
    # The check, the placement, the results of fix, quantize and deploy.
    assert titles[0].startswith("shapes_detector on Jetson Orin NX")
    assert len(titles) == 5
    assert titles[2] == "mobilenet_v3_small fixed"
    assert titles[4] == "shapes_detector deployed"
    # The prediction has no page of its own.
    assert any(page.startswith("<pre>Jetson Orin NX") for page in pages)
    plain = "".join(o["text"] for o in outputs if o["output_type"] == "stream" and o["name"] == "stdout")
    assert plain.startswith("shapes_detector on orin-nx-16gb, int8: ALL ON THE DLA")
    assert "does not fit orin-nx-16gb" in plain
    assert "ACTIVATION stem/act [stem]: ACT001 HARD_SIGMOID" in plain, "the failure names layers and rules"
    forms = {f"check.{ending}" for ending in ("html", "json", "md", "sarif", "xml", "csv", "txt", "ipynb")}
    kept = {"README.md", "deployed", "dla.json", "fixed.onnx", "mobilenet_v3_small.onnx"}
    assert {path.name for path in folder.iterdir() if not path.name.startswith((".", "__"))} == forms | kept
