"""Flow: every combination, and the checks that no sequence bypasses."""

from itertools import product

import pytest

from bollard.host.actions.call_policy import (
    FLOW_WORDS,
    flow_of_call,
    judge_flow,
    missing_words,
    reasons_to_ask,
    refused_words,
    stricter,
)
from bollard.host.agents.policies import ApprovalPolicy
from bollard.host.capabilities.capability import ALL_FLOW, NO_FLOW, RISKS, Capability, Flow
from bollard.host.log.records import DeliverTo

EVERY = [Flow.of_bits(bits) for bits in range(8)]


@pytest.mark.parametrize("unattended", [False, True])
def test_a_call_that_completes_the_three_flow_bits_or_leaks_needs_approval(unattended: bool) -> None:
    for touched, does in product(EVERY, EVERY):
        verdict = judge_flow(touched, does, unattended=unattended)
        completes = (touched | does) == ALL_FLOW and touched != ALL_FLOW
        leaks = touched == ALL_FLOW and does.sends_out
        expected = "allow" if not completes and not leaks else "refuse" if unattended else "ask"
        assert verdict == expected, (touched, does)


def test_unknown_flow_counts_as_all_three_bits() -> None:
    assert judge_flow(NO_FLOW, ALL_FLOW, unattended=False) == "ask"
    assert "sends data out" in missing_words(NO_FLOW, ALL_FLOW)


@pytest.mark.parametrize("order", [(1, 2, 4), (4, 2, 1), (2, 4, 1), (2, 1, 4)])
def test_the_third_of_three_flow_calls_needs_approval_in_any_order(order: tuple[int, int, int]) -> None:
    touched, unasked = NO_FLOW, 0
    for bits in order:
        if judge_flow(touched, Flow.of_bits(bits), unattended=True) == "allow":
            touched |= Flow.of_bits(bits)
            unasked += 1
    assert unasked == 2


def test_a_message_to_the_reply_target_has_no_flow_and_any_other_message_sends_out() -> None:
    out = Flow(reads_private=False, brings_untrusted=False, sends_out=True)
    fields = {"name": "s", "description": "", "input_schema": {}, "source": "s", "flow": out}
    send = Capability(id="channel:desk/message.send", kind="channel", **fields)
    here = DeliverTo(channel="desk", target="ann")
    assert flow_of_call(send, {"target": "ann", "text": "hi"}, here) == NO_FLOW
    for arguments, answers in (
        ({"target": "bob"}, here),
        ({}, here),
        ({"target": "ann"}, DeliverTo(channel="des", target="ann")),
        ({"target": "ann"}, None),
    ):
        assert flow_of_call(send, arguments, answers) == out
    tool = Capability(id="channel:desk/x", kind="tool", **fields)
    assert flow_of_call(tool, {"target": "ann"}, here) == out


def test_a_flow_refusal_names_the_combined_flow_in_both_languages() -> None:
    touched, does = Flow.of_bits(3), Flow.of_bits(4)
    assert FLOW_WORDS["en_US"].keys() == FLOW_WORDS["zh_Hans"].keys()
    assert refused_words("send", touched, does) == (
        "send cannot be called: the run has read private data and has read untrusted content, and this call sends "
        "data out; this needs approval, and the run is unattended"
    )
    said = refused_words("send", touched, does, "zh_Hans")
    for word in ("send", "已读取私密数据", "已读取不可信内容", "会对外发送数据", "无人值守"):
        assert word in said


def test_a_policy_tightens_and_never_loosens() -> None:
    modes = ("never", "on_risk", "always")
    for demanded, said in product(modes, modes):
        assert modes.index(stricter(demanded, said)) == max(modes.index(demanded), modes.index(said))
    for demanded, said, risk in product(modes, modes, RISKS):
        capability = Capability(
            id="tool:t/t",
            name="t",
            kind="tool",
            description="",
            input_schema={},
            source="builtin",
            risk=risk,
            approval=demanded,
        )
        whys = reasons_to_ask(capability, ApprovalPolicy(mode=said), flow=False)
        if demanded == "always" or said == "always":
            assert whys == ("always",)
        elif "on_risk" in (demanded, said) and risk in ("high", "critical"):
            assert whys == ("risk",)
        else:
            assert whys == ()
        assert reasons_to_ask(capability, ApprovalPolicy(mode=said), flow=True) == (*whys, "flow")
