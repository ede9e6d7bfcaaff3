/* Calls back from known places: what each line is, its comment says. cplusplus_lines.py looks for the comments.

The stack is in all of these functions at once then, from `entry` down to `never_returns`.
*/
#define OUTLINED __attribute__((noinline))

typedef void (*callback)();

static volatile int done;
static volatile int many = 7;

namespace loom {

struct Thrown {};

[[noreturn]] OUTLINED void never_returns(callback call) {
    call(); /* at never_returns */
    throw Thrown();
}

/* Where it would return to, the next function begins. */
[[noreturn]] OUTLINED void ends_with_its_call(callback call) {
    ++done;
    never_returns(call); /* at ends_with_its_call */
}

OUTLINED void throws() {
    ++done;
    if (many) throw Thrown();
}

OUTLINED int catches(callback call) {
    try {
        throws();
    } catch (const Thrown&) {
        ++done;
        ends_with_its_call(call); /* at catches */
    }
    return done;
}

template <typename Thread>
class Weaver {
  public:
    explicit Weaver(callback call) : call_(call) {}

    OUTLINED int weave(Thread thread) {
        return each(thread, [this](Thread one) { /* at weave */
            int result = catches(call_); /* at lambda */
            return one + result;
        });
    }

  private:
    template <typename Function>
    __attribute__((always_inline)) Thread each(Thread thread, Function function) {
        return twice<2>(thread, function); /* at each */
    }

    template <int number, typename Function>
    static inline __attribute__((always_inline)) Thread twice(Thread thread, Function function) {
        done = done + number;
        return function(thread); /* at twice */
    }

    callback call_;
};

__attribute__((cold)) OUTLINED int is_cold(callback call) {
    Weaver<long> weaver(call);
    int result = weaver.weave(done); /* at is_cold */
    return result + done;
}

}  // namespace loom

namespace {

/* gcc puts its rare part aside (cold). */
OUTLINED int splits(callback call, int number) {
    for (int i = 0; i < number; ++i) {
        if (__builtin_expect(i == 5, 0)) {
            done = done + loom::is_cold(call); /* at splits */
            done = done * 3;
        }
        ++done;
    }
    return done;
}

struct Pair {
    int first;
    int second;
    callback call;
};

/* gcc makes a clone of it for what of Pair it needs (isra). */
OUTLINED int takes_apart(const Pair& pair) {
    int result = splits(pair.call, pair.second) + 1; /* at takes_apart */
    return result + done;
}

/* gcc makes a clone of it for the one number that it is called with (constprop). */
OUTLINED int specialised(callback call, int factor) {
    Pair pair{done, many, call};
    int result = takes_apart(pair) * factor; /* at specialised */
    return result + done / factor;
}

/* gcc puts all but the test aside (part), and the test into the caller. */
int partly(callback call, int number) {
    if (number < 3) return 0;
    ++done;
    int result = specialised(call, 11); /* at partly */
    for (int i = 0; i < number; ++i) done = done * number + result;
    result = specialised(call, 11);
    for (int i = 0; i < number; ++i) done = done * number + result;
    return result + done;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int entry(callback call) {
    try {
        int result = partly(call, many); /* at entry */
        ++done;
        return result + partly(call, done);
    } catch (const loom::Thrown&) {
        return 0;
    }
} /* at partly in entry: here is its test, which calls the rest of it, as gcc's line table says */
