"""Python called back by libraries, one within the other: libraries.py DEPTH LIBRARY [PACKAGES]

By sqlite3, OpenSSL and C++ (LIBRARY, made of callbacks.cpp), and by numpy where a folder is named that has it. In the
innermost call it tells the return addresses that LIBRARY has noted, outermost first, and waits for its stdin.
Python 2.7 and 3.
"""

import ctypes
import json
import os
import socket
import sqlite3
import ssl
import sys

LIBRARY = ctypes.CDLL(sys.argv[2])
CALLBACK = ctypes.CFUNCTYPE(None)
if len(sys.argv) > 3:
    sys.path.insert(0, sys.argv[3])
    import numpy


def by_function(depth):
    base = sqlite3.connect(":memory:")
    base.create_function("go_down", 0, lambda: down(depth))
    base.execute("select go_down()").fetchall()


def by_collation(depth):
    called = []

    def compare(a, b):
        if not called:
            called.append(True)
            down(depth)
        return (a > b) - (a < b)

    base = sqlite3.connect(":memory:")
    base.create_collation("going_down", compare)
    base.execute("select * from (select 'a' as x union select 'b') order by x collate going_down").fetchall()


def by_progress(depth):
    called = []

    def go_on():
        if not called:
            called.append(True)
            down(depth)
        return 0

    base = sqlite3.connect(":memory:")
    base.set_progress_handler(go_on, 1)
    base.execute("select count(*) from sqlite_master").fetchall()


def by_sni(depth):
    def on_name(_connection, _name, _context):
        down(depth)

    serving = ssl.SSLContext(ssl.PROTOCOL_SSLv23)
    asking = ssl.SSLContext(ssl.PROTOCOL_SSLv23)
    asking.check_hostname = False
    asking.verify_mode = ssl.CERT_NONE
    if hasattr(serving, "sni_callback"):
        serving.sni_callback = on_name
    else:
        serving.set_servername_callback(on_name)
    near, far = socket.socketpair()
    if sys.version_info[0] == 2:
        near, far = socket.socket(_sock=near), socket.socket(_sock=far)
    far.setblocking(False)
    server = serving.wrap_socket(near, server_side=True, do_handshake_on_connect=False)
    client = asking.wrap_socket(far, server_hostname="weft.example", do_handshake_on_connect=False)
    try:
        client.do_handshake()
    except ssl.SSLError:  # it waits for an answer
        pass
    try:
        server.do_handshake()
    except ssl.SSLError:  # it has no certificate
        pass


def by_catch(depth):
    LIBRARY.in_catch(CALLBACK(lambda: down(depth)))


def by_destructor(depth):
    LIBRARY.in_destructor(CALLBACK(lambda: down(depth)))


def by_unwinder(depth):
    LIBRARY.in_unwinder(CALLBACK(lambda: down(depth)))


def by_vectorize(depth):
    numpy.vectorize(lambda _: down(depth) or 0, otypes=[int])(numpy.zeros(1))


def by_axis(depth):
    numpy.apply_along_axis(lambda _: down(depth) or 0, 0, numpy.zeros(1))


class Compared(object):
    def __init__(self, depth, called):
        self.depth = depth
        self.called = called

    def __lt__(self, other):
        if not self.called:
            self.called.append(True)
            down(self.depth)
        return False


def by_numpy_sort(depth):
    called = []
    items = numpy.empty(2, dtype=object)
    items[:] = [Compared(depth, called), Compared(depth, called)]
    items.sort()


STEPS = [by_function, by_collation, by_progress, by_sni, by_catch, by_destructor, by_unwinder]
if len(sys.argv) > 3:
    STEPS += [by_vectorize, by_axis, by_numpy_sort]


def down(depth):
    if depth:
        STEPS[depth % len(STEPS)](depth - 1)
    else:
        noted = ctypes.c_int.in_dll(LIBRARY, "noted").value
        returned_to = (ctypes.c_void_p * 4096).in_dll(LIBRARY, "returned_to")
        sys.stdout.write(json.dumps({"returned_to": returned_to[:noted]}) + "\n")
        sys.stdout.flush()
        os.read(0, 1)


down(int(sys.argv[1]))
