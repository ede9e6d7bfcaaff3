"""The report to look at: one HTML file that needs nothing else and loads nothing."""

from __future__ import annotations

from weft.capture import Capture
from weft.profile.names import recording_name
from weft.profile.tables import ACTIVE_VIEW, View
from weft.profile.windows import Window
from weft.report.html.content import content
from weft.report.html.page import assemble

__all__ = ["render"]


def render(capture: Capture, view: View = ACTIVE_VIEW, *, title: str = "", window: Window | None = None) -> str:
    """The report of a capture as HTML; what the view leaves out, the page can show, too. Raises CaptureError.

    title: the recording's own, if there is none. window: the time that is shown, if it is not all of the recording.
    """
    title = title or recording_name(capture.processes()) or "weft"
    return assemble(title, content(capture, view, window))
