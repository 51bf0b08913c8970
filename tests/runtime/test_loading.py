"""Loading plugins into a real worker: its offer, and its report about the rest."""

import py_compile
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bollard.runtime import RULES, digest_of

pytestmark = pytest.mark.full

HEAD = """apiVersion: bollard/v1
kind: Plugin
metadata: {author: acme, name: demo, version: 1.2.3, label: {en_US: Demo}}
spec:
"""
IMPORTS = "import asyncio, sys\nfrom bollard.sdk import RunContext, runner, tool\n"
GOOD = IMPORTS + "@runner()\nasync def run(ctx: RunContext):\n    yield 'good'\n"


def entry(name: str, where: str, more: str = "") -> str:
    return f"    - {{name: {name}, label: {{en_US: A}}, entry: '{where}'{more}}}\n"


def manifest(*runners: str, tools: str = "") -> str:
    return HEAD + ("  runners:\n" + "".join(runners) if runners else "") + (f"  tools:\n{tools}" if tools else "")


async def listed(driver: Any) -> list[str]:
    catalogue = await driver.host.list_runners()
    assert catalogue.problems == ()
    return [found.runner_name for found in catalogue.runners]


@pytest.mark.smoke
@pytest.mark.requirement("P02-01", "P02-03", "P02-14")
async def test_a_folder_and_a_single_file_describe_themselves(start: Any, tmp_path: Path) -> None:
    folder = await start({"manifest.yaml": manifest(entry("default", "main:run")), "main.py": GOOD}, "somewhere")
    assert folder.host.peer.plugin.to_wire() == {
        "author": "acme",
        "name": "demo",
        "version": "1.2.3",
        "digest": digest_of(tmp_path / "somewhere"),
    }
    assert await listed(folder) == ["default"]
    assert (await folder.finished()).text == "good"
    single = await start("@runner()\nasync def run(ctx: RunContext):\n    yield 'single'\n", "My-Echo.py")
    plugin = single.host.peer.plugin
    assert (plugin.author, plugin.name, plugin.digest) == ("local", "my-echo", digest_of(tmp_path / "My-Echo.py"))
    (found,) = (await single.host.list_runners()).runners
    assert found.manifest.id == "plugin:local/my-echo/default"
    assert (await single.finished()).text == "single"
    assert single.logs == folder.logs == []


BAD_MODULES = {
    "broken.py": "import nothing_of_this_name\n",
    "syntax.py": "def (\n",
    "leaves.py": "import sys\nsys.exit(3)\n",
    "interrupts.py": "raise KeyboardInterrupt\n",
    "mute.py": "class E(BaseException):\n    def __str__(self):\n        raise ValueError\nraise E\n",
    "half.py": "raise ValueError('\\ud800')\n",
    "declares.py": IMPORTS + "@runner(name='X Y')\nasync def run(ctx):\n    yield 1\n",
    "odd.py": (
        IMPORTS + "value = 5\nnothing = None\ndef plain(ctx):\n    return 1\n"
        "class Proxy:\n    def __getattr__(self, name):\n        raise RuntimeError('no context')\nproxy = Proxy()\n"
        "class Empty:\n    pass\n"
    ),
    "lazy.py": "def __getattr__(name):\n    raise ZeroDivisionError\n",
    "prints.py": 'print(\'{"jsonrpc":"2.0","method":"log"}\')\n' + GOOD,
    "json.py": GOOD,
    "yaml.py": GOOD,
    "types.py": "raise SystemExit(1)\n",
    "logging.py": "raise SystemExit(1)\n",
    "asyncio.py": "raise SystemExit(1)\n",
}


