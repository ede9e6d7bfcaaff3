"""The call tree of storm.py: its source, and what every legal stack of it is. For Python 2.7 and 3 alike.

The tree is many spines, some thirty calls deep. Every function has exactly one line that calls it, and every line
calls at most one function, so the innermost frame decides the whole stack, down to the line in each caller: a stack
that is put together from two moments is legal only by a rare accident. A spine takes microseconds from end to end,
so that within one slow read of a stack all of it may change.
"""

SPINES = 12
LEVELS = 24
KINDS = ["plain", "recursive", "generator", "mapped", "init", "method", "raises", "plain"]
RECURSION = 3  # a recursive function calls itself this many times before it goes on


class Tree(object):
    """The source of the program and its grammar, by lines: each line belongs to one function.

    owner: line -> first line of its function (0: of none); names: first line -> (name, qualified name);
    callee: line -> first line of the function that it calls; repeats: first line -> frames of a recursive function;
    root: first line of root(turns), which runs it all.
    """

    def __init__(self):
        self.lines = []
        self.owner = {}
        self.names = {}
        self.callee = {}
        self.repeats = {}

    def source(self):
        return "\n".join(self.lines) + "\n"

    def add(self, text, function, calls=None):
        """Append a line of a function; it calls the function whose first line is `calls`."""
        self.lines.append(text)
        self.owner[len(self.lines)] = function
        if calls is not None:
            self.callee[len(self.lines)] = calls

    def define(self, name, text, qualname=None):
        """Append the first line of a function; gives its number."""
        first = len(self.lines) + 1
        self.names[first] = (name, qualname or name)
        self.add(text, first)
        return first


def build():
    """The whole tree, the same each time."""
    tree = Tree()
    tree.add("ONE = [0]", 0)
    spines = [spine(tree, number) for number in range(SPINES)]
    root = tree.define("root", "def root(turns):")
    tree.add("    while turns > 0:", root)
    tree.add("        turns -= 1", root)
    for entry, call in spines:
        tree.add("        " + call, root, entry)
    tree.root = root
    return tree


def spine(tree, number):
    """Append the functions of one spine, innermost first; gives the first line of the outermost and a call of it."""
    entry, call = leaf(tree, "end_%d" % number, number)
    for level in reversed(range(LEVELS - number % 5)):
        name = "f_%d_%d" % (number, level)
        near = leaf(tree, "a" + name, level)
        far = leaf(tree, "b" + name, level + 1)
        kind = KINDS[(level * 5 + number * 3) % len(KINDS)]
        entry, call = BODIES[kind](tree, name, [near, (entry, call), far])
    return entry, call


def leaf(tree, name, number):
    if number % 3 == 0:
        first = tree.define("<lambda>", "%s = lambda x: x" % name)
    else:
        first = tree.define(name, "def %s(x):" % name)
        tree.add("    return x", first)
    return first, "%s(0)" % name


def body(tree, first, calls, indent="    "):
    for callee, call in calls:
        tree.add(indent + call, first, callee)


def plain(tree, name, calls):
    first = tree.define(name, "def %s(x):" % name)
    body(tree, first, calls)
    return first, "%s(0)" % name


def recursive(tree, name, calls):
    first = tree.define(name, "def %s(x):" % name)
    tree.add("    if x:", first)
    tree.add("        return %s(x - 1)" % name, first, first)
    body(tree, first, calls)
    tree.repeats[first] = RECURSION + 1
    return first, "%s(%d)" % (name, RECURSION)


def generator(tree, name, calls):
    first = tree.define(name, "def %s(x):" % name)
    tree.add("    yield x", first)
    body(tree, first, calls)
    tree.add("    yield x", first)
    return first, "for _ in %s(0): pass" % name


def mapped(tree, name, calls):
    """Called from C, so that the interpreter is entered anew."""
    first = tree.define(name, "def %s(x):" % name)
    body(tree, first, calls)
    return first, "list(map(%s, ONE))" % name


def init(tree, name, calls):
    tree.add("class C%s(object):" % name, 0)
    first = tree.define("__init__", "    def __init__(self, x):", "C%s.__init__" % name)
    body(tree, first, calls, "        ")
    return first, "C%s(0)" % name


def method(tree, name, calls):
    """A property: called by an attribute access."""
    tree.add("class C%s(object):" % name, 0)
    # co_firstlineno of a decorated function is the line of its first decorator, in every version.
    first = tree.define("held", "    @property", "C%s.held" % name)
    tree.add("    def held(self):", first)
    body(tree, first, calls, "        ")
    tree.add("i%s = C%s()" % (name, name), 0)
    return first, "i%s.held" % name


def raises(tree, name, calls):
    first = tree.define(name, "def %s(x):" % name)
    tree.add("    try:", first)
    body(tree, first, calls, "        ")
    tree.add("        raise ValueError", first)
    tree.add("    except ValueError:", first)
    tree.add("        pass", first)
    return first, "%s(0)" % name


BODIES = {
    "plain": plain, "recursive": recursive, "generator": generator, "mapped": mapped, "init": init, "method": method,
    "raises": raises,
}
