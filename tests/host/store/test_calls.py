"""The book of calls and the questions about them, as every store keeps them."""

from bollard.host.store.action_rows import EndToolCall, PatchApproval, PutApproval, PutToolCall


def end(call_id, **more):
    fields = {"status": "completed", "result": b'{"a":1}', "flow": 2, "ended_ms": 9, **more}
    return EndToolCall(run_id="r1", call_id=call_id, **fields)


def test_a_call_ends_in_its_own_commit_or_later_and_may_start_again(store, make, apply):
    apply(store, PutToolCall(make.call("both", record_id=1)), end("both"), PutToolCall(make.call("later", record_id=2)))
    assert store.tool_call("r1", "both").status == "completed"
    assert [row.call_id for row in store.open_tool_calls(0, 10)] == ["later"]
    assert store.open_tool_calls(2, 10) == []
    apply(store, end("later", status="unknown"), end("never-begun"))
    assert store.tool_call("r1", "later").status == "unknown"
    assert store.tool_call("r1", "never-begun") is None
    apply(store, end("later", status="failed"), PutToolCall(make.call("later", record_id=5)))
    again = store.tool_call("r1", "later")
    assert (again.status, again.record_id, again.result) == ("started", 5, None)
    assert [row.call_id for row in store.tool_calls("r1", 0, 10)] == ["both", "later"]
    assert [row.call_id for row in store.tool_calls("r1", 1, 10)] == ["later"]
    assert store.tool_calls("r2", 0, 10) == []
    ended = store.tool_call("r1", "both")
    assert (ended.result, ended.flow, ended.ended_ms) == (b'{"a":1}', 2, 9)


def test_approvals_are_found_by_workspace_status_run_and_openness(store, make, apply):
    apply(
        store,
        *(PutApproval(make.approval(f"a{n}", created_ms=n, run_id=f"r{n % 2}")) for n in range(1, 5)),
        PutApproval(make.approval("elsewhere", workspace="other", run_id="r9")),
        PatchApproval("a1", {"status": "denied", "decision": b'{"by":"ann"}', "decided_ms": 7}),
        PatchApproval("a2", {"status": "granted", "decided_ms": 8}),
    )

    def names(rows):
        return [row.approval_id for row in rows]

    assert names(store.approvals("w", None, None, 10)) == ["a4", "a3", "a2", "a1"]
    assert names(store.approvals("w", None, (3, "a3"), 1)) == ["a2"]
    assert names(store.approvals("w", "requested", None, 10)) == ["a4", "a3"]
    assert names(store.approvals("w", None, None, 10, "r1")) == ["a3", "a1"]
    assert names(store.approvals("w", "requested", (4, "a4"), 10, "r0")) == []
    assert names(store.open_approvals("", 10)) == ["a2", "a3", "a4", "elsewhere"]
    assert names(store.open_approvals("a3", 1)) == ["a4"]
    denied = store.approval("w", "a1")
    assert (denied.status, denied.decision, denied.decided_ms) == ("denied", b'{"by":"ann"}', 7)
    assert store.approval("other", "a1") is None
