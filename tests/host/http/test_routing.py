"""The routing of paths to operations."""

import pytest
from tests.tables import for_each

from bollard.host.http.router import PATH_CHARACTERS, Paths

PATHS = Paths(
    [
        ("GET", "/a", "a"),
        ("POST", "/a", "new a"),
        ("GET", "/a/{id}", "one a"),
        ("DELETE", "/a/{id}", "no a"),
        ("POST", "/a/resolve", "resolved"),
        ("GET", "/a/{id}/b/{name}", "b of a"),
    ]
)


@for_each(
    ("method", "path", "found"),
    [
        ("GET", "/a", ("a", {})),
        ("HEAD", "/a", ("a", {})),
        ("POST", "/a", ("new a", {})),
        ("GET", "/a/7", ("one a", {"id": "7"})),
        ("GET", "/a/7/b/x", ("b of a", {"id": "7", "name": "x"})),
        ("POST", "/a/resolve", ("resolved", {})),
        ("GET", "/a/resolve", ("one a", {"id": "resolve"})),
        ("DELETE", "/a/resolve", ("no a", {"id": "resolve"})),
    ],
)
def test_a_literal_path_precedes_a_path_with_parameters(method: str, path: str, found: object) -> None:
    assert PATHS.find(method, path) == found


@for_each("path", ["", "a", "/", "//a", "/a/", "/a/7/", "/a//b/x", "/A", "/a/7/b", "/a/7/b/x/y"])
def test_an_unknown_path_is_not_found(path: str) -> None:
    assert PATHS.find("GET", path) is None


def test_an_overlong_path_is_not_parsed() -> None:
    assert PATHS.find("GET", "/a/" + "x" * PATH_CHARACTERS) is None
    assert PATHS.find("GET", "/a" * 10_000) is None


def test_a_path_allows_the_methods_of_all_its_matches() -> None:
    assert PATHS.methods("/a/resolve") == ["DELETE", "GET", "HEAD", "POST"]
    assert PATHS.methods("/a/7") == ["DELETE", "GET", "HEAD"]
    assert PATHS.methods("/nothing") == []


def test_an_encoded_slash_belongs_to_its_segment() -> None:
    assert PATHS.find("GET", "/a/x/y", b"/a/x%2Fy") == ("one a", {"id": "x/y"})
    assert PATHS.find("GET", "/a/x/b/y", b"/a/x%2fb%2Fy") == ("one a", {"id": "x/b/y"})
    assert PATHS.find("GET", "/a/x/y") is None


def test_two_operations_at_one_path_are_an_error() -> None:
    with pytest.raises(ValueError, match="twice"):
        Paths([("GET", "/a/{x}", 1), ("GET", "/a/{y}", 2)])
