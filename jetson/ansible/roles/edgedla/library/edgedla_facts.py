#!/usr/bin/python
"""Ansible module: what a board is and runs, as ansible_facts.edgedla."""

from __future__ import annotations

import json
import os

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: edgedla_facts
short_description: What a Jetson is, and what of edgedla runs on it
description:
  - Reports module, JetPack, TensorRT and edgedla as C(edgedla doctor) finds them, and the releases of every pipeline.
  - What is not there is null; the module does not fail on a board without edgedla.
options:
  venv: {description: Environment of edgedla on the board., type: path, default: /opt/edgedla}
  state: {description: Folder of the pipelines' releases., type: path, default: /var/lib/edgedla/pipelines}
author: The edgedla authors
"""
EXAMPLES = r"""
- name: Look at the board
  edgedla_facts:
"""
RETURN = r"""
ansible_facts:
  description: C(edgedla) with module, jetpack, tensorrt, edgedla, dla_ok and pipelines.
  returned: always
  type: dict
"""
#: Findings of `edgedla doctor` by the fact that they are.
FACTS = {"module": "module", "JetPack": "jetpack", "TensorRT": "tensorrt"}


def main():
    module = AnsibleModule(
        argument_spec={
            "venv": {"type": "path", "default": "/opt/edgedla"},
            "state": {"type": "path", "default": "/var/lib/edgedla/pipelines"},
        },
        supports_check_mode=True,
    )
    facts = {"module": None, "jetpack": None, "tensorrt": None, "edgedla": None, "dla_ok": None}
    program = os.path.join(module.params["venv"], "bin", "edgedla")
    if os.access(program, os.X_OK):
        rc, out, _ = module.run_command([program, "--version"])
        facts["edgedla"] = out.split()[-1] if rc == 0 and out.split() else None
        # 4: something is missing on the board, and the findings say what.
        rc, out, _ = module.run_command([program, "doctor", "--format", "json"])
        if rc in (0, 4):
            found = read_doctor(out)
            facts.update(found)
    facts["pipelines"] = pipelines(module.params["state"])
    module.exit_json(changed=False, ansible_facts={"edgedla": facts})


def read_doctor(text):
    """The findings that are facts, of those that are in order."""
    try:
        checks = json.loads(text)["checks"]
        by_name = {c["name"]: c for c in checks}
        found = {fact: by_name[name]["found"] for name, fact in FACTS.items() if by_name.get(name, {}).get("state") == "ok"}
        dla = by_name.get("DLA in this release")
        return dict(found, dla_ok=None if dla is None else dla["state"] == "ok")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def pipelines(base):
    """Pipeline -> its current release and that release's artifact."""
    found = {}
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        here = os.path.join(base, name)
        current = os.path.join(here, "current")
        releases = os.path.join(here, "releases")
        if not os.path.isdir(releases):
            continue
        found[name] = {
            "current": os.path.basename(os.readlink(current)) if os.path.islink(current) else None,
            "releases": sorted(os.listdir(releases)),
            "artifact": manifest(os.path.join(current, "artifact", "manifest.json")),
        }
    return found


def manifest(path):
    # A pipe there would never end.
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        return {
            "digest": document["digest"],
            "model": document["model"].get("name"),
            "target": document["platform"].get("target"),
            "tensorrt": document["software"].get("tensorrt"),
            "simulated": document["simulated"],
        }
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None


if __name__ == "__main__":
    main()
