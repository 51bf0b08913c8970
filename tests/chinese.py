"""Finds English sentences in Chinese output: words outside of quotations, code and identifiers."""

import re

_QUOTED = re.compile(r"“[^”]*”|（原文：[^）]*）|`[^`]*`|'[^']*'|\"[^\"]*\"|\bbollard(?: [a-z-]+)+")
"""Quotations, code, and the names of commands."""
_SENTENCE = re.compile(r"(?<![\w./:@-])[A-Za-z][a-z']+(?:,? [A-Za-z][a-z']*){2,}(?![\w/:@-])")
"""Three words or more. An identifier has other characters than letters."""


def english_in(text: str) -> list[str]:
    """The English sentences of a text that no quotation holds."""
    return _SENTENCE.findall(_QUOTED.sub(" · ", text))
