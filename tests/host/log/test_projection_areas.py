"""Who shares a storage area."""

from typing import Any

from tests.tables import for_each

from bollard.host.store.keys import area_key


@for_each(
    ("one", "other", "same"),
    [
        (("w", "plugin", "plugin:a/b/c"), ("w", "plugin", "plugin:a/b/d"), True),
        (("w", "plugin", "plugin:a/b/c"), ("w", "plugin", "plugin:a/x/c"), False),
        (("w", "plugin", "plugin:a/b/c"), ("w", "plugin", "plugin:x/b/c"), False),
        (("w", "plugin", "plugin:a/b/c"), ("v", "plugin", "plugin:a/b/c"), False),
        (("w", "workspace", "plugin:a/b/c"), ("w", "workspace", "plugin:x/y/z"), True),
        (("w", "workspace", "plugin:a/b/c"), ("v", "workspace", "plugin:a/b/c"), False),
        (("w", "workspace", "plugin:a/b/c"), ("w", "plugin", "plugin:a/b/c"), False),
    ],
)
def test_an_area_is_shared_within_its_scope(one: Any, other: Any, same: bool) -> None:
    assert (area_key(*one) == area_key(*other)) is same
