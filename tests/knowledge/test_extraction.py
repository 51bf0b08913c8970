"""Extraction from documents, hostile ones included. The extraction process is the real one."""

import io
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pypdf import PdfWriter
from tests.tables import for_each

from bollard.confine.landlock import landlock_version
from bollard.knowledge.chunking import pieces_of
from bollard.knowledge.errors import Unreadable
from bollard.knowledge.extraction import Extractor
from bollard.knowledge.plain_text import Extracted

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
STYLES = f"""<w:styles {WORD}><w:style w:styleId="a1"><w:name w:val="heading 1"/></w:style>
<w:style w:styleId="a2"><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style></w:styles>"""

Take = Callable[..., Extracted]


@pytest.fixture(scope="module")
def take() -> Iterator[Take]:
    extractor = Extractor()

    def extract(content: bytes | str, mime_type: str, name: str = "") -> Extracted:
        raw = content.encode() if isinstance(content, str) else content
        return extractor.extract(raw, mime_type=mime_type, name=name)

    yield extract
    extractor.close()


def pdf(*pages: str) -> bytes:
    """A file as small as the format allows, with one line on each page."""
    return _pdf([f"BT /F1 12 Tf 72 700 Td ({page}) Tj ET".encode() for page in pages], "")


def _pdf(streams: list[bytes], extra: str) -> bytes:
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(len(streams)))
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(streams)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, stream in enumerate(streams):
        bodies.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * index} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        bodies.append(f"<< /Length {len(stream)} {extra} >>\nstream\n".encode() + stream + b"\nendstream")
    out = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, body in enumerate(bodies, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    at = len(out)
    out += f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    return bytes(out + f"trailer << /Size {len(bodies) + 1} /Root 1 0 R >>\nstartxref\n{at}\n%%EOF".encode())


def docx(body: str, *, head: str = "", styles: str | None = STYLES) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"{head}<w:document {WORD}><w:body>{body}</w:body></w:document>")
        if styles is not None:
            archive.writestr("word/styles.xml", styles)
    return out.getvalue()


def paragraph(text: str, style: str = "") -> str:
    named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{named}<w:r><w:t>{text}</w:t></w:r></w:p>"


def test_text_is_read_in_its_encoding(take: Take):
    assert take("知识库", "text/plain").text == "知识库"
    assert take("知识库检索".encode("gb18030"), "text/plain").text == "知识库检索"
    assert take("知识".encode("utf-16"), "text/plain").text == "知识"
    assert take("Größe".encode("latin-1"), "text/plain; charset=iso-8859-1").text == "Größe"
    assert take("naïve café déjà".encode("cp1252"), "text/plain").text == "naïve café déjà"
    assert take(b"a\r\nb\rc", "text/plain").text == "a\nb\nc"


def test_the_name_gives_the_kind_if_the_type_does_not(take: Take):
    assert take("# A", "text/plain", "a.md").structured
    assert not take("# A", "text/plain", "a.txt").structured
    assert take("<h1>A</h1>", "application/octet-stream", "a.HTML").text == "# A\n"


def test_html_keeps_headings_tables_and_code_and_drops_invisible_content(take: Take):
    page = """<html><head><title>T</title><script>steal()</script><style>p{}</style></head><body>
      <h1>Guide &amp; more</h1><p>First   <b>bold</b> words.</p><script>alert("x")</script>
      <ul><li>one<li>two</ul><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
      <pre>x = 1
  y = 2</pre><h2>End</h2><noscript>no</noscript>last</body></html>"""
    assert take(page, "text/html").text == (
        "# Guide & more\n\nFirst bold words.\n\n- one\n- two\n\n| a | b |\n| 1 | 2 |\n\n```\nx = 1\n  y = 2\n```\n\n"
        "## End\n\nlast\n"
    )


def test_html_declares_its_encoding(take: Take):
    page = '<meta charset="gbk"><body>知识'.encode("gbk")
    assert take(page, "text/html").text == "知识\n"


def test_deeply_nested_html_is_read(take: Take):
    assert take("<div>" * 50_000 + "deep", "text/html").text == "deep\n"


