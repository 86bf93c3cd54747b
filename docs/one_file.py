"""All how-to guides as one Markdown text, which an assistant can be given.

`nox -s docs` writes it beside the pages.
"""

from __future__ import annotations

import re
from pathlib import Path

HOWTO = Path(__file__).parent / "howto"
_HIDDEN = re.compile(r"^ *<!--.*?-->\n", re.DOTALL | re.MULTILINE)


def pages() -> list[str]:
    """Return the names of the guides, in the order of their index."""
    tree = (HOWTO / "index.md").read_text(encoding="utf-8").partition(":hidden:")[2]
    return tree.partition("```")[0].split()


def all_howtos() -> str:
    """Return the guides one after the other, without the comments that readers do not see."""
    texts = ((HOWTO / f"{page}.md").read_text(encoding="utf-8") for page in pages())
    return "\n".join(_HIDDEN.sub("", text) for text in texts)
