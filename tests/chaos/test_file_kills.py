"""F01 for files: a host that is killed between the content of a file and its record has no such file, and one whose
record was acknowledged has it."""

import contextlib


async def _add(host, text):
    body = {"text": text}
    async with host.client.request("POST", "/api/v1/files?name=kept.json", body) as answer:
        assert answer.status == 201
        return await answer.json()


async def test_a_file_without_its_record_after_a_kill_is_absent(make_host, make_chaos, scripted):
    chaos = make_chaos(make_host(scripted))
    host = chaos.host
    await host.start()
    kept = await _add(host, "kept")
    await host.kill()
    await host.start("files.after_blob")
    with contextlib.suppress(OSError, EOFError):
        await _add(host, "lost")
    assert await host.died() == -9
    await host.start()
    assert (await host.client.get("/api/v1/files"))["items"] == [kept]
    again = await _add(host, "lost")
    assert [file["file_id"] for file in (await host.client.get("/api/v1/files"))["items"]] == [
        kept["file_id"],
        again["file_id"],
    ]
    await host.kill()
    assert not (found := chaos.problems()), "\n".join(found[:10])
