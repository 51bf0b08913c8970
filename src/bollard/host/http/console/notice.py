"""The page of a host whose console is not built: how to get it, or the progress of its build.

It reloads itself by a script, because a browser does not refresh a URL with a fragment, and a sign-in link has one. A
browser without scripts refreshes the page.
"""

from html import escape
from typing import Final

from bollard.host.http.console.build import Progress
from bollard.host.texts import Locale, read_texts

_TEXTS: Final = read_texts("console")
_RELOAD_S: Final = {"missing": 5, "running": 1, "failed": 3}
_COMMAND: Final = "make console"
_STYLE: Final = """
:root { color-scheme: light dark;
  --text: #1c2530; --quiet: #5b6875; --back: #fbfcfd; --line: #dde3e8; --accent: #0d7f7f }
@media (prefers-color-scheme: dark) {
  :root { --text: #e3e9ee; --quiet: #97a4b0; --back: #12181e; --line: #2a343e; --accent: #4fc3c0 }
}
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--back); color: var(--text);
  font: 15px/1.6 system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif }
main { width: min(40rem, 100% - 2rem) }
h1 { margin: 0 0 .25rem; font-size: 1.25rem; line-height: 1.4 }
p { margin: 0 0 1rem; color: var(--quiet) }
pre { margin: 0 0 1rem; padding: .75rem 1rem; border: 1px solid var(--line); border-radius: 8px; overflow-x: auto;
  font: 13px/1.6 ui-monospace, "JetBrains Mono", Menlo, monospace; white-space: pre-wrap; overflow-wrap: anywhere }
.mark { color: var(--accent); font-weight: 600 }
"""


def notice_page(progress: Progress, languages: str, nonce: str) -> str:
    """The page, in the language that the reader prefers. Pure."""
    locale = preferred_locale(languages)
    text = _TEXTS[locale]
    state = progress.state
    shown = "\n".join(each for each in (progress.step, *progress.lines) if each)
    output = f"<pre>{escape(shown)}</pre>\n" if shown else ""
    command = "" if state == "running" else f"<pre>{_COMMAND}</pre>\n"
    return f"""<!doctype html>
<html lang="{"zh-Hans" if locale == "zh_Hans" else "en"}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<script nonce="{escape(nonce)}">setTimeout(() => location.reload(), {_RELOAD_S[state]}000)</script>
<noscript><meta http-equiv="refresh" content="{_RELOAD_S[state]}"></noscript>
<title>{text["title"]}</title>
<style nonce="{escape(nonce)}">{_STYLE}</style>
<main>
<p class="mark">Bollard</p>
<h1>{text[state]}</h1>
<p>{text[f"{state}.hint"]}</p>
{command}{output}<p>{text["api"]}</p>
</main>
</html>
"""


def preferred_locale(languages: str) -> Locale:
    """The first language of an `Accept-Language` header that we speak. Pure."""
    for part in languages.lower().split(","):
        name = part.partition(";")[0].strip()
        if name.startswith("zh"):
            return "zh_Hans"
        if name.startswith("en"):
            return "en_US"
    return "en_US"
