"""PDF as text, page by page. Runs in the process that reads documents: what a file makes a library do ends there."""

from io import BytesIO

from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

from bollard.knowledge.errors import Unreadable
from bollard.knowledge.extracted import Extracted
from bollard.knowledge.limits import EXTRACTED_CHARACTERS, PAGES

__all__ = ["pdf_text"]

_BREAK = "\n\n"


def pdf_text(content: bytes) -> Extracted:
    """Raises `Unreadable`, and whatever a broken file makes the library raise."""
    try:
        reader = PdfReader(BytesIO(content), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("it is encrypted", hint="give it without a password")
        count = len(reader.pages)
    except DependencyError as error:
        raise Unreadable("it is encrypted", hint="give it without a password") from error
    except PyPdfError as error:
        raise Unreadable(f"it is no PDF that can be read: {error}", hint="save it anew") from error
    if count > PAGES:
        raise Unreadable(f"it has {count} pages; {PAGES} are the most", hint="cut it into several")
    parts: list[str] = []
    pages: list[tuple[int, int]] = []
    size = 0
    for number, page in enumerate(reader.pages, start=1):
        text = page.extract_text().replace("\0", "").strip()
        if not text:
            continue
        pages.append((size, number))
        parts.append(text)
        size += len(text) + len(_BREAK)
        if size > EXTRACTED_CHARACTERS:
            raise Unreadable(f"it has more than {EXTRACTED_CHARACTERS} characters", hint="cut it into several")
    if not parts:
        raise Unreadable("there is no text in it, only pictures", hint="give it with the text recognised")
    return Extracted(text=_BREAK.join(parts), structured=False, pages=tuple(pages))
