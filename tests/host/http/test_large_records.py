"""Records of a run that are so large that a page of them would be too much."""

from typing import Any


def test_a_page_of_large_records_is_shorter(shop: Any) -> None:
    shop.save_agent("bard", "workshop/bard")
    run_id = shop.tell("bard", "1000000 9").json["run_id"]
    events = shop.read(run_id)
    records, path, pages = [], f"/api/v1/runs/{run_id}/records?limit=100", 0
    page = shop.get(path).json
    while True:
        records += page["items"]
        pages += 1
        if not page["has_more"]:
            break
        page = shop.get(f"{path}&cursor={page['next_cursor']}").json
    assert [record["seq"] for record in records] == [event.data["seq"] for event in events]
    assert pages > 2
