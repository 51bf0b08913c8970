"""No view of the command line shows a bidirectional control as it is, and JSON stays the same JSON."""

import json
from pathlib import Path
from typing import Any

from bollard.cli.app import escaped

CONTROLS = [chr(code) for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
NAME = "invoice\u202efdp.exe"


def test_every_control_character_is_escaped_and_no_other_character() -> None:
    for control in CONTROLS:
        assert escaped(f"a{control}b") == f"a\\u{ord(control):04x}b"
        document = json.dumps({"name": f"\\{control}"}, ensure_ascii=False)
        assert json.loads(escaped(document)) == {"name": f"\\{control}"}
    plain = "prices €, 价格, שלום, مرحبا, 👩‍👩‍👧\n\t\x1b[1m"
    assert escaped(plain) == plain


def test_tables_details_errors_chat_and_json_are_escaped(bollard: Any, steady_host: Any, tmp_path: Path) -> None:
    def ask(*arguments: str) -> Any:
        return bollard(*arguments, **steady_host.variables)

    where = ("--base-url", "https://example.org/v1")
    shown = [
        ask("models", "add", "turned", *where, "--model", NAME, "--json"),
        ask("models", "list", "--text"),
        ask("models", "show", "turned", "--text"),
        ask("models", "show", "turned", "--json"),
        ask("chat", "--agent", "echo", "--message", NAME, "--text"),
        ask("chat", "--agent", "echo", "--message", NAME, "--json"),
        ask("files", "add", str(tmp_path / NAME), "--text"),
        ask("plugin", NAME, "--text"),
    ]
    for each in shown:
        said = each.out + each.err
        assert "invoice\\u202efdp.exe" in said.replace("\n", ""), each
        assert not set(said) & set(CONTROLS), each
    assert shown[3].json["model"] == NAME
    ask("models", "remove", "turned")
