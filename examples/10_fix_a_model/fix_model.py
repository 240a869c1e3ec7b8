"""Says what `edgedla fix` would rewrite in a model, and how far each place is proven.

python fix_model.py MODEL
"""

from __future__ import annotations

import sys

import edgedla

result = edgedla.fix(sys.argv[1], target="agx-orin-64gb", jetpack="6.2", precision="int8")
for site in result.applied:
    print(f"{site.rewrite} at {site.output} : {site.proof.status} ({site.proof.equality})")
print(f"loadables {result.before.loadables} -> {result.after.loadables}")
