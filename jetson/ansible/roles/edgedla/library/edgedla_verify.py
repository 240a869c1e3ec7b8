#!/usr/bin/python
"""Ansible module: verifies an artifact and a pipeline file on the board that is to run them."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: edgedla_verify
short_description: Verify an edgedla artifact on the board that is to run it
description:
  - Every file's size and SHA-256, the digest, and that module, TensorRT and JetPack are those of this board.
  - The pipeline file is read as C(edgedla run) reads it.
  - In check mode a release that was not copied yet is not verified.
options:
  venv: {description: Environment of edgedla on the board., type: path, default: /opt/edgedla}
  artifact: {description: The artifact's folder., type: path, required: true}
  digest: {description: The digest that it must have., type: str, required: true}
  pipeline: {description: The pipeline file., type: path}
author: The edgedla authors
"""
EXAMPLES = r"""
- name: Verify the release
  edgedla_verify:
    artifact: /var/lib/edgedla/pipelines/front/releases/1/artifact
    digest: 0123
"""
RETURN = r"""
digest: {description: What was verified., returned: success, type: str}
"""
CODE = """
import sys
from edgedla.builder.artifact.load import Running, load_artifact
from edgedla.builder.tensorrt.bindings import installed_version
from edgedla.runtime.pipeline.config import load_config
from edgedla.targets.board import this_board
board = this_board()
here = Running(board and board.target, installed_version(), board and board.jetpack)
artifact = load_artifact(sys.argv[1], on=here)
if artifact.digest != sys.argv[2]:
    sys.exit(f"{sys.argv[1]}: digest {artifact.digest[:16]}, not {sys.argv[2][:16]}")
if len(sys.argv) > 3:
    load_config(sys.argv[3])
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "venv": {"type": "path", "default": "/opt/edgedla"},
            "artifact": {"type": "path", "required": True},
            "digest": {"type": "str", "required": True},
            "pipeline": {"type": "path"},
        },
        supports_check_mode=True,
    )
    p = module.params
    if module.check_mode and not os.path.exists(os.path.join(p["artifact"], "manifest.json")):
        module.exit_json(changed=False, skipped=True, msg="not copied yet")
    words = [os.path.join(p["venv"], "bin", "python"), "-c", CODE, p["artifact"], p["digest"]]
    rc, _, err = module.run_command(words + ([p["pipeline"]] if p["pipeline"] else []))
    if rc:
        module.fail_json(msg="the release does not verify on this board: " + (err.strip().splitlines() or ["?"])[-1], stderr=err)
    module.exit_json(changed=False, digest=p["digest"])


if __name__ == "__main__":
    main()
