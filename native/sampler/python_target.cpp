#include "sampler/python_target.h"

#include <algorithm>
#include <bit>

#include "python/fields.h"

namespace weft {

namespace {

// struct pthread's tid (glibc nptl/descr.h; musl src/internal/pthread_impl.h). Other values there are no thread of the
// process, so both can be tried.
constexpr Address kGlibcTid = 0x2d0;
constexpr Address kMuslTid = 0x30;
constexpr Address kMostOfStack = 128 << 10;
constexpr std::size_t kMaxSharedInterpreters = 16;
constexpr std::uint32_t kCodesKept = 1 << 16;  // some 150 MB, most of them on Python's side

// Whether an address lies on the stack in use of the thread. glibc and musl put struct pthread above the stack of every
// thread but the first, whose stack is above all else.
bool on_stack(Address address, const ThreadPosition& position) {
    const bool first = position.pthread < position.stack_pointer();
    return address >= position.stack_pointer() && (first || address < position.pthread);
}

// What is to be read of a thread's stack; past some size it costs more than the call that it saves.
Span stack_of(const ThreadPosition& position) {
    const Address size = position.stack_end - position.stack_pointer();
    const bool wanted = position.stack_end > position.stack_pointer() && size <= kMostOfStack;
    return wanted ? Span{position.stack_pointer(), static_cast<std::uint32_t>(size)} : Span{};
}

}  // namespace

PythonTarget::PythonTarget(const Layout& layout, const RuntimeAddresses& addresses, std::uint32_t& next_code_id)
    : runtime_(layout, addresses),
      codes_(runtime_.layout(), next_code_id),
      walker_(runtime_),
      next_code_id_(next_code_id) {}

void PythonTarget::list(Memory& memory) {
    // A list that changes under the read is listed as far as it goes, and again at the next look that misses a thread.
    LimitedMemory limited;
    limited.begin(memory);
    list_loss_ = runtime_.list(limited, threads_);
    ++listing_;
    tids_.clear();
    for (const ThreadState& state : threads_.states) {
        std::int32_t glibc = 0;
        std::int32_t musl = 0;
        static_cast<void>(memory.read(state.pthread + kGlibcTid, &glibc, sizeof glibc));
        static_cast<void>(memory.read(state.pthread + kMuslTid, &musl, sizeof musl));
        tids_[state.pthread] =
            static_cast<std::uint64_t>(static_cast<std::uint32_t>(glibc)) << 32 | static_cast<std::uint32_t>(musl);
    }
}

bool PythonTarget::is(const PythonThread& thread, Address pthread) const {
    if (thread.pthread != 0) {
        return thread.pthread == pthread;
    }
    const auto found = tids_.find(pthread);
    const auto tid = static_cast<std::uint32_t>(thread.inner_tid);
    return found != tids_.end() &&
           (static_cast<std::uint32_t>(found->second >> 32) == tid || static_cast<std::uint32_t>(found->second) == tid);
}

// A subinterpreter's thread state names the thread that made it, and another may run it. Its anchor on the C stack says
// which; more than a few interpreters would make every look long.
bool PythonTarget::may_be_entered_by_others() const {
    return threads_.interpreters.size() > 1 && threads_.interpreters.size() <= kMaxSharedInterpreters;
}

void PythonTarget::join(PythonThread& thread) const {
    thread.states.clear();
    thread.joined_to = listing_;
    for (const ThreadState& state : threads_.states) {
        if (is(thread, state.pthread) || (state.interpreter_id != 0 && may_be_entered_by_others())) {
            thread.states.push_back(state);
        }
    }
    // Called ones first: later interpreters are entered from earlier ones. Anchors on the C stack, where there are any,
    // decide after the walk.
    std::ranges::stable_sort(thread.states, std::greater{}, &ThreadState::interpreter_id);
}

void PythonTarget::walk_states(Memory& memory, Memory& objects, const PythonThread& thread,
                               const std::vector<ThreadState>& states, const ThreadPosition& position,
                               PythonStack& stack) {
    stack.clear();
    if (threads_.interpreters.size() == 1 && states.size() == 1) {
        walker_.walk(memory, objects, states.front(), codes_, stack);
        return;
    }
    // A thread with several interpreters runs one inside the other.
    parts_.clear();
    std::size_t frames = 0;
    for (const ThreadState& state : states) {
        if (frames >= FrameWalker::kMaxFrames) {
            stack.loss = Loss::kDepth;
            break;
        }
        PythonStack& part = parts_.emplace_back();
        walker_.walk(memory, objects, state, codes_, part);
        frames += part.frames.size();
        const bool main = state.interpreter_id == 0;
        const bool decided = !main && part.anchor != 0 && position.stack_pointer() != 0;
        if (decided ? !on_stack(part.anchor, position) : !is(thread, state.pthread)) {
            parts_.pop_back();
            continue;
        }
        part.unproven = !main && !decided && !part.frames.empty();
    }
    std::ranges::stable_sort(parts_, [](const PythonStack& a, const PythonStack& b) {
        return a.anchor != 0 && b.anchor != 0 && a.anchor < b.anchor;
    });
    for (const PythonStack& part : parts_) {
        stack.append(part);
    }
}

// The thread's states as they were. The list may be of another time: the thread may have ended since, and up to 3.11 the state of
// a thread that has not begun names the one that has made it (thread_id).
const std::vector<ThreadState>& PythonTarget::states_then(const PythonThread& thread, const PastThread& past) {
    Address interpreter = 0;
    const Layout& layout = runtime_.layout();
    if (past.state == 0 ||
        read_pointer(past.memory, layout, past.state + layout.thread_interp, interpreter) != Loss::kNone) {
        return thread.states;
    }
    states_then_ = thread.states;
    std::erase_if(states_then_, [](const ThreadState& state) { return state.interpreter_id == 0; });
    states_then_.push_back({past.state, interpreter, 0, thread.pthread, 0});
    return states_then_;
}

// Lists the thread states anew if there may be others by now, and finds the thread's own among them.
void PythonTarget::keep_up(ProcessMemory& memory, PythonThread& thread, const PastThread* past) {
    // A thread without a thread state may get one at any time, and a new one is listed before its thread has entered its
    // name (PyThreadState_New runs in the parent): look again after 1, 2, 4, ... samples.
    const bool look_again = thread.states.empty() && std::has_single_bit(thread.empty_looks);
    // Samples of one look at the ring are all older than that.
    const bool is_asked = past != nullptr && past->ring_look != 0 && past->ring_look == ring_look_;
    // Nor is there more to know of a thread whose only state the kernel has told.
    const bool is_told =
        past != nullptr && past->is_alone && thread.states.size() == 1 && thread.states.front().address == past->state;
    // Of such a sample nothing else is read now, as a rule: so a word, and one of each interpreter, and not their pages.
    Memory& now = past != nullptr ? static_cast<Memory&>(memory) : look_;
    if (listing_ == 0 || look_again || (!is_asked && !is_told && runtime_.has_grown(now, threads_))) {
        list(memory);
    }
    ring_look_ = past != nullptr ? past->ring_look : 0;
    if (thread.joined_to != listing_) {
        join(thread);
    }
}

bool PythonTarget::look(ProcessMemory& memory, PythonThread& thread, ThreadPosition position, PythonStack& stack,
                        const PastThread* past) {
    read_ahead_.begin(memory, thread.plan, stack_of(position));
    look_.begin(read_ahead_);
    // Counted by their numbers: a program that makes ever new code objects has them at the same few addresses.
    if (next_code_id_ - first_code_kept_ > kCodesKept) {
        codes_.clear();
        first_code_kept_ = forgotten_below_ = next_code_id_;
    }
    Memory* own = &look_;
    Memory* objects = &look_;
    if (past == nullptr) {
        codes_.begin_sample();
    } else {
        own = &past->memory;
        objects = &past->objects;
        past->objects.begin(look_);
        codes_.begin_sample(past->codes, &past->objects);
    }
    if (position.pthread != 0 && position.pthread != thread.pthread) {
        thread.pthread = position.pthread;
        thread.joined_to = 0;
    }
    keep_up(memory, thread, past);
    for (const ThreadState& state : thread.states) {
        if (position.pthread == 0 && is(thread, state.pthread)) {
            position.pthread = state.pthread;
        }
    }
    const auto walk = [&] {
        const std::vector<ThreadState>& states = past != nullptr ? states_then(thread, *past) : thread.states;
        walk_states(*own, *objects, thread, states, position, stack);
    };
    walk();
    if (stack.loss == Loss::kNoThreadState) {
        list(memory);
        join(thread);
        walk();
    }
    // It may have one, in the part that could not be listed. (Of a sample of the past the kernel has told whether it had.)
    if (past == nullptr && thread.states.empty() && stack.loss == Loss::kNone) {
        stack.loss = list_loss_;
    }
    if (past != nullptr) {
        codes_.learn();
        codes_.begin_sample();  // what was told ends here
    }
    read_ahead_.end(thread.plan);
    thread.empty_looks = thread.states.empty() ? thread.empty_looks + 1 : 0;
    return !thread.states.empty();
}

void PythonTarget::learn(ProcessMemory& memory, PastMemory& objects, std::span<const CodeIdentity> codes) {
    read_ahead_.begin(memory, {});
    look_.begin(read_ahead_);
    objects.begin(look_);
    codes_.begin_sample(codes, &objects);
    codes_.learn();
    codes_.begin_sample();
}

std::vector<Address> PythonTarget::gil_holders(ProcessMemory& memory) {
    std::vector<Address> holders;
    if (listing_ == 0 || runtime_.has_grown(memory, threads_)) {
        list(memory);
    }
    std::vector<Address> gils;
    for (const Interpreter& interpreter : threads_.interpreters) {
        // Interpreters may share a GIL; up to 3.11 all do.
        if (std::ranges::find(gils, interpreter.gil) != gils.end()) {
            continue;
        }
        gils.push_back(interpreter.gil);
        const Address holder = runtime_.gil_holder(memory, interpreter);
        const auto state = std::ranges::find(threads_.states, holder, &ThreadState::address);
        if (state != threads_.states.end()) {
            holders.push_back(state->pthread);
        }
    }
    return holders;
}

const Interpreter* PythonTarget::interpreter_of_gil(Address address) const {
    const std::uint32_t size = runtime_.layout().gil_size;
    if (!present(size)) {
        return nullptr;
    }
    const auto found = std::ranges::find_if(threads_.interpreters, [&](const Interpreter& interpreter) {
        return interpreter.gil != 0 && address >= interpreter.gil && address - interpreter.gil < size;
    });
    return found == threads_.interpreters.end() ? nullptr : &*found;
}

Address PythonTarget::gil_holder(Memory& then, Address address) const {
    const Interpreter* interpreter = interpreter_of_gil(address);
    const Address holder = interpreter == nullptr ? 0 : runtime_.gil_holder(then, *interpreter);
    const auto state = std::ranges::find(threads_.states, holder, &ThreadState::address);
    return state == threads_.states.end() ? 0 : state->pthread;
}

bool PythonTarget::is_gil(Address address) const { return interpreter_of_gil(address) != nullptr; }

}  // namespace weft
