"""Commands that take an artifact take the folder of the deployment that it stands in."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedla.io.documents import artifact_folder


@pytest.fixture
def deployed(tmp_path: Path) -> Path:
    (tmp_path / "artifact").mkdir()
    (tmp_path / "artifact" / "manifest.json").write_text("{}")
    (tmp_path / "deployment.json").write_text("{}")
    return tmp_path


def test_a_deployments_folder_means_its_artifact(deployed: Path) -> None:
    inside = deployed / "artifact"
    assert artifact_folder(deployed) == inside
    assert artifact_folder(str(inside)) == inside
    assert artifact_folder(inside / "manifest.json") == inside


def test_a_folder_that_is_no_deployment_or_an_artifact_itself_means_itself(deployed: Path) -> None:
    (deployed / "deployment.json").unlink()
    assert artifact_folder(deployed) == deployed
    (deployed / "deployment.json").write_text("{}")
    (deployed / "manifest.json").write_text("{}")
    assert artifact_folder(deployed) == deployed
