"""`bollard state purge` against a real host."""

from typing import Any

KEEPER = """
from bollard.sdk import RunContext, runner

@runner(label="Keeper")
async def keeper(ctx: RunContext):
    yield ctx.state("conversation", ctx.input.text, "kept")
    yield ctx.completed("kept")
"""


def test_state_of_a_writer_is_shown_and_then_purged(bollard: Any, new_host: Any) -> None:
    host = new_host()
    plugin = host.folder / "keeper.py"
    plugin.write_text(KEEPER, encoding="utf-8")
    host.start("--plugins", str(plugin), agents=("keeper",))
    for actor, key in (("user:eve", "bad"), ("user:ann", "good")):
        told = ("--agent", "keeper", "--conversation", key, "--actor", actor, "--message", key)
        assert bollard("chat", *told, **host.variables).code == 0

    def purge(*options: str, **more: str) -> Any:
        return bollard("state", "purge", *options, **host.variables, **more)

    looked = purge("--actor", "user:eve", "--dry-run", "--text")
    first, last = looked.out.splitlines()
    assert (looked.code, first.split()[:2]) == (0, ["conversation", "bad"]), looked.err
    assert (first.split()[2][:4], last) == ("run_", "values to delete: 1")
    run_id = first.split()[2]
    assert purge("--agent", "keeper", "--dry-run").json["matched"] == 2
    assert purge("--run", run_id, "--source", "elsewhere", "--text").out == "values deleted: 0\n"
    assert purge("--run", run_id, "--text", BOLLARD_LANG="zh_Hans").out == "已删除的值：1\n"
    left = purge("--source", "api", "--dry-run").json
    assert [item["key"] for item in left["items"]] == ["good"]


def test_a_purge_without_a_writer_is_not_sent(bollard: Any) -> None:
    for options, word in (((), "--source"), (("--dry-run",), "--source"), (("--actor", "eve"), "type:id")):
        refused = bollard("state", "purge", *options)
        assert (refused.code, refused.out) == (2, "")
        assert word in refused.err
