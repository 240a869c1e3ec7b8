"""Who has a board, as the board reports it: validated, and as text."""

from __future__ import annotations

import time
from typing import Any, Dict, Optional

from edgedla.text.printable import printable


def holder_from(described: Any) -> Optional[Dict[str, str]]:
    """Who has the board; None if it is free. `since` is on this machine's clock if the board says for how long."""
    if not isinstance(described, dict):
        return None
    holder = {str(key): printable(str(value))[:200] for key, value in described.items()}
    for_s = described.get("for_s")
    if isinstance(for_s, (int, float)) and 0 <= for_s < 1e9:
        holder["since"] = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time.time() - for_s))
    holder.pop("for_s", None)
    return holder


def in_use(holder: Dict[str, str]) -> str:
    """ "in use by ana@laptop since 2026-11-22 10:15:00 UTC (edgedla bench art)", as far as known."""
    by, since, what = holder.get("owner"), holder.get("since"), holder.get("what")
    if not (by or since or what):
        return "in use, its lock does not say by whom"
    return "in use" + (f" by {by}" if by else "") + (f" since {since}" if since else "") + (f" ({what})" if what else "")
