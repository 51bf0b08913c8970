"""A surface in memory: the lines that were written, and the last one, which may change."""

from bollard.cli.terminal.styles import Styles


class MemorySurface:
    def __init__(self, columns: int = 100) -> None:
        self.styles = Styles(attributes=True, colours=False)
        self.columns = columns
        self.lines: list[str] = []
        self.last = ""
        self.sign: str | None = None

    def write(self, line: str) -> None:
        self.lines.append(line)

    def live(self, line: str) -> None:
        self.last = line

    def wait(self, sentence: str | None) -> None:
        self.sign = sentence

    @property
    def text(self) -> str:
        shown = "".join(f"{line}\n" for line in self.lines) + self.last
        for code in ("1", "2", "3", "2;3"):
            shown = shown.replace(f"\x1b[{code}m", "")
        return shown.replace("\x1b[0m", "")
