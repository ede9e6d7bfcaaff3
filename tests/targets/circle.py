"""Links a frame of its own to one that it has called, so that its chain of frames runs in a circle: circle.py BEFORE LENGTH

LENGTH calls of `around` are the circle; the innermost of them has made BEFORE calls of `inside`. Tells {"ready": true}
on stdout, makes the circle when it gets SIGUSR1, tells {"linked": true}, and runs until it is ended. Python 2.7 and 3.
"""
import ctypes
import gc
import signal
import sys

HEAD = object.__basicsize__
FRAME_OF_OBJECT = HEAD + 8  # PyFrameObject.f_frame, behind f_back, from 3.11 on
PREVIOUS = 48 if sys.version_info < (3, 12) else 8  # _PyInterpreterFrame.previous
F_BACK = HEAD + 8  # PyFrameObject.f_back up to 3.10, behind ob_size

asked = []


def links(of, to):
    """What the frame `of` is linked to, and where `to` is."""
    if sys.version_info < (3, 11):
        return ctypes.c_size_t.from_address(id(of) + F_BACK), id(to)
    own = [ctypes.c_size_t.from_address(id(frame) + FRAME_OF_OBJECT).value for frame in (of, to)]
    return ctypes.c_size_t.from_address(own[0] + PREVIOUS), own[1]


def around(left, before, outermost):
    here = sys._getframe()
    outermost = outermost or here
    if left > 1:
        around(left - 1, before, outermost)
    else:
        inside(before, here, outermost)


def inside(left, innermost, outermost):
    if left > 1:
        inside(left - 1, innermost, outermost)
    print('{"ready": true}')
    sys.stdout.flush()
    while not asked:
        pass
    link, target = links(outermost, innermost)
    link.value = target
    print('{"linked": true}')
    sys.stdout.flush()
    while True:
        pass


gc.disable()  # it follows frames, too
signal.signal(signal.SIGUSR1, lambda number, frame: asked.append(number))
around(int(sys.argv[2]), int(sys.argv[1]), None)
