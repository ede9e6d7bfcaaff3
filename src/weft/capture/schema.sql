-- The capture: one SQLite database in WAL mode, written in batches at most a second apart, readable meanwhile.
-- Times are CLOCK_MONOTONIC of the recording machine, weights are time, both in nanoseconds. In mode alloc, weights are bytes.
-- Ids are the recorder's own and never reused within a capture.

PRAGMA application_id = 0x77656674;  -- "weft"
PRAGMA user_version = 7;             -- of this schema; another one is refused

-- Of the recording: version, command, host, kernel, collector, pacer, mode, rate_hz (in mode alloc: bytes_a_sample), start_ns (monotonic),
-- start_unix_ns, end_ns (absent while it runs), written_ns (of the last batch), ended ("" or why).
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;

CREATE TABLE string (id INTEGER PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE process (
    id INTEGER PRIMARY KEY,
    pid INTEGER NOT NULL,          -- as weft sees it
    parent INTEGER,                -- process.id; NULL for the first and for those attached to
    command TEXT NOT NULL,         -- a JSON list of arguments
    runtime TEXT,                  -- "CPython 3.13.0 (debug offsets)"; NULL: no Python was found in it
    start_ns INTEGER NOT NULL,
    end_ns INTEGER,
    exit_status INTEGER            -- as of wait(2); NULL: it outlived the recording, or was not ours to see
);

CREATE TABLE thread (
    id INTEGER PRIMARY KEY,
    process INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    name TEXT NOT NULL,
    start_ns INTEGER NOT NULL,
    end_ns INTEGER
);

CREATE TABLE mapping (
    process INTEGER NOT NULL,
    start INTEGER NOT NULL,        -- addresses as signed 64 bits
    end INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    path TEXT NOT NULL,
    build_id TEXT,                 -- hex
    seen_ns INTEGER NOT NULL
);

-- Files whose code frames refer to.
CREATE TABLE module (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL,            -- in the target
    build_id TEXT                  -- hex
);

CREATE TABLE frame (
    id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,         -- 0 Python, 1 native, 4 kernel, 2 none: a marker that says why frames are missing
    function INTEGER NOT NULL,     -- string.id; the qualified name where the version has one; 0 of native frames
    file INTEGER NOT NULL,         -- string.id; 0 of native frames
    first_line INTEGER NOT NULL,   -- of the function; 0: none
    line INTEGER NOT NULL,         -- 0: none
    end_line INTEGER NOT NULL,     -- end_line, column, end_column: 0 where the version has none; columns from 1, in
    column INTEGER NOT NULL,       -- UTF-8 bytes
    end_column INTEGER NOT NULL,
    flags INTEGER NOT NULL,        -- 1: the frame was incomplete and is kept at its first line; of one that runs the
                                   -- eval loop, the proof that it runs the Python frames above it: 4, 8 counted, 16 open
    module INTEGER,                -- module.id; NULL: the address is the process's own or the kernel's, and of Python
                                   -- frames
    address INTEGER                -- of native frames: in the module; of a call, its last byte. Of the kernel's, signed
                                   -- 64 bits, or NULL: the kernel has told the function only
);

-- What lies at a native frame's address: a function, and those inlined into it there. Written at the recording's end. Of
-- a frame in the kernel, its function.
CREATE TABLE function (
    frame INTEGER NOT NULL,
    depth INTEGER NOT NULL,        -- 0: the outermost
    kind INTEGER NOT NULL,         -- 1 C, C++ or Rust, 3 Cython, 4 kernel
    name INTEGER NOT NULL,         -- string.id
    file INTEGER NOT NULL,         -- string.id; of '' where no line is known; of the kernel, "[kernel]" or its module
    line INTEGER NOT NULL,         -- 0: none
    flags INTEGER NOT NULL,        -- 2: of the interpreter's machinery; 32: a wrapper, whose body may be the next frame
    PRIMARY KEY (frame, depth)
) WITHOUT ROWID;

-- Every stack is a node of one tree: its innermost frame, and the stack of its caller. Stack 0, the empty one, has no row.
-- A row is replaced when more of its stack is known.
CREATE TABLE stack (
    id INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    frame INTEGER NOT NULL
);

-- The samples of one thread in one batch, as runs; the blob's form is told in docs/capture.md.
CREATE TABLE samples (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,     -- the time that the runs count from
    end_ns INTEGER NOT NULL,
    runs BLOB NOT NULL
);

-- Threads that stand still: a run that has begun and not ended. It lasts to meta.written_ns.
CREATE TABLE standing (
    thread INTEGER PRIMARY KEY,
    stack INTEGER NOT NULL,
    state INTEGER NOT NULL,
    since_ns INTEGER NOT NULL
);

-- The text of files that frames name, as it was when the recording ended; docs/capture.md says which are taken along.
CREATE TABLE source (
    file TEXT PRIMARY KEY,         -- as frames name it
    text BLOB,                     -- zlib of UTF-8; NULL: it could not be had
    problem TEXT NOT NULL          -- why not; of a text, what speaks against it, or ""
) WITHOUT ROWID;

-- Who made whom wait for the GIL: a thread, in a stack, waited while another held it, in another stack. Added up so far.
CREATE TABLE gil_wait (
    waiter INTEGER NOT NULL,       -- thread.id
    waiter_stack INTEGER NOT NULL, -- stack.id
    holder INTEGER NOT NULL,       -- thread.id; 0: it is not known who held it
    holder_stack INTEGER NOT NULL, -- stack.id; 0: the holder was not sampled meanwhile
    weight_ns INTEGER NOT NULL,
    PRIMARY KEY (waiter, waiter_stack, holder, holder_stack)
) WITHOUT ROWID;

-- Why samples are incomplete, degraded or missing: totals so far. weight_ns is the time that the missing ones stood for.
CREATE TABLE loss (
    process INTEGER NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    weight_ns INTEGER NOT NULL,
    PRIMARY KEY (process, reason)
) WITHOUT ROWID;

-- The rest of the honest account, totals so far; docs/account.md has the names.
CREATE TABLE account (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
