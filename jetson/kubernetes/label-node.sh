#!/usr/bin/env bash
# Labels a Kubernetes node by what `edgedla doctor` finds on it, so that pods go where their artifact was built for.
#
#   edgedla doctor --format json | jetson/kubernetes/label-node.sh NODE [--dry-run]
#   edgedla doctor --board orin1 --format json | jetson/kubernetes/label-node.sh orin1
#
# Labels: edgedla.dev/module, /jetpack, /tensorrt, /dla. What was not found takes its label away.
set -euo pipefail
node="${1:?usage: label-node.sh NODE [--dry-run] < doctor.json}"
dry="${2:-}"
[[ "$node" =~ ^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$ ]] || { echo "label-node.sh: $node is not the name of a node" >&2; exit 2; }
labels="$(python3 -c '
import json, re, sys
try:
    checks = {c["name"]: (c["state"], str(c["found"])) for c in json.load(sys.stdin)["checks"]}
except (ValueError, KeyError, TypeError, RecursionError):
    sys.exit("label-node.sh: not a document of edgedla doctor --format json")
for label, name in (("module", "module"), ("jetpack", "JetPack"), ("tensorrt", "TensorRT"), ("dla", "DLA in this release")):
    state, found = checks.get(name, (None, None))
    if label == "dla":
        found = None if state is None else str(state == "ok").lower()
    elif state != "ok":
        found = None
    good = found is not None and re.match(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?\Z", found)
    print(f"edgedla.dev/{label}={found}" if good else f"edgedla.dev/{label}-")
')"
mapfile -t words <<< "$labels"
if [ "$dry" = --dry-run ]; then
  printf '%s\n' "${words[@]}"
else
  kubectl label node "$node" --overwrite "${words[@]}"
fi
