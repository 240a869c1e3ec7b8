"""A YAML loader for pipeline files that refuses what YAML itself passes over in silence."""

from __future__ import annotations

from typing import Any, Dict

import yaml


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice; YAML itself keeps the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if not isinstance(name, (str, int, float, bool, type(None))):
                raise yaml.constructor.ConstructorError(None, None, "a key is no text", key.start_mark)
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} stands twice", key.start_mark)
            seen.add(name)
        result: Dict[Any, Any] = super().construct_mapping(node, deep)
        return result
