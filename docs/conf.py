"""How Sphinx builds these pages: `nox -s docs`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from addresses import absolute, repository  # noqa: E402
from one_file import HOWTO, all_howtos  # noqa: E402

from redis_locks import __version__  # noqa: E402

project = "django-redis-locks"
author = "django-redis-locks contributors"
copyright = author  # noqa: A001 - Sphinx's name
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
nitpicky = True
exclude_patterns = ["_build"]
default_role = "code"  # our docstrings mark code as Markdown does
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures show them
napoleon_use_ivar = True
# The words of signatures are not references to pages of ours.
nitpick_ignore_regex = [("py:.*", ".*")]

# Needs a network, which a build for CI does not: `nox -s docs -- --online`.
if os.environ.get("DOCS_ONLINE"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "django": (
            "https://docs.djangoproject.com/en/stable/",
            "https://docs.djangoproject.com/en/stable/_objects/",
        ),
        "redis": ("https://redis.readthedocs.io/en/stable/", None),
    }

html_theme = "furo"
html_title = f"django-redis-locks {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_search_scorer = str(DOCS / "scorer.js")
html_use_index = False  # nothing links to it, and it overflows on a phone
html_theme_options = {
    "source_repository": repository(),
    "source_branch": f"v{release}",
    "source_directory": "docs/",
}


DECISIONS = """
```{toctree}
:glob:
:hidden:

0*
```
"""


# What was decided is of no use to who searches for how to do something.
NOT_SEARCHED = "---\nnosearch: true\n---\n\n"

ONE_FILE = """
<p>For an assistant: <a href="../howtos.md">all guides in one file</a>.</p>
"""


def write_one_file(app: Sphinx, error: Exception | None) -> None:
    """Write all guides as one text beside the pages."""
    if error is None:
        text = absolute(all_howtos(), HOWTO, f"v{release}")
        Path(app.outdir, "howtos.md").write_text(text, encoding="utf-8")


def prepare(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace links to files of the repository that are no pages here.

    Puts the decisions below their index.
    """
    folder = Path(app.env.doc2path(docname)).parent
    source[0] = absolute(source[0], folder, f"v{release}", keep=DOCS)
    if docname == "decisions/README":
        source[0] += DECISIONS
    if docname.startswith("decisions/"):
        source[0] = NOT_SEARCHED + source[0]
    if docname == "howto/index":
        source[0] += ONE_FILE


def setup(app: Sphinx) -> None:
    """Tell Sphinx of `prepare` and `write_one_file`."""
    app.connect("source-read", prepare)
    app.connect("build-finished", write_one_file)
