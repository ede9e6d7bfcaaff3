"""weft view as a person has it: the report, served, while the recording grows and when it has ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from capture.builder import SECOND
from report_recordings import MS, Recording, frame, random_recording

from conftest import OpenView  # noqa: F401
