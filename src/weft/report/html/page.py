"""Puts the page together: one file, and a policy that lets it load nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from pathlib import Path
from string import Template

from weft.report.html.content import shown

_FOLDER = Path(__file__).parent
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function |class |const )", re.MULTILINE)


def assemble(title: str, data: str) -> str:
    """The page as HTML. `data` is what the scripts read, as base64: no name in it can be taken for markup."""
    return _page(title, data, "")[0]


def assemble_served(title: str) -> tuple[str, str]:
    """The page that asks the server it is from for its data, and for nothing else; its policy, for a header, too."""
    return _page(title, "", "connect-src 'self'")


def _page(title: str, data: str, more: str) -> tuple[str, str]:
    style = "\n" + (_FOLDER / "style.css").read_text("utf-8")
    script = "\n" + inline("main.js")
    directives = [
        "default-src 'none'",
        f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        more,
    ]
    policy = "; ".join(filter(None, directives))
    template = Template((_FOLDER / "page.html").read_text("utf-8"))
    page = template.substitute(title=html.escape(shown(title)), policy=policy, style=style, script=script, data=data)
    return page, policy


def inline(name: str) -> str:
    """One script of a module and all that it imports, each module once and after those that it needs.

    All share one scope: top-level names are unique among the modules, and imports do not rename.
    """
    done: dict[str, str] = {}
    waiting = [name]
    while waiting:
        module = waiting[-1]
        source = (_FOLDER / module).read_text("utf-8")
        needed = [other for other in _IMPORT.findall(source) if other not in done]
        if needed:
            waiting.append(needed[0])
        else:
            waiting.pop()
            done[module] = _EXPORT.sub("", _IMPORT.sub("", source))
    return "\n".join(done.values())


def _digest(text: str) -> str:
    """The hash of an inline element's text as a CSP source (https://www.w3.org/TR/CSP3/#match-element-to-source-list)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
