"""The report to look at: one HTML file that needs nothing else and loads nothing."""

from __future__ import annotations

from weft.capture import Capture
from weft.profile.names import recording_name
from weft.profile.tables import ACTIVE_VIEW, View
from weft.profile.windows import Part
from weft.report.html.content import ALL, content
from weft.report.html.page import assemble

__all__ = ["ALL", "render"]


def render(capture: Capture, view: View = ACTIVE_VIEW, *, title: str = "", part: Part | None = None) -> str:
    """The report of a capture as HTML; what the view leaves out, the page can show, too. Raises CaptureError.

    title: the recording's own, if there is none.
    part: what is shown, if it is not all; its profile is one of the view ALL.
    """
    title = title or recording_name(capture.processes()) or "weft"
    return assemble(title, content(capture, view, part))
