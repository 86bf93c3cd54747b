"""What makes our English hard to read, found by a script.

It finds long sentences, subjects without a name, and words we do not use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_WORDS = 25

_CODE = re.compile(
    r"^( *)(`{3,}|~{3,}).*?^\1\2`*$|<!--.*?-->|<[^>\n]+>"
    r"|::\n(\n+ +\S[^\n]*(\n +\S[^\n]*)*)+|^ *=+ .*^ *=+ [= ]+$",
    re.DOTALL | re.MULTILINE,
)
"""Blocks of code, comments, tags; in docstrings also what is indented after "::", and tables of
reStructuredText.
"""
_HEADING = re.compile(r"^(#+ .*|\[[^]]+\]: .*|\(\w[\w-]*\)=|[-=~^]{3,})$", re.MULTILINE)
_LINK = re.compile(r"!?\[((?:[^][]|\[[^]]*\])*)\](\([^)]*\)|\[[^]]*\])")
_INLINE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_BLOCK = re.compile(r"\n\s*\n|\n\s*(?:[-*+]|\d+\.) |\n(?=\|)|(?<=\S) *\| *|\n: |\n *(?=[*\w]+: )")
_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+|;\s+")
_WORD = re.compile(r"[\w`'%./@+-]*\w[\w`'%./@+-]*")

_VAGUE = re.compile(r"(Whoever|Whose|Those|Who|One (who|that|of those)|It is to be)\b")
"""Subjects that make a reader ask "who?"; questions and titles may begin so."""

_FORBIDDEN = {
    r"obtain(s|ed|ing)?": "acquire",
    r"un-?lock(s|ed|ing)?": "release",
    r"re-?acquir(e|es|ed|ing)": "acquire again",
    r"lock owners?|owners? of (the|a) lock": "holder",
    r"watch-?dogs?": "renewal",
    r"stolen": "lost",
    r"abandon(s|ed|ing)?|(leav(e|es|ing)|left) (the|its) queues?": "give up",
    r"simply|easily|obviously|of course"
    r"|just(?! (after|become|before|been|being|ended|now|taken))": "nothing: leave it out",
    r"(is|was|be|are) (to be )?had|be got": "a verb with an actor",
}
_WRONG = re.compile(rf"\b({'|'.join(_FORBIDDEN)})\b", re.IGNORECASE)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of Markdown or a docstring: no code, no headings, cell by cell."""
    text = _HEADING.sub("\n", _CODE.sub("\n\n", text))
    text = _INLINE.sub("`code`", _LINK.sub(r"\1", text))
    for block in _BLOCK.split(text):
        for sentence in _END.split(" ".join(block.split())):
            if _WORD.search(sentence):
                yield sentence.strip("|*_> ")


def faults(text: str) -> list[str]:
    """Return one line for each thing that is hard to read in `text`."""
    found = []
    for sentence in sentences(text):
        count = len(_WORD.findall(sentence))
        if count > MOST_WORDS:
            found.append(f"{count} words, at most {MOST_WORDS}: {sentence}")
        if _VAGUE.match(sentence) and sentence.endswith("."):
            found.append(f"name the subject: {sentence}")
        for wrong in _WRONG.finditer(sentence):
            say = next(s for p, s in _FORBIDDEN.items() if re.match(p, wrong[0], re.IGNORECASE))
            found.append(f"{wrong[0]!r}, say {say}: {sentence}")
    return found