def test_each_text_of_a_pdf_is_cited_with_its_own_page(take: Take):
    found = take(
        pdf("The harbour opens at six.", "", "Ships moor at a bollard.", "The pilot boards."), "application/pdf"
    )
    pieces = pieces_of(found, chunk_tokens=400, overlap_tokens=50)
    assert [(found.text[piece.start : piece.end], piece.page) for piece in pieces] == [
        ("The harbour opens at six.", 1),
        ("Ships moor at a bollard.", 3),
        ("The pilot boards.", 4),
    ]


def test_a_pdf_has_pages(take: Take):
    found = take(pdf("First page", "", "Third page"), "application/pdf")
    assert found.text == "First page\n\nThird page"
    assert found.pages == ((0, 1), (12, 3))


def test_a_docx_has_headings_by_its_styles_and_tables_by_rows(take: Take):
    cell = "<w:tc>{}</w:tc>"
    table = f"<w:tbl><w:tr>{cell.format(paragraph('a'))}{cell.format(paragraph('b'))}</w:tr></w:tbl>"
    body = paragraph("标题", "a1") + paragraph("Text &amp; more.") + paragraph("Sub", "a2") + table + paragraph("End")
    found = take(docx(body), DOCX)
    assert found.text == "# 标题\n\nText & more.\n\n## Sub\n\n| a | b |\n\nEnd\n"
    assert found.structured


def encrypted_pdf() -> bytes:
    writer = PdfWriter()
    writer.add_blank_page(72, 72)
    writer.encrypt("a password", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>'
HOSTILE = {
    "a zip bomb": (DOCX, lambda: docx(paragraph("A" * 80_000_000)), "docx_ratio"),
    "billion laughs": (DOCX, lambda: docx(paragraph("&c;"), head=LAUGHS), "docx_document_type"),
    "elements without end": (DOCX, lambda: docx("<w:p>" * 400 + "</w:p>" * 400), "docx_nested"),
    "XML that is none": (DOCX, lambda: docx("<w:p></w:q>"), "damaged"),
    "a zip without a document": (DOCX, lambda: _zip_of("other.txt"), "docx_without_document"),
    "no zip at all": (DOCX, lambda: b"PK\3\4 but not really", "damaged"),
    "a PDF that is cut off": ("application/pdf", lambda: pdf("text")[:120], ""),
    "no PDF at all": ("application/pdf", lambda: b"\0\1\2", ""),
    "an encrypted PDF": ("application/pdf", encrypted_pdf, "encrypted"),
    "a PDF of pictures": ("application/pdf", lambda: pdf("", ""), "no_text"),
    "a PDF bomb": (
        "application/pdf",
        lambda: _pdf([zlib.compress(b"0 " * 100_000_000, 9)], "/Filter /FlateDecode"),
        "",
    ),
    "a PDF whose pages are their own parents": (
        "application/pdf",
        lambda: pdf("x").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"),
        "",
    ),
    "zero bytes": ("text/plain", lambda: b"a\0b", "zero_bytes"),
    "an unsupported type": ("image/png", lambda: b"\x89PNG", "document_type"),
}


def _zip_of(name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, "x")
    return out.getvalue()


@for_each("what", HOSTILE)
def test_a_hostile_file_has_no_text_and_other_files_are_read(take: Take, what: str):
    mime_type, make, reason = HOSTILE[what]
    with pytest.raises(Unreadable) as caught:
        take(make(), mime_type)
    assert caught.value.reason == reason or not reason
    assert caught.value.hint
    assert take("<p>still there", "text/html").text == "still there\n"


def test_the_extraction_process_has_no_socket_writes_no_file_and_reads_only_code(tmp_path: Path):
    (tmp_path / "secret").write_text("a secret")
    program = (
        "import pathlib, socket, sys\n"
        "from bollard.knowledge.extraction_child import confine\n"
        "confine()\n"
        "def refused(action):\n"
        "    try:\n"
        "        action()\n"
        "    except OSError:\n"
        "        return True\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "print(refused(socket.socket), refused(lambda: (here / 'secret').read_text()),\n"
        "      refused(lambda: (here / 'new').write_text('x')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert landlock_version() == 0 or done.stdout == "True True True\n"


def test_an_extraction_that_takes_too_long_is_ended():
    extractor = Extractor(patience_s=0.0)
    try:
        with pytest.raises(Unreadable, match="within 0 s"):
            extractor.extract(b"<p>late", mime_type="text/html", name="")
    finally:
        extractor.close()
