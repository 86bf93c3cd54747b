from __future__ import annotations

raise ImportError("an app that is not about locks, and not well")
