"""Which files tell the names and lines of a module's functions."""

from __future__ import annotations

from contextlib import ExitStack

from weft.symbolize.debuginfod import Debuginfod
from weft.symbolize.minidebug import mini_debug_file
from weft.target.code import CodeModule
from weft.target.elf import ElfError, ElfFile


def files_of(module: CodeModule, servers: Debuginfod | None, opened: ExitStack) -> list[ElfFile]:
    """Return the module's files, the one that tells most last: its own, its debug file, or else what servers have, or
    else what it carries along as mini debug information. What is opened here is closed with `opened`.
    """
    files = [file for file in (module.file, module.debug) if file]
    if any(map(has_lines, files)):
        return files
    if servers and module.build_id:
        found = servers.debug_file(module.build_id) or (None if files else servers.executable(module.build_id))
        if found:
            return [*files, opened.enter_context(found)]
    if module.file and not module.debug:
        try:
            if mini := mini_debug_file(module.file):
                return [*files, opened.enter_context(mini)]
        except (OSError, ElfError) as error:
            module.problems.append(f"its mini debug information cannot be read: {error}")
    return files


def shared_file(module: CodeModule, servers: Debuginfod | None, file: ElfFile, opened: ExitStack) -> ElfFile | None:
    """Return the file into which dwz has moved what `file` shares with others; None if it cannot be had. What is opened
    here is closed with `opened`.
    """
    try:
        link = file.shared_link
        if link and module.shared and module.shared.build_id == link.build_id:
            return module.shared
    except ElfError:
        return None
    found = servers.debug_file(link.build_id) if servers and link else None
    return opened.enter_context(found) if found else None


def has_lines(file: ElfFile) -> bool:
    """Whether a file has debug information that tells lines; it may be compressed."""
    return any(file.section(name) for name in (".debug_line", ".zdebug_line"))