@pytest.mark.requirement("P02-12")
async def test_one_invalid_runner_hides_no_other_and_each_is_named(start: Any) -> None:
    bad = [
        ("broken", "broken:run", "PL11"),
        ("syntax", "syntax:run", "PL11"),
        ("leaves", "leaves:run", "PL11"),
        ("interrupts", "interrupts:run", "PL11"),
        ("mute", "mute:run", "PL11"),
        ("half", "half:run", "PL11"),
        ("declares", "declares:run", "PL13"),
        ("lazy", "lazy:run", "PL11"),
        ("stdlib", "json:run", "PL11"),
        ("package", "yaml:run", "PL11"),
        ("builtin", "sys:exit", "PL11"),
        ("missing", "main:absent", "PL12"),
        ("nothing", "odd:nothing", "PL12"),
        ("value", "odd:value", "PL13"),
        ("plain", "odd:plain", "PL13"),
        ("proxy", "odd:proxy", "PL13"),
        ("empty", "odd:Empty", "PL13"),
    ]
    entries = [entry("first", "main:run"), *(entry(name, where) for name, where, _ in bad)]
    entries += [entry("first", "main:run"), "    - {name: Broken}\n", entry("last", "prints:run")]
    tools = (
        "    - {name: fine, description: Fine., entry: 'tools:fine'}\n"
        "    - {name: gone, description: Gone., entry: 'tools:gone'}\n"
        "    - {name: number, description: No., entry: 'odd:value'}\n"
        "    - {name: noentry, description: No.}\n"
    )
    driver = await start(
        {
            "manifest.yaml": manifest(*entries, tools=tools),
            "main.py": GOOD,
            "tools.py": "def fine(a: int) -> int:\n    return a + 1\n",
            **BAD_MODULES,
        }
    )
    assert await listed(driver) == ["first", "last"]
    expected = {(rule, name) for name, _, rule in bad}
    expected |= {("PL10", "Broken"), ("PL14", "first"), ("PL12", "gone"), ("PL23", "number"), ("PL20", "noentry")}
    assert set(driver.problems) == expected
    for record in driver.logs:
        assert (record.level, bool(record.fields["field"]), bool(record.fields["hint"])) == ("warning", True, True)
    assert (await driver.finished("first")).text == (await driver.finished("last")).text == "good"
    assert [tool.name for tool in (await driver.host.list_tools()).tools] == ["fine"]
    assert (await driver.call_tool("fine", {"a": 1})).structured == 2
    await driver.written_line('"method":"log"')
    assert driver.strikes == []


async def test_modules_named_like_standard_modules_break_nothing(start: Any) -> None:
    names = ("types", "logging", "json", "asyncio", "socket", "traceback", "concurrent", "queue", "signal", "re")
    driver = await start(
        {
            "manifest.yaml": manifest(entry("default", "main:run")),
            "main.py": IMPORTS
            + "import settings, inner.part\n@runner()\nasync def run(ctx: RunContext):\n"
            + "    yield await asyncio.to_thread(lambda: settings.NAME + inner.part.NAME)\n",
            "settings.py": "NAME = 'mine'\n",
            "inner/part.py": "NAME = ' too'\n",
            **{f"{name}.py": "raise SystemExit(f'{__name__} was replaced')\n" for name in names},
        }
    )
    assert (await driver.finished()).text == "mine too"
    assert (driver.problems, driver.strikes) == ([], [])


async def test_entries_too_large_for_a_frame_are_left_out_and_the_rest_is_listed(start: Any) -> None:
    deep = "[" * 80 + "]" * 80
    form = "config_schema: [{name: a, type: json, label: {en_US: A}, default: %s}]"
    entries = [
        entry("first", "main:run"),
        entry("deep", "main:run", ", " + form % deep),
        entry("wide", "main:run", ", " + form % ("[" + "0," * 11_000 + "0]")),
        entry("number", "main:run", ", " + form % (2**60)),
        entry("half", "main:run", ", " + form % '"\\ud800"'),
        *(entry(f"big-{number}", "main:run", ", " + form % ("[" + "0," * 3000 + "0]")) for number in range(5)),
        entry("last", "main:run"),
    ]
    driver = await start({"manifest.yaml": manifest(*entries), "main.py": GOOD})
    found = await listed(driver)
    assert found == ["first", "big-0", "big-1", "big-2", "last"]
    assert {(rule, name) for rule, name in driver.problems} == {
        ("PL10", name) for name in ("deep", "wide", "number", "half", "big-3", "big-4")
    }
    assert (await driver.finished("last")).text == "good"
    assert driver.strikes == []


@pytest.mark.requirement("P02-07")
async def test_the_manifest_overrides_the_decorator_and_a_difference_is_reported(start: Any) -> None:
    main = (
        IMPORTS
        + "from pydantic import BaseModel\n"
        + "class C(BaseModel):\n    times: int = 2\n"
        + "@runner(label='From code', description='Said in code', capabilities=['interrupt'],"
        + " permissions={'models': ['invoke']}, config=C)\n"
        + "async def run(ctx: RunContext):\n    yield 'x' * ctx.config.times\n"
        + "async def bare(ctx):\n    yield 'bare'\n"
    )
    driver = await start(
        {
            "manifest.yaml": manifest(
                entry("silent", "main:run", ", permissions: {models: [invoke]}"),
                entry("other", "main:run", ", permissions: {tools: [call]}, capabilities: {steering: true}"),
                entry("bare", "main:bare"),
            ),
            "main.py": main,
        }
    )
    found = {item.runner_name: item.manifest for item in (await driver.host.list_runners()).runners}
    silent, other, bare = found["silent"], found["other"], found["bare"]
    assert (silent.label, silent.description) == ({"en_US": "A"}, {"en_US": "Said in code"})
    assert (silent.capabilities.streaming, silent.capabilities.interrupt) == (True, True)
    assert [item.name for item in silent.config_schema] == ["times"]
    assert other.permissions.to_wire()["tools"] == ["call"]
    assert other.permissions.models == ()
    assert (other.capabilities.steering, other.capabilities.interrupt) == (True, False)
    assert (bare.capabilities.streaming, bare.config_schema) == (True, ())
    assert sorted((record.fields["rule"], record.fields["field"]) for record in driver.logs) == [
        ("PL15", "capabilities"),
        ("PL15", "permissions"),
    ]
    assert (await driver.finished("silent")).text == "xx"
    assert (await driver.finished("bare")).text == "bare"


