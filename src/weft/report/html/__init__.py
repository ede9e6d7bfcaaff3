"""The interactive flame graph: one HTML file that needs nothing else and loads nothing."""

from __future__ import annotations

from weft.profile.quality import Account
from weft.profile.tables import Profile
from weft.report.html.columns import columns
from weft.report.html.page import assemble

__all__ = ["render"]


def render(profile: Profile, title: str, account: Account, *, idle: bool = False) -> str:
    """The flame graph of a profile as HTML.

    A profile made with ``idle=True`` lets the page switch blocked threads on and off; ``idle`` here says whether they
    are on from the start.
    """
    return assemble(title, columns(profile, account, idle=idle))
