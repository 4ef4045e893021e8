"""Convert equations to MathML at build time: browsers draw it without a script or a network."""

import html
import re

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, /, *, page: Page, **kwargs: object) -> str:
    """Replace the LaTeX that the Markdown extension arithmatex has marked."""
    content = _BLOCK.sub(lambda found: f'<div class="equation">{_mathml(found, page, "block")}</div>', content)
    return _INLINE.sub(lambda found: _mathml(found, page, "inline"), content)


def _mathml(found: re.Match[str], page: Page, display: str) -> str:
    latex = html.unescape(found[1]).strip()
    mathml = str(convert(latex, display=display))
    if "\\" in mathml:  # a command that the converter does not know stays in the text
        raise PluginError(f"{page.file.src_uri}: this LaTeX cannot be converted completely: {latex}")
    return mathml
