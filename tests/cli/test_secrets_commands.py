"""`bollard secrets` against a real host: a value is read from a pipe, and no command shows it."""

import pytest

VALUE = "a-value-that-nobody-sees"


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def test_a_secret_is_set_listed_and_removed_without_its_value(bollard, new_host) -> None:
    host = new_host().start()  # one that has no secret yet

    def ask(*arguments, **more):
        return bollard(*arguments, **{**host.variables, **more})

    assert ask("secrets", "--text").out == "There are no secrets; set one with `bollard secrets set NAME`\n"
    saved = ask("secrets", "set", "API_KEY", "--text", stdin=f"{VALUE}\n").out
    assert saved == "secret API_KEY is set; refer to it as secret:API_KEY\n"
    again = ask("secrets", "set", "API_KEY", stdin=VALUE).json
    assert (again["revision"], again["masked"]) == (2, True)
    listed = ask("secrets", "list", "--text").out
    assert "API_KEY" in listed
    assert "never" in listed
    assert "可用" in ask("secrets", "--text", BOLLARD_LANG="zh_Hans").out
    (item,) = ask("secrets").json["items"]
    assert (item["secret_name"], item["readable"]) == ("API_KEY", True)
    assert VALUE not in str(again) + listed + str(item)
    assert ask("secrets", "remove", "API_KEY", "--text").out == "removed secret API_KEY\n"
    gone = ask("secrets", "remove", "API_KEY")
    assert gone.err == "bollard: the host says: there is no such secret\nhint: `bollard secrets` lists them\n"


def test_a_short_value_is_saved_with_a_warning_and_an_empty_one_is_refused(ask) -> None:
    short = ask("secrets", "set", "PIN", "--text", stdin="1234").out
    assert short.endswith("the value is too short to be redacted from the output of runs\n")
    ask("secrets", "remove", "PIN")
    empty = ask("secrets", "set", "PIN", stdin="\n")
    assert (empty.code != 0, empty.err.startswith("bollard: the value is empty\nhint: pipe it in")) == (True, True)
