"""The support desk, offline: its sources, its memory, and a refund that a person denies."""

import asyncio

from support_desk import refund, support_desk

from bollard.sdk.testing import MemoryHost, ScriptedModel, tool_calls


def test_it_greets_once_and_cites_the_handbook():
    model = ScriptedModel(["In three days [1].", "Yes."])
    host = MemoryHost(models={"default": model}, knowledge={"handbook": ["Parcels arrive within three days."]})
    first = asyncio.run(host.run(support_desk, "when do parcels arrive?"))
    assert [message.content for message in first.messages] == ["Welcome to the support desk.", "In three days [1]."]
    assert "'kb_id': 'handbook'" in str(first.messages[1].metadata)
    assert [message.content for message in asyncio.run(host.run(support_desk, "sure?")).messages] == ["Yes."]


def test_it_tells_the_customer_that_a_refund_was_denied():
    model = ScriptedModel([tool_calls(("refund", {"order": "A1", "euros": 9})), "I may not refund that."])
    host = MemoryHost(models={"default": model}, tools=[refund])
    host.deny("tools.call", "approval_denied")
    assert asyncio.run(host.run(support_desk, "refund me")).messages[-1].content == "I may not refund that."
    assert "approval_denied" in model.requests[1].messages[-1].content
