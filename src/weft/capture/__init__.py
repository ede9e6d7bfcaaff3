"""The capture file: what recording writes, and everything else reads. docs/capture.md is its description."""

from weft.capture.file import APPLICATION_ID, MAX_BATCH_BYTES, MAX_SOURCE_BYTES, SCHEMA, SCHEMA_VERSION
from weft.capture.reader import Capture
from weft.capture.rows import GilWait, Loss, Mapping, Place, Process, Runs, Slice, Source, Standing, Thread
from weft.capture.writer import CaptureWriter

__all__ = [
    "APPLICATION_ID",
    "MAX_BATCH_BYTES",
    "MAX_SOURCE_BYTES",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Capture",
    "CaptureWriter",
    "GilWait",
    "Loss",
    "Mapping",
    "Place",
    "Process",
    "Runs",
    "Slice",
    "Source",
    "Standing",
    "Thread",
]
