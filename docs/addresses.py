"""Make the links of README and docs work wherever their text is shown.

The files link to each other by relative paths, which work in a checkout and on the project's site.
The package index and the built docs need addresses. All of them come from one setting: `repository`
in pyproject.toml.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)(\[(?:[^][]|\[[^]]*\])*\])\((?![a-z]+:|#)([^)#\s]+)")


def repository() -> str:
    """Return the address of the project's repository."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        hooks: dict[str, Any] = tomllib.load(file)["tool"]["hatch"]["metadata"]["hooks"]
    return str(hooks["custom"]["repository"])


def absolute(text: str, folder: Path, tag: str, *, keep: Path | None = None) -> str:
    """Return Markdown of `folder` with addresses for relative links, but for those into `keep`."""

    def replace(link: re.Match[str]) -> str:
        mark, label, target = link.groups()
        path = (folder / target).resolve()
        if keep is not None and (mark or path.is_relative_to(keep)):
            return link[0]
        kind = "raw" if mark else "blob"
        return f"{mark}{label}({repository()}/{kind}/{tag}/{path.relative_to(ROOT)}"

    return LINK.sub(replace, text)


class Metadata(MetadataHookInterface):
    """README and the project's URLs, for the package index."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata of the distribution."""
        tag = f"v{metadata['version']}"
        address = repository()
        metadata["urls"] = {
            "Source": address,
            "Documentation": f"https://{metadata['name']}.readthedocs.io/en/{tag}/",
            "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
            "Issues": f"{address}/issues",
            "Security": f"{address}/blob/{tag}/SECURITY.md",
        }
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, ROOT, tag),
        }