async def test_a_default_selects_tools_of_the_plugin_by_their_short_names(start: Any) -> None:
    main = (
        IMPORTS
        + "from pydantic import BaseModel\nfrom bollard.sdk import Tools\n"
        + "class C(BaseModel):\n    tools: Tools = ('mine', 'tool:builtin/now', 'unknown')\n    other: str = 'mine'\n"
        + "@tool()\ndef mine(a: int) -> int:\n    'A tool.'\n    return a\n"
        + "@runner()\nasync def run(ctx: RunContext[C]):\n    yield ' '.join(ctx.config.tools)\n"
    )
    driver = await start(main, "main.py")
    [found] = (await driver.host.list_runners()).runners
    defaults = {item.name: item.default for item in found.manifest.config_schema}
    assert defaults == {"tools": ["tool:local/main/mine", "tool:builtin/now", "unknown"], "other": "mine"}


async def test_tools_are_read_from_the_manifest_and_from_the_decorator(start: Any) -> None:
    tools = (
        IMPORTS
        + "@tool(name='inner', risk='low', effects='none')\ndef decorated(a: int) -> int:\n"
        + "    'Said in code.'\n    return a\n"
        + "def bare(text: str) -> str:\n    return text.upper()\n"
    )
    rows = (
        "    - {name: outer, description: Said in the file., entry: 'tools:decorated', risk: high,"
        " flow: {sends_out: false}}\n"
        "    - {name: bare, description: Bare., entry: 'tools:bare'}\n"
    )
    driver = await start({"manifest.yaml": manifest(tools=rows), "tools.py": tools})
    found = {tool.name: tool for tool in (await driver.host.list_tools()).tools}
    outer = found["outer"]
    assert (outer.description, outer.risk, outer.effects) == ("Said in the file.", "high", "none")
    assert outer.flow.sends_out is False
    assert (await driver.call_tool("outer", {"a": 4})).structured == 4
    assert (await driver.call_tool("bare", {"text": "x"})).content[0].text == "X"
    assert (await listed(driver), driver.problems) == ([], [])


async def test_a_single_file_with_odd_objects_and_duplicate_names_offers_the_rest(start: Any) -> None:
    driver = await start(
        """
class Proxy:
    def __getattr__(self, name):
        raise RuntimeError("working outside of a request")

request = Proxy()

@runner(name="one")
async def one(ctx: RunContext):
    yield "one"

alias = one

@runner(name="one")
async def again(ctx: RunContext):
    yield "again"

@tool(name="t")
def first() -> str:
    '''First.'''
    return "first"

@tool(name="t")
def second() -> str:
    '''Second.'''
    return "second"
"""
    )
    assert await listed(driver) == ["one"]
    assert driver.problems == [("PL14", "one"), ("PL14", "t")]
    assert (await driver.finished("one")).text == "one"
    assert (await driver.call_tool("t", {})).content[0].text == "first"


MISDECLARED = """
@runner
async def bare(ctx: RunContext):
    yield "bare"

@runner(name="sync")
def sync(ctx: RunContext):
    yield "sync"

alias = sync

@runner(name="flies", capabilities=["flying"])
async def flies(ctx: RunContext):
    yield "flies"

@tool()
def untyped(a):
    '''No types.'''

@runner(name="good")
async def good(ctx: RunContext):
    yield "good"

@tool()
def fine(a: int) -> int:
    '''Fine.'''
    return a + 1
"""


@pytest.mark.requirement("P02-12")
async def test_an_invalid_declaration_hides_no_other_of_its_file(start: Any) -> None:
    driver = await start(MISDECLARED)
    assert await listed(driver) == ["good"]
    assert driver.problems == [("PL13", "bare"), ("PL13", "sync"), ("PL13", "flies"), ("PL23", "untyped")]
    assert [record.fields["field"] for record in driver.logs] == ["@runner", "@runner", "@runner", "@tool"]
    assert "write `async def`" in driver.logs[1].fields["hint"]
    assert (await driver.finished("good")).text == "good"
    assert (await driver.call_tool("fine", {"a": 1})).structured == 2


