#!/usr/bin/python
"""Ansible module: removes old releases of a pipeline, never the one that runs."""

from __future__ import annotations

import os
import shutil

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: edgedla_prune
short_description: Remove old releases of a pipeline
description: Keeps the current release and the newest others.
options:
  base: {description: Folder of the pipeline., type: path, required: true}
  keep: {description: Releases that stay., type: int, default: 3}
author: The edgedla authors
"""
EXAMPLES = r"""
- name: Remove old releases
  edgedla_prune:
    base: /var/lib/edgedla/pipelines/front
"""
RETURN = r"""
removed: {description: Names of the releases., returned: always, type: list}
"""


def main():
    module = AnsibleModule(
        argument_spec={"base": {"type": "path", "required": True}, "keep": {"type": "int", "default": 3}},
        supports_check_mode=True,
    )
    base = os.path.join(module.params["base"], "releases")
    current = os.path.realpath(os.path.join(module.params["base"], "current"))
    paths = [os.path.join(base, n) for n in os.listdir(base)] if os.path.isdir(base) else []
    # A file or a link there is nobody's release.
    paths = [p for p in paths if os.path.isdir(p) and not os.path.islink(p)]
    others = sorted((p for p in paths if os.path.realpath(p) != current), key=os.path.getmtime, reverse=True)
    removed = others[max(module.params["keep"] - 1, 0) :]
    if not module.check_mode:
        for path in removed:
            shutil.rmtree(path)
    module.exit_json(changed=bool(removed), removed=[os.path.basename(p) for p in removed])


if __name__ == "__main__":
    main()
