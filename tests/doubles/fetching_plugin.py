"""A plugin whose runner and tool fetch a URL, and the server that it may reach."""

import contextlib
import http.server
import threading
from collections.abc import Generator
from pathlib import Path

_CODE = '''
from bollard.sdk import RunContext, runner, tool
from bollard.sdk.http import Client, NetworkError


async def fetched(url):
    try:
        async with Client() as client:
            return (await client.get(url)).text
    except NetworkError as error:
        return str(error)


@tool(risk="low")
async def fetch(url: str) -> str:
    """Fetches a page."""
    return await fetched(url)


@runner(name="default", label="Fetch")
async def run(ctx: RunContext):
    yield ctx.delta(await fetched(ctx.input.text))
'''
_MANIFEST = """
apiVersion: bollard/v1
kind: Plugin
metadata:
  author: acme
  name: fetch
  version: 1.0.0
  label: {{en_US: Fetch, zh_Hans: 获取}}
  description: {{en_US: Fetches., zh_Hans: 获取。}}
spec:
  sandbox: {{network: ["localhost:{port}"]}}
  runners:
    - name: default
      label: {{en_US: Fetch, zh_Hans: 获取}}
      entry: runner:run
  tools:
    - {{name: fetch, description: Fetches a page., entry: "runner:fetch", risk: low}}
"""


def write_fetching_plugin(folder: Path, port: int, *, at_import: str = "") -> None:
    """A plugin with consent to `localhost:PORT`. `at_import` is code that runs when it is loaded."""
    folder.mkdir(exist_ok=True)
    (folder / "manifest.yaml").write_text(_MANIFEST.format(port=port), encoding="utf-8")
    (folder / "runner.py").write_text(_CODE + at_import, encoding="utf-8")


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the library
        del format, args


@contextlib.contextmanager
def page_server() -> Generator[int]:
    """A web server on loopback; yields its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