async def test_an_invalid_declaration_hides_no_other_entry_of_its_module(start: Any) -> None:
    names = ("bare", "sync", "flies", "good")
    tools = "".join(f"    - {{name: {name}, description: A., entry: 'main:{name}'}}\n" for name in ("untyped", "fine"))
    files = {
        "manifest.yaml": manifest(*(entry(name, f"main:{name}") for name in names), tools=tools),
        "main.py": IMPORTS + MISDECLARED,
    }
    driver = await start(files)
    assert await listed(driver) == ["good"]
    assert driver.problems == [("PL13", "bare"), ("PL13", "sync"), ("PL13", "flies"), ("PL23", "untyped")]
    assert [tool.name for tool in (await driver.host.list_tools()).tools] == ["fine"]


async def test_an_empty_plugin_is_served_with_a_problem(start: Any) -> None:
    driver = await start("value = 5\n")
    assert await listed(driver) == []
    assert [rule for rule, _ in driver.problems] == ["PL06"]


async def test_a_plugin_that_fails_to_load_ends_the_worker_with_its_rule(launch: Any, write: Any) -> None:
    good = "@runner()\nasync def run(ctx: RunContext):\n    yield 'x'\n"
    cases = {
        "PL02": write("nomanifest", {"main.py": ""}),
        "PL03": write("notyaml", {"manifest.yaml": "a: *b"}),
        "PL04": write("wrong", {"manifest.yaml": manifest().replace("acme", "Acme")}),
        "PL05": write("newer", {"manifest.yaml": manifest() + "  python: '>=99'\n"}),
        "PL04 \u00e9cho.py": write("\u00e9cho.py", good),
        "PL04 \u212a.py": write("\u212a.py", good),
        "PL04 _x.py": write("_x.py", good),
        "PL11": write("raises.py", "raise ZeroDivisionError('at import')\n"),
        "PL11 leaves.py": write("leaves.py", "sys.exit(0)\n"),
        "PL11 silent.py": write("silent.py", "sys.stdout = sys.stderr = None\nraise ValueError\n"),
        "PL11 mute.py": write("mute.py", "class E(BaseException):\n    def __str__(self): raise E\nraise E\n"),
    }
    drivers = {rule: await launch(str(path)) for rule, path in cases.items()}
    for rule, driver in drivers.items():
        assert await driver.exit_code() == 3, rule
        await driver.written_line(f"bollard: {rule}")
        await driver.written_line("hint: ")
        assert "Traceback" not in driver.stderr


def test_every_rule_has_a_test_in_this_suite() -> None:
    here = Path(__file__).parent
    text = "".join(path.read_text() for path in here.glob("test_*.py"))
    assert [rule for rule in RULES if f'"{rule}"' not in text] == []


async def test_a_worker_is_ready_despite_disturbing_imports(start: Any) -> None:
    driver = await start(
        "import threading\nthreading.Thread(target=time.sleep, args=(3600,)).start()\n"
        "asyncio.run(asyncio.sleep(0))\nsys.stdout = None\nsys.stderr = open(os.devnull, 'w')\n"
        "@runner()\nasync def run(ctx: RunContext):\n    print('heard')\n    yield 'x'\n"
    )
    run = await driver.finished()
    assert (run.text, (await driver.logged_line("heard")).run_id) == ("x", run.run_id)
    driver.host.close("enough")
    assert await driver.exit_code() == 0


def test_cached_bytecode_of_a_plugin_is_never_run(tmp_path: Path) -> None:
    says = IMPORTS + "@runner()\nasync def pinned(ctx):\n    yield {!r}\n"
    (tmp_path / "pinned.py").write_text(says.format("from the source"))
    forged = tmp_path / "forged.py"
    forged.write_text(says.format("from the cache"))
    cache = tmp_path / "plugin" / "__pycache__"
    cache.mkdir(parents=True)
    (tmp_path / "pinned.py").rename(tmp_path / "plugin" / "pinned.py")
    py_compile.compile(
        str(forged),
        cfile=str(cache / f"pinned.{sys.implementation.cache_tag}.pyc"),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    (tmp_path / "plugin" / "manifest.yaml").write_text(
        "apiVersion: bollard/v1\nkind: Plugin\n"
        "metadata: {author: a, name: pinned, version: '1', label: {en_US: Pinned}}\n"
        "spec: {runners: [{name: default, label: {en_US: Pinned}, entry: 'pinned:pinned'}]}\n"
    )
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom bollard.runtime import load_plugin\n"
        "plugin = load_plugin(Path(sys.argv[1]))\n"
        "target = plugin.runners['default'].declaration.target\n"
        "async def first():\n    async for said in target(None):\n        return said\n"
        "print(asyncio.run(first()))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "plugin")], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "from the source"
