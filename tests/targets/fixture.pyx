# cython: language_level=3
# Functions of each kind, each of which calls Python: what the line is, its comment says. test_cython.py looks for them.


cdef class Shape:
    cdef object call

    def __init__(self, call):
        self.call = call

    cpdef object area(self, n):
        return self.call(n)  # at fixture.Shape.area

    def method(self, n):
        more = n + 1
        return self.area(more)  # at fixture.Shape.method


cdef object low(call, n):
    return call(n)  # at fixture.low


def plain(call, n):
    return low(call, n)  # at fixture.plain


def gen(call, n):
    yield call(n)  # at fixture.gen


def outer(call):
    def inner(n):
        return call(n)  # at fixture.outer.inner

    return inner


ctypedef fused number:
    int
    double


def fused(number a, call):
    return call(a)  # at fixture.fused
