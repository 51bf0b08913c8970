"""The output of the workers of a plugin: limited, numbered, without terminal escapes and without secrets."""

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.errors import Overloaded
from bollard.host.limits import PLUGIN_LOG_BYTES, PLUGIN_LOG_LINES, PLUGIN_LOG_READERS
from bollard.host.plugins.logs import PluginLog


@pytest.fixture
async def log(clock: ManualClock) -> PluginLog:
    return PluginLog(clock)


async def test_lines_are_numbered_and_the_oldest_are_dropped_first(log: PluginLog) -> None:
    for number in range(PLUGIN_LOG_LINES + 10):
        log.say("stdout", f"line {number}")
    lines = log.last(PLUGIN_LOG_LINES + 10)
    assert len(lines) == PLUGIN_LOG_LINES
    assert (lines[0].number, lines[-1].number) == (11, PLUGIN_LOG_LINES + 10)
    assert [line.number for line in log.after(0, 3)] == [11, 12, 13]
    assert [line.number for line in log.after(PLUGIN_LOG_LINES, 100)] == list(
        range(PLUGIN_LOG_LINES + 1, PLUGIN_LOG_LINES + 11)
    )
    assert log.after(PLUGIN_LOG_LINES + 10, 5) == []
    assert [line.number for line in log.last(2)] == [PLUGIN_LOG_LINES + 9, PLUGIN_LOG_LINES + 10]


async def test_long_lines_take_a_limited_space(log: PluginLog) -> None:
    for _ in range(40):
        log.say("stderr", "x" * (PLUGIN_LOG_BYTES // 10))
    assert sum(len(line.text) for line in log.last(100)) <= PLUGIN_LOG_BYTES


async def test_terminal_escapes_and_hidden_characters_are_removed(log: PluginLog) -> None:
    log.say("stdout", "\x1b[31mred\x1b[0m \x1b]0;title\x07now\x07 \u202ereversed zero\u200bwidth\ttab")
    assert log.last(1)[0].text == "red now\ufffd \ufffdreversed zero\ufffdwidth\ttab"


async def test_environment_values_of_the_plugin_are_not_shown(log: PluginLog) -> None:
    log.hide(["s3cret-value", "s3cret", "no"])
    log.say("log", "the key is s3cret-value, not s3cret", fields={"key": "s3cret-value", "n": 7})
    line = log.last(1)[0]
    assert line.text == "the key is ***, not ***"
    assert line.fields == {"key": "***", "n": "7"}
    log.say("log", "no")
    assert log.last(1)[0].text == "no"


async def test_a_secret_is_hidden_line_by_line_and_across_escapes(log: PluginLog) -> None:
    log.hide(["-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----", "s3cret-value"])
    log.say("stderr", "bad key: MIIEvQIBADANBg")
    log.say("stderr", "bad key: s3cret\x1b[0m-value")
    assert [line.text for line in log.last(2)] == ["bad key: ***", "bad key: ***"]


async def test_readers_are_counted(log: PluginLog) -> None:
    readers = [log.reading() for _ in range(PLUGIN_LOG_READERS)]
    for reader in readers:
        log.check_room()
        reader.__enter__()
    with pytest.raises(Overloaded):
        log.check_room()
    readers[0].__exit__(None, None, None)
    log.check_room()
