"""The resources of people, programs and workspaces, over one identity book."""

from typing import Final

from bollard.host.http.keys import Keys
from bollard.host.http.operations import Resource
from bollard.host.http.pages import Pages
from bollard.host.http.session import SessionRoutes
from bollard.host.http.users import ActorLinks, Users
from bollard.host.http.workspaces import Workspaces
from bollard.host.identity.book import IdentityBook

__all__ = ["IDENTITY_RESOURCES", "identity_resources"]

IDENTITY_RESOURCES: Final[tuple[type[Resource], ...]] = (SessionRoutes, Users, ActorLinks, Keys, Workspaces)


def identity_resources(book: IdentityBook, cursor_secret: bytes) -> tuple[Resource, ...]:
    pages = Pages(cursor_secret)
    return (
        SessionRoutes(book),
        Users(book, pages),
        ActorLinks(book, pages),
        Keys(book, pages),
        Workspaces(book, pages),
    )
