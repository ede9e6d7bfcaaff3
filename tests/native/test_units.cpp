// Tests of what Python does not see: reading ahead, code objects, interning, the timeline's accounts, ticks, holds, limits.
// test_units.py compiles and runs this under UndefinedBehaviorSanitizer.
#include <linux/bpf.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "memory/image.h"
#include "memory/limited.h"
#include "memory/read_ahead.h"
#include "sampler/cpu_clock.h"
#include "sampler/holds.h"
#include "sampler/kernel_clocks.h"
#include "sampler/kernel_ring.h"
#include "sampler/proc.h"
#include "sampler/python_target.h"
#include "sampler/retakes.h"
#include "sampler/stacks.h"
#include "sampler/timeline.h"
#include "unwind/stack_copy.h"

namespace {

using namespace weft;

int g_failures = 0;

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            ++g_failures;                                                       \
            std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                       \
    } while (false)

// ---- ReadAhead, over the memory of this very process

// Words far apart, so that no two of them are read by one call.
class Words {
   public:
    static constexpr std::size_t kStride = 4096 / sizeof(std::uint64_t);

    explicit Words(std::size_t count) : words_(count * kStride) {}
    std::uint64_t& operator[](std::size_t at) { return words_[at * kStride]; }
    Address address(std::size_t at) const { return reinterpret_cast<Address>(&words_[at * kStride]); }

   private:
    std::vector<std::uint64_t> words_;
};

std::uint64_t read_word(Memory& memory, Address address) {
    std::uint64_t value = 0;
    CHECK(memory.read(address, &value, sizeof value) == ReadResult::kOk);
    return value;
}

// A second look reads what the first one did: it must cost one call, and show the values of now, not those of before.
void read_ahead_repeats() {
    Words words(64);
    for (std::size_t i = 0; i < 64; ++i) {
        words[i] = 100 + i;
    }
    ProcessMemory process(getpid());
    ReadAhead ahead;
    ReadPlan plan;
    ahead.begin(process, plan);
    for (std::size_t i = 0; i < 64; i += 2) {
        CHECK(read_word(ahead, words.address(i)) == 100 + i);
    }
    ahead.end(plan);
    CHECK(plan.size() == 32);
    CHECK(ahead.calls() == 32);
    for (std::size_t i = 0; i < 64; ++i) {
        words[i] += 1000;
    }
    ahead.begin(process, plan);
    for (std::size_t i = 0; i < 64; i += 2) {
        CHECK(read_word(ahead, words.address(i)) == 1100 + i);
    }
    ahead.end(plan);
    CHECK(ahead.calls() == 33);
    // A part of a span that was fetched is there; another word costs a call; what was not used is forgotten.
    ahead.begin(process, plan);
    std::uint32_t high_half = 1;
    CHECK(ahead.read(words.address(2) + 4, &high_half, 4) == ReadResult::kOk && high_half == 0);
    CHECK(ahead.calls() == 34);
    CHECK(read_word(ahead, words.address(3)) == 1103);
    CHECK(ahead.calls() == 35);
    ahead.end(plan);
    CHECK(plan.size() == 2);
}

// A plan that names memory which has gone must not hide what can be read, before it in the plan or behind it.
void read_ahead_plan_is_only_a_guess() {
    Words words(2);
    words[0] = 7;
    words[1] = 8;
    ProcessMemory process(getpid());
    ReadAhead ahead;
    ReadPlan plan = {{words.address(0), 8}, {0x10, 8}, {words.address(1), 8}};
    ahead.begin(process, plan);
    CHECK(read_word(ahead, words.address(1)) == 8);
    CHECK(read_word(ahead, words.address(0)) == 7);
    std::uint64_t value = 0;
    CHECK(ahead.read(0x10, &value, 8) == ReadResult::kUnmapped);
    ahead.end(plan);
    CHECK(plan.size() == 2);
}

// A stack of 20,000 frames, each in a place of its own, in two looks: all is as it is now, also where a look goes far
// beyond its plan, and the plan stays small.
void read_ahead_goes_beyond_its_plan() {
    constexpr std::size_t kCount = 20'000;
    Words words(kCount);
    ProcessMemory process(getpid());
    ReadAhead ahead;
    ReadPlan plan;
    for (std::size_t look = 1; look <= 3; ++look) {
        for (std::size_t i = 0; i < kCount; ++i) {
            words[i] = i * look;
        }
        ahead.begin(process, plan);
        for (std::size_t i = 0; i < kCount; ++i) {
            CHECK(read_word(ahead, words.address(i)) == i * look);
        }
        ahead.end(plan);
        CHECK(plan.size() == 512);
    }
}

// A stack that is wanted besides comes with the plan, in one call, and is no part of the next one; where it cannot be read, the
// plan has been.
void read_ahead_reads_the_stack() {
    Words words(4);
    for (std::size_t i = 0; i < 4; ++i) {
        words[i] = 50 + i;
    }
    ProcessMemory process(getpid());
    ReadAhead ahead;
    const ReadPlan planned = {{words.address(0), 8}};
    ReadPlan plan = planned;
    const Span stack{words.address(1), 2 * 4096};
    ahead.begin(process, plan, stack);
    CHECK(ahead.stack().size() == stack.size);
    CHECK(std::memcmp(ahead.stack().data(), &words[1], stack.size) == 0);
    CHECK(read_word(ahead, words.address(0)) == 50);
    CHECK(read_word(ahead, words.address(2)) == 52);
    CHECK(ahead.calls() == 1);
    CHECK(read_word(ahead, words.address(3)) == 53);
    CHECK(ahead.calls() == 2);
    ahead.end(plan);
    CHECK(plan.size() == 2 && plan[0].address == words.address(0) && plan[1].address == words.address(3));
    plan = planned;
    ahead.begin(process, plan, {0x10, 4096});
    CHECK(ahead.stack().empty());
    CHECK(ahead.calls() == 3);
    CHECK(read_word(ahead, words.address(0)) == 50);
    CHECK(ahead.calls() == 3);
    ahead.begin(process, plan);
    CHECK(ahead.stack().empty());
}

// ---- ImageMemory and its limit

void limits_end_a_look() {
    ImageMemory image;
    image.add_zeros(0, std::uint64_t{1} << 40);
    LimitedMemory limited;
    limited.begin(image);
    std::vector<char> bytes(64 << 20);
    std::uint64_t got = 0;
    while (limited.read(0, bytes.data(), bytes.size()) == ReadResult::kOk) {
        got += bytes.size();
    }
    CHECK(got == LimitedMemory::kMaxBytes);
    CHECK(limited.read(0, bytes.data(), 1) == ReadResult::kTooMuch);
    limited.begin(image);
    std::uint64_t reads = 0;
    while (limited.read(0, bytes.data(), 1) == ReadResult::kOk) {
        ++reads;
    }
    CHECK(reads == LimitedMemory::kMaxReads);
    limited.begin(image);
    CHECK(limited.read(0, bytes.data(), ~std::size_t{0}) == ReadResult::kTooMuch);
    CHECK(limited.read(0, bytes.data(), 1) == ReadResult::kOk);
}

// ---- code objects, in the memory of this very process

// A code object at one address, that is changed as the interpreter changes what lies there.
class OneCode {
   public:
    explicit OneCode(bool with_version) : layout_(layout(with_version)) {
        code_ = {1, address_of(name), address_of(file), address_of(lines), 0};
        tell(1, with_version ? 1 : 0);
    }

    void tell(std::uint64_t first_line, std::uint64_t version) { code_[4] = first_line | version << 32; }

    // What it is taken for now; 0: nothing.
    std::uint32_t id() {
        Loss loss = Loss::kNone;
        codes_.begin_sample();
        const CodeTable::Entry* entry = codes_.lookup(process_, address_of(code_), loss);
        return entry == nullptr ? 0 : entry->id;
    }

    // Reference count, length, hash, characters.
    std::vector<std::uint64_t> name = {0, 8, 12345, 1};
    std::vector<std::uint64_t> file = {0, 8, kNoHash, 2};
    std::vector<std::uint64_t> lines = {0, 3, kNoHash, 3};

   private:
    static constexpr std::uint64_t kNoHash = ~std::uint64_t{0};
    static Layout layout(bool with_version) {
        Layout layout;
        layout.pointer_size = 8;
        layout.names_are_bytes = 1;
        layout.object_type = 0;
        layout.bytes_length = layout.code_name = 8;
        layout.code_filename = 16;
        layout.bytes_data = layout.code_linetable = 24;
        layout.code_firstlineno = 32;
        layout.code_version = with_version ? 36 : kAbsent;
        return layout;
    }
    static Address address_of(const std::vector<std::uint64_t>& words) {
        return reinterpret_cast<Address>(words.data());
    }

    Layout layout_;
    std::uint32_t next_id_ = 1;
    ProcessMemory process_{getpid()};
    std::vector<std::uint64_t> code_;
    CodeTable codes_{layout_, next_id_};
};

void codes_without_versions_are_told_apart_by_texts() {
    OneCode code(false);
    const std::uint32_t first = code.id();
    CHECK(first != 0);
    ++code.name[0];  // a reference count
    CHECK(code.id() == first);
    std::uint64_t* const changed[] = {&code.name[1], &code.name[2],  &code.file[1],
                                      &code.file[3], &code.lines[1], &code.lines[3]};
    for (std::uint64_t* word : changed) {
        ++*word;
        CHECK(code.id() != first);
        --*word;
        CHECK(code.id() == first);
    }
    code.tell(2, 0);
    CHECK(code.id() != first);
    code.tell(1, 0);
    CHECK(code.id() == first);
}

void codes_with_versions_are_told_apart_by_them() {
    OneCode code(true);
    std::map<std::uint32_t, int> seen;
    for (std::uint64_t version = 1; version <= 64; ++version) {
        for (std::uint64_t line = 1; line <= 64; ++line) {
            code.tell(line, version);
            ++seen[code.id()];
        }
    }
    CHECK(seen.size() == 64 * 64 && !seen.contains(0));
    const std::uint32_t last = code.id();
    ++code.lines[3];  // what its texts hold does not count: they are its own
    CHECK(code.id() == last);
}

// ---- one look of the sampler, over structs made up in the memory of this very process

// 2,000 thread states that all say to be of one thread, each with the same 20,000 frames: a look must not walk 40 million
// frames, nor keep them.
void looks_are_bounded() {
    constexpr std::size_t kStates = 2'000;
    constexpr std::size_t kFrames = 20'000;
    constexpr std::uint64_t kPthread = 7;
    Layout layout;
    layout.pointer_size = 8;
    layout.names_are_bytes = 1;
    layout.interp_next = layout.thread_next = layout.frame_previous = layout.object_type = 0;
    layout.interp_threads_head = layout.thread_interp = layout.frame_code = layout.code_name = layout.bytes_length = 8;
    layout.thread_frame = layout.frame_instruction = layout.code_filename = layout.bytes_data = 16;
    layout.thread_pthread = layout.code_linetable = layout.frame_size = 24;
    layout.code_firstlineno = layout.thread_size = 32;
    layout.frame_code_tags = 0;
    layout.instruction_kind = 0;

    const auto address = [](const std::vector<std::uint64_t>& words, std::size_t at) {
        return reinterpret_cast<Address>(words.data()) + 8 * at;
    };
    const std::vector<std::uint64_t> name = {0, 1, 'f'};
    const std::vector<std::uint64_t> code = {1, address(name, 0), address(name, 0), address(name, 0), 1};
    std::vector<std::uint64_t> frames(3 * kFrames);
    for (std::size_t i = 0; i < kFrames; ++i) {
        frames[3 * i] = i + 1 < kFrames ? address(frames, 3 * i + 3) : 0;
        frames[3 * i + 1] = address(code, 0);
    }
    std::vector<std::uint64_t> states(4 * kStates);
    const std::vector<std::uint64_t> interpreter = {0, address(states, 0)};
    const std::vector<std::uint64_t> head = {address(interpreter, 0)};
    for (std::size_t i = 0; i < kStates; ++i) {
        states[4 * i] = i + 1 < kStates ? address(states, 4 * i + 4) : 0;
        states[4 * i + 1] = address(interpreter, 0);
        states[4 * i + 2] = address(frames, 0);
        states[4 * i + 3] = kPthread;
    }
    RuntimeAddresses roots;
    roots.interpreters_head = address(head, 0);
    std::uint32_t next_code = 1;
    PythonTarget target(layout, roots, next_code);
    ProcessMemory process(getpid());
    PythonThread thread;
    PythonStack stack;
    CHECK(target.look(process, thread, {kPthread, {}}, stack));
    CHECK(thread.states.size() == kStates);
    CHECK(stack.loss == Loss::kDepth);
    CHECK(stack.frames.size() >= kFrames);
    CHECK(stack.frames.size() <= FrameWalker::kMaxFrames + kFrames);
    CHECK(target.codes().take_definitions().size() == 1);
    // The limit is one look's: an honest list is whole again.
    states[0] = 0;
    PythonTarget honest(layout, roots, next_code);
    PythonThread again;
    CHECK(honest.look(process, again, {kPthread, {}}, stack));
    CHECK(stack.loss == Loss::kNone && stack.frames.size() == kFrames);
    // A thread that is not listed has no frames of Python; unless the list could not be read to its end.
    PythonThread other;
    CHECK(!honest.look(process, other, {kPthread + 8, {}}, stack));
    CHECK(stack.loss == Loss::kNone && stack.frames.empty());
    states[0] = 8;  // where nothing is mapped
    PythonTarget cut(layout, roots, next_code);
    PythonThread unknown;
    CHECK(!cut.look(process, unknown, {kPthread + 8, {}}, stack));
    CHECK(stack.loss == Loss::kUnreadable);
}

// ---- interning

// Against std::map, with keys that differ in their high bits only, in their low bits only, and at random.
void id_map_is_a_map() {
    IdMap ids;
    std::map<std::uint64_t, std::uint32_t> expected;
    std::mt19937_64 random(1);
    std::uint32_t next = 1;
    for (int i = 0; i < 300'000; ++i) {
        const std::uint64_t number = random();
        const std::uint64_t some = 1 + number % 5000;
        const std::uint64_t key = number % 3 == 0 ? some << 50 : number % 3 == 1 ? some : number | 1;
        const auto [found, is_new] = expected.try_emplace(key, next);
        CHECK(ids.find_or_insert(key, next) == (is_new ? 0 : found->second));
        next += is_new ? 1 : 0;
        CHECK(ids.size() == expected.size());
    }
    ids.clear();
    CHECK(ids.size() == 0);
    CHECK(ids.find_or_insert(1, 9) == 0);
    CHECK(ids.find_or_insert(1, 10) == 9);
}

using Frames = std::vector<FrameKey>;

std::vector<std::uint64_t> numbers_of(const Frames& frames) {
    std::vector<std::uint64_t> numbers;
    for (const FrameKey frame : frames) {
        numbers.push_back(frame.number());
    }
    return numbers;
}

// What the rows that were told say of a stack: its frames, innermost first.
struct Reader {
    std::map<std::uint32_t, FrameKey> frames;
    std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> stacks;

    void take(StackTable& table) {
        for (const FrameRow& row : table.take_frames()) {
            CHECK(frames.emplace(row.id, row.frame).second);
        }
        for (const StackRow& row : table.take_stacks()) {
            CHECK(row.parent == 0 || stacks.contains(row.parent));
            CHECK(frames.contains(row.frame));
            CHECK(stacks.emplace(row.id, std::pair(row.parent, row.frame)).second);
        }
    }
    Frames frames_of(std::uint32_t stack) const {
        Frames found;
        for (; stack != 0; stack = stacks.at(stack).first) {
            found.push_back(frames.at(stacks.at(stack).second));
        }
        return found;
    }
};

// Random stacks over few frames, so that prefixes are shared: each reads back as what was interned, and the same stack
// has the same number, whichever thread has it, and had another one before.
void stacks_read_back() {
    StackTable table;
    Reader reader;
    std::mt19937 random(2);
    std::map<std::vector<std::uint64_t>, std::uint32_t> numbers;
    std::array<LastStack, 3> threads;
    for (int i = 0; i < 20'000; ++i) {
        Frames frames;
        while (random() % 12 != 0) {
            const PythonFrame frame{static_cast<std::uint32_t>(1 + random() % 3),
                                    static_cast<std::int32_t>(random() % 5) - 2, random() % 2 == 0};
            frames.push_back(FrameKey::of(frame));
            CHECK(frames.back().python() == frame);
        }
        const std::size_t thread = random() % 4;
        const std::uint32_t stack =
            thread < threads.size() ? table.intern(frames, 0, threads[thread]) : table.intern(frames, 0);
        reader.take(table);
        CHECK(numbers_of(reader.frames_of(stack)) == numbers_of(frames));
        CHECK(numbers.try_emplace(numbers_of(frames), stack).first->second == stack);
        CHECK((stack == 0) == frames.empty());
    }
    CHECK(reader.frames.size() <= 3 * 5 * 2);
}

// Stacks deeper than what is remembered of a thread's last one, that differ at any depth, and below two parents in turn.
void last_stacks_are_no_others() {
    StackTable table;
    Reader reader;
    std::mt19937 random(3);
    LastStack last;
    const std::array roots = {FrameKey::missing(Loss::kDepth, false), FrameKey::missing(Loss::kUnreadable, false)};
    Frames frames(2000, FrameKey::of(PythonFrame{1, 0, false}));
    for (int i = 0; i < 1000; ++i) {
        frames.resize(1 + random() % 2000, FrameKey::of(PythonFrame{2, 0, false}));
        frames[random() % frames.size()] =
            FrameKey::of(PythonFrame{3 + static_cast<std::uint32_t>(random() % 3), 0, false});
        const FrameKey root = roots[random() % roots.size()];
        const std::uint32_t parent = table.intern({&root, 1}, 0);
        const std::uint32_t stack = table.intern(frames, parent, last);
        CHECK(stack == table.intern(frames, parent));
        reader.take(table);
        Frames expected = frames;
        expected.push_back(root);
        CHECK(numbers_of(reader.frames_of(stack)) == numbers_of(expected));
    }
}

// Frames at the ends of what the walker lets through, and a marker (code 0), have numbers of their own.
void stacks_tell_extremes_apart() {
    StackTable table;
    Reader reader;
    NativeFrame last;
    last.place = {(1U << 12) - 1, (1ULL << 47) - 1, nullptr, nullptr, false};
    last.is_return = true;
    NativeFrame beyond = last;  // too many modules: it is told by its address in the process
    beyond.place.module = 1U << 12;
    beyond.pc = 0x7f0000000001;
    NativeFrame nobodys;
    nobodys.pc = 0x7f0000000002;
    const Frames all = {FrameKey::missing(Loss::kUnreadable, false),
                        FrameKey::missing(Loss::kUnreadable, true),
                        FrameKey::of(PythonFrame{1, -2, false}),
                        FrameKey::of(PythonFrame{1, -2, true}),
                        FrameKey::of(PythonFrame{1, 1 << 28, false}),
                        FrameKey::of(PythonFrame{0x7fffffff, 1 << 28, true}),
                        FrameKey::of(last, Proof::kNone),
                        FrameKey::of(last, Proof::kOpen),
                        FrameKey::of(beyond, Proof::kNone),
                        FrameKey::of(nobodys, Proof::kNone),
                        FrameKey::kernel(0xffffffff81000040),
                        FrameKey::kernel_name(7)};
    CHECK(all[0].is_marker() && all[0].python().instruction == static_cast<std::int32_t>(Loss::kUnreadable));
    CHECK(!all[5].is_native() && all[5].python() == (PythonFrame{0x7fffffff, 1 << 28, true}));
    CHECK(all[7].is_native() && all[7].module() == last.place.module && all[7].address() == last.place.address);
    CHECK(all[7].proof() == Proof::kOpen && all[6].proof() == Proof::kNone);
    CHECK(all[8].module() == 0 && all[8].address() == beyond.pc - 1);
    CHECK(all[9].module() == 0 && all[9].address() == nobodys.pc);
    CHECK(all[10].is_kernel() && !all[10].is_kernel_name() && all[10].kernel_address() == 0xffffffff81000040);
    CHECK(all[11].is_kernel_name() && all[11].kernel_name() == 7);
    for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].is_native() == (i >= 6 && i < 10) && all[i].is_kernel() == (i >= 10));
    }
    for (const FrameKey frame : all) {
        const std::uint32_t stack = table.intern({&frame, 1}, 0);
        reader.take(table);
        CHECK(numbers_of(reader.frames_of(stack)) == numbers_of({frame}));
    }
    CHECK(reader.frames.size() == all.size());
}

// A program whose every stack is new: the table forgets (2 million entries are its limit), and goes on to be right.
void stacks_forget() {
    StackTable table;
    std::uint32_t last = 0;
    const FrameKey root = FrameKey::of(PythonFrame{1, 0, false});
    const std::uint32_t first = table.intern({&root, 1}, 0);
    for (std::uint32_t i = 0; i < 4'500'000; ++i) {
        const FrameKey frame = FrameKey::of(PythonFrame{2 + i, 0, false});
        const std::uint32_t stack = table.intern({&frame, 1}, first);
        CHECK(stack > last);
        last = stack;
        if (i % 100'000 == 0) {
            table.take_frames();
            table.take_stacks();
        }
    }
    table.take_frames();
    table.take_stacks();
    // The root was forgotten: it has a new number, is told again, and stays.
    const std::uint32_t again = table.intern({&root, 1}, 0);
    CHECK(again > first);
    CHECK(table.take_frames().size() == 1);
    CHECK(table.take_stacks().size() == 1);
    CHECK(table.intern({&root, 1}, 0) == again);
}

// ---- retakes

// At any rate: five looks at least, 20 ms at least, and then one that has to do, each time anew.
void retakes_end() {
    for (const std::uint64_t period_ns : {50'000ULL, 200'000ULL, 1'000'000ULL, 10'000'000ULL, 1'000'000'000ULL}) {
        Retakes retakes;
        std::uint64_t now_ns = 7;
        for (int round = 0; round < 3; ++round) {
            const std::uint64_t begin_ns = now_ns;
            std::uint64_t looks = 0;
            for (; retakes.again(now_ns); now_ns += period_ns) {
                ++looks;
            }
            CHECK(looks == std::max<std::uint64_t>(5, 20'000'000 / period_ns));
            CHECK(now_ns - begin_ns == looks * period_ns);
            CHECK(!retakes.again(now_ns));  // until a look has told, or has had to do
            retakes.end();
        }
    }
}

// ---- the timeline

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kPeriod = 10 * kMs;

// A sample that stands for the time since the last one, up to `most_ms`.
Timeline::Claim since_last(std::uint64_t most_ms) { return {false, true, most_ms * kMs}; }

// A thread as the kernel accounts for it, and what a timeline made of it.
struct Thread {
    std::uint64_t now = 1'000'000'000'000;
    SchedStat stat{5 * kMs, 3 * kMs, 0};
    Timeline timeline;
    std::vector<Run> runs;

    explicit Thread(Mode mode) : timeline(mode, kPeriod, now, stat) {}
    void runs_for(std::uint64_t ns) {
        now += ns;
        stat.cpu_ns += ns;
    }
    void waits_for_cpu(std::uint64_t ns) {
        now += ns;
        stat.delay_ns += ns;
    }
    void blocks_for(std::uint64_t ns) {
        now += ns;
        ++stat.switches;
    }
    void take() {
        if (timeline.runs().size() > 0) {
            const RunEncoder::Batch batch = timeline.runs().take();
            for (const Run& run : decode_runs(batch.bytes, batch.start_ns)) {
                runs.push_back(run);
            }
        }
    }
    std::int64_t weight(std::uint64_t stack, std::optional<State> state = std::nullopt) {
        take();
        std::int64_t total = 0;
        for (const Run& run : runs) {
            const bool counts = run.stack == stack && (!state || run.state == static_cast<std::uint64_t>(*state));
            total += counts ? run.weight_ns : 0;
        }
        return total;
    }
    std::int64_t total() {
        take();
        std::int64_t total = 0;
        for (const Run& run : runs) {
            total += run.weight_ns;
        }
        return total;
    }
};

// Running, waiting for a CPU and blocked in turn, each seen: every nanosecond is some run's.
void timeline_adds_up() {
    Thread thread(Mode::kWall);
    const std::uint64_t begin = thread.now;
    thread.runs_for(7 * kMs);
    thread.waits_for_cpu(2 * kMs);
    CHECK(thread.timeline.add_running(thread.now, thread.stat, 1, since_last(100)) == 0);
    CHECK(thread.weight(1) == 9 * kMs);
    thread.blocks_for(30 * kMs);
    thread.timeline.add_blocked(thread.now, thread.stat, 2, State::kBlocked);
    CHECK(thread.timeline.standing() && thread.timeline.standing()->stack == 2);
    CHECK(thread.timeline.standing()->since_ns == thread.now - 30 * kMs);
    CHECK(thread.timeline.take_standing_changed() && !thread.timeline.take_standing_changed());
    thread.blocks_for(20 * kMs);
    thread.timeline.still_standing(thread.now);
    thread.runs_for(10 * kMs);
    CHECK(thread.timeline.add_running(thread.now, thread.stat, 3, since_last(100)) == 0);
    CHECK(!thread.timeline.standing());
    CHECK(thread.weight(2) == 50 * kMs);
    CHECK(thread.weight(3) == 10 * kMs);
    CHECK(thread.timeline.end(thread.now) == 0);
    CHECK(thread.total() == static_cast<std::int64_t>(thread.now - begin));
}

// A thread that blocks in one stack, then, unseen, in another: the first stands until it was last seen, and half of the
// time from then on is each one's.
void timeline_splits_blocked_time() {
    Thread thread(Mode::kWall);
    thread.blocks_for(10 * kMs);
    thread.timeline.add_blocked(thread.now, thread.stat, 1, State::kBlocked);
    thread.blocks_for(10 * kMs);
    thread.timeline.still_standing(thread.now);
    thread.blocks_for(16 * kMs);
    thread.timeline.add_blocked(thread.now, thread.stat, 2, State::kGil);
    CHECK(thread.weight(1) == 28 * kMs);
    CHECK(thread.runs.back().at_ns == static_cast<std::int64_t>(thread.now - 8 * kMs));
    CHECK(thread.timeline.standing()->state == State::kGil);
    CHECK(thread.timeline.standing()->since_ns == thread.now - 8 * kMs);
    // Not seen since: the stack stands for the time up to here, the rest for nothing.
    thread.blocks_for(5 * kMs);
    CHECK(thread.timeline.end(thread.now) == 5 * kMs);
    CHECK(thread.weight(2) == 8 * kMs);
}

// What a thread that is woken waits for a CPU belongs to the stack that it was blocked in; what one that runs waits between
// does not.
void timeline_tells_who_waits_for_a_cpu() {
    Thread thread(Mode::kWall);
    const auto waited_in = [&](std::uint64_t stack) { return thread.weight(stack, State::kRunnable); };
    thread.blocks_for(10 * kMs);
    thread.timeline.add_blocked(thread.now, thread.stat, 1, State::kBlocked);
    thread.waits_for_cpu(6 * kMs);
    thread.blocks_for(10 * kMs);
    thread.timeline.add_blocked(thread.now, thread.stat, 2, State::kBlocked);
    CHECK(waited_in(1) == 6 * kMs && thread.weight(1) == (10 + 6 + 5) * kMs);
    thread.waits_for_cpu(7 * kMs);
    ++thread.stat.switches;
    thread.runs_for(10 * kMs);
    thread.timeline.add_running(thread.now, thread.stat, 3, since_last(100));
    CHECK(waited_in(2) == 7 * kMs && thread.weight(3) == 10 * kMs);
    // Switched in twice: it has run between, and what it waited then is not known from the rest.
    thread.blocks_for(10 * kMs);
    thread.timeline.add_blocked(thread.now, thread.stat, 4, State::kBlocked);
    thread.waits_for_cpu(8 * kMs);
    thread.stat.switches += 2;
    thread.runs_for(10 * kMs);
    thread.timeline.add_running(thread.now, thread.stat, 5, since_last(100));
    CHECK(waited_in(4) == 0 && thread.weight(5) == 18 * kMs);
    // Less than half a period is told at the end, if no more comes.
    thread.blocks_for(10 * kMs);
    thread.timeline.add_blocked(thread.now, thread.stat, 6, State::kBlocked);
    thread.waits_for_cpu(kMs);
    thread.blocks_for(2 * kMs);
    thread.timeline.add_blocked(thread.now, thread.stat, 7, State::kBlocked);
    CHECK(waited_in(6) == 0);
    CHECK(thread.timeline.end(thread.now) == 0 && waited_in(6) == kMs);
}

// A sampler that comes late: what is over the claim is not this stack's, and is told.
void timeline_claims() {
    Thread thread(Mode::kCpu);
    thread.runs_for(55 * kMs);
    CHECK(thread.timeline.unclaimed_cpu_ns(thread.stat) == 55 * kMs);
    CHECK(thread.timeline.add_running(thread.now, thread.stat, 1, since_last(20)) == 35 * kMs);
    CHECK(thread.weight(1) == 20 * kMs);
    thread.runs_for(kPeriod);
    CHECK(thread.timeline.skip_running(thread.now, thread.stat, since_last(20)) == kPeriod);  // no stack was had
    thread.runs_for(kPeriod);
    CHECK(thread.timeline.add_running(thread.now, thread.stat, 2, since_last(20)) == 0);
    CHECK(thread.weight(2) == static_cast<std::int64_t>(kPeriod));
    // An account that lags behind what was told already claims nothing, and does not wrap.
    SchedStat before = thread.stat;
    before.cpu_ns -= kMs;
    CHECK(thread.timeline.add_running(thread.now, before, 2, since_last(20)) == 0);
    CHECK(thread.weight(2) == static_cast<std::int64_t>(kPeriod));
    thread.blocks_for(100 * kMs);
    CHECK(thread.timeline.end(thread.now) == 0);  // mode cpu does not count blocked time
}

// Runs carry what is less than a microsecond of their weights over to the next (runs.h).
bool is_near(std::int64_t a, std::int64_t b) { return std::abs(a - b) < 1000; }

// Ticks of a thread's own clock that come at any time, as on a thread that is moved from CPU to CPU: each stands for about a
// period, all of them for the CPU time.
void timeline_evens_ticks_out() {
    const Timeline::Claim tick{true, true, 2 * kPeriod, 10 * kPeriod};
    Thread thread(Mode::kCpu);
    std::mt19937 random(5);
    std::uint64_t late = 0;
    constexpr int kTicks = 1000;
    std::uint64_t used = 0;
    for (int i = 0; i < kTicks; ++i) {
        const std::uint64_t ns = random() % (2 * kPeriod);
        used += ns;
        thread.runs_for(ns);
        const std::int64_t before = thread.total();
        late += thread.timeline.add_running(thread.now, thread.stat, 1, tick);
        const std::int64_t weight = thread.total() - before;
        CHECK(weight >= 0 && weight <= static_cast<std::int64_t>(2 * kPeriod));
    }
    CHECK(late == 0);
    const std::int64_t behind = static_cast<std::int64_t>(used) - thread.total();
    CHECK(std::abs(behind) < static_cast<std::int64_t>(10 * kPeriod));
    // What had no tick at all is late, less what claims may be behind.
    thread.runs_for(100 * kPeriod);
    late = thread.timeline.add_running(thread.now, thread.stat, 1, tick);
    CHECK(is_near(static_cast<std::int64_t>(late), behind + static_cast<std::int64_t>(88 * kPeriod)));
}

// The account that a recording begins with lags behind, if the thread is on a CPU by then: what it had used before the
// recording is nobody's.
void timeline_begins_with_itself() {
    Thread thread(Mode::kCpu);
    thread.stat.cpu_ns += 9 * kMs;  // before
    thread.runs_for(kMs);
    CHECK(thread.timeline.add_running(thread.now, thread.stat, 1, {true, true, 2 * kPeriod, 8 * kPeriod}) == 0);
    CHECK(is_near(thread.timeline.unclaimed_cpu_ns(thread.stat) + thread.total(), static_cast<std::int64_t>(kMs)));
}

// ---- ticks, of this very thread

// Each is told once, with its time and place, whether the ring has come round or not; what did not fit is left out.
void ring_tells_ticks() {
    const int cpu = sched_getcpu();
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    CHECK(sched_setaffinity(0, sizeof only, &only) == 0);
    const auto ring = std::make_shared<TickRing>(cpu);
    CHECK(ring->valid());
    constexpr std::uint64_t kTick = 50'000;
    std::uint64_t last_ns = monotonic_ns();
    CpuClock clock = CpuClock::open(getpid(), kTick, CpuClock::Ticks::kUser, {ring});
    CHECK(clock.valid() && clock.cpus() == 1);
    std::vector<Tick> ticks;
    const auto burn = [&](std::uint64_t ns) {
        const std::uint64_t until = own_cpu_ns() + ns;
        while (own_cpu_ns() < until) {
            for (volatile int i = 0; i < 10'000; i = i + 1) {
            }
        }
    };
    std::size_t told = 0;
    std::size_t inside = 0;  // ticks in this program's code
    const auto here = reinterpret_cast<Address>(&told);
    for (int round = 0; round < 20; ++round) {
        burn(100 * kTick);
        ticks.clear();
        ring->take(ticks);
        told += ticks.size();
        for (const Tick& tick : ticks) {
            CHECK(tick.tid == getpid());
            CHECK(tick.kernel.count == 0);
            CHECK(tick.time_ns > last_ns && tick.time_ns <= monotonic_ns());
            last_ns = tick.time_ns;
            const Address stack_pointer = tick.registers.get(Register::kRsp);
            CHECK(stack_pointer > here - 100'000 && stack_pointer < here + 100'000);
            CHECK(tick.stack_size == kTickStack);
            const Address distance =
                tick.registers.get(Register::kReturn) - reinterpret_cast<Address>(&ring_tells_ticks);
            inside += distance + (1 << 20) < 2 << 20 ? 1 : 0;
        }
    }
    CHECK(told > 200);
    CHECK(inside > told / 4);  // it reads its clock, too
    burn(1000 * kTick);
    ticks.clear();
    ring->take(ticks);
    CHECK(!ticks.empty() && ticks.size() < 500);
    CHECK(clock.longest_ns(0) == 0 && clock.longest_ns(1) == kTick && clock.longest_ns(2) == kTick);
    last_ns = ticks.back().time_ns;
    const std::uint64_t used_ns = own_cpu_ns();
    clock.set_period(cpu, 1000 * kTick);
    CHECK(clock.longest_ns(1) == 1000 * kTick);
    ticks.clear();
    ring->take(ticks);  // of the old period, since
    CHECK(std::ranges::all_of(ticks, [&](const Tick& tick) { return tick.time_ns > last_ns; }));
    burn(200 * kTick);
    ticks.clear();
    ring->take(ticks);
    CHECK(ticks.size() <= 1 + (own_cpu_ns() - used_ns) / (1000 * kTick));
}

// The time in which weft held the thread is no time of the program's.
void timeline_leaves_holds_out() {
    Thread thread(Mode::kWall);
    thread.blocks_for(10 * kMs);
    thread.timeline.held(4 * kMs);
    thread.timeline.add_blocked(thread.now, thread.stat, 1, State::kBlocked);
    CHECK(thread.timeline.standing()->since_ns == thread.now - 6 * kMs);
    thread.runs_for(kMs);
    CHECK(thread.timeline.add_running(thread.now, thread.stat, 2, since_last(100)) == 0);
    CHECK(thread.weight(1) == 6 * kMs);
}

// Any order of events: weights and what end() gives back are the wall time, to the nanosecond.
void timeline_adds_up_at_random() {
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        Thread thread(Mode::kWall);
        const std::uint64_t begin = thread.now;
        std::uint64_t elsewhere = 0;  // late, skipped, held
        bool blocked = false;         // what it did last
        for (int i = 0; i < 200; ++i) {
            const std::uint64_t ns = 1000 * (random() % 20'000);
            switch (random() % 4) {
                case 0: {
                    thread.runs_for(ns);
                    elsewhere += thread.timeline.add_running(thread.now, thread.stat, 1 + random() % 4, since_last(15));
                    blocked = false;
                    break;
                }
                case 1: thread.waits_for_cpu(ns); break;
                case 2: {
                    thread.blocks_for(ns);
                    thread.timeline.add_blocked(thread.now, thread.stat, 1 + random() % 4, State::kBlocked);
                    blocked = true;
                    break;
                }
                default:
                    if (blocked) {
                        thread.blocks_for(ns);
                        thread.timeline.still_standing(thread.now);
                    }
            }
        }
        // Waiting for a CPU is told with the run that follows.
        thread.runs_for(kMs);
        elsewhere += thread.timeline.add_running(thread.now, thread.stat, 1, since_last(100));
        elsewhere += thread.timeline.end(thread.now);
        CHECK(thread.total() + elsewhere == thread.now - begin);
    }
}

// ---- holds

void holds_tell_percentiles() {
    Holds holds;
    CHECK(holds.percentile_ns(50) == 0 && holds.count() == 0);
    for (std::uint64_t us = 1; us <= 99; ++us) {
        holds.add(us * 1000);
    }
    CHECK(holds.percentile_ns(50) == 50'250);  // the bucket [50.0, 50.5) us
    CHECK(holds.percentile_ns(99) == 99'250);
    CHECK(holds.count() == 99 && holds.total_ns() == 99 * 50 * 1000 && holds.max_ns() == 99'000);
    holds.add(std::uint64_t{3} << 40);
    CHECK(holds.max_ns() == std::uint64_t{3} << 40);
    Holds longest;
    longest.add(~std::uint64_t{0} >> 1);
    CHECK(longest.percentile_ns(50) == 1'000'250);  // longer ones than a millisecond count as one
}

// ---- KernelRing, over a file that has the pages of the kernel's ring in their order: consumer, producer, the ring

class MadeRing {
   public:
    static constexpr std::size_t kSize = 4096;

    MadeRing() {
        CHECK(ftruncate(file(), 2 * 4096 + kSize) == 0);
        memory_ = static_cast<char*>(mmap(nullptr, 2 * 4096 + kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file(), 0));
    }
    ~MadeRing() {
        munmap(memory_, 2 * 4096 + kSize);
        std::fclose(file_);
    }
    MadeRing(const MadeRing&) = delete;
    MadeRing& operator=(const MadeRing&) = delete;

    int file() const { return fileno(file_); }

    // As the kernel writes it, byte by byte and over the ring's end.
    void add(const std::vector<unsigned char>& record, std::uint32_t flags = 0) {
        const std::uint32_t header[2] = {static_cast<std::uint32_t>(record.size()) | flags, 0};
        std::memcpy(ring() + end_ % kSize, header, sizeof header);
        for (std::size_t i = 0; i < record.size(); ++i) {
            ring()[(end_ + sizeof header + i) % kSize] = static_cast<char>(record[i]);
        }
        end_ += (sizeof header + record.size() + 7) & ~std::size_t{7};
        std::memcpy(memory_ + 4096, &end_, sizeof end_);
    }

    std::uint64_t consumed() const {
        std::uint64_t at = 0;
        std::memcpy(&at, memory_, sizeof at);
        return at;
    }

   private:
    char* ring() { return memory_ + 2 * 4096; }

    std::FILE* file_ = std::tmpfile();
    char* memory_ = nullptr;
    std::uint64_t end_ = 0;
};

// GIVEN records of all lengths, so that they go over the ring's end at many places, THEN each comes back as it was.
void kernel_ring_joins_records() {
    MadeRing made;
    KernelRing ring(made.file(), MadeRing::kSize);
    std::mt19937 random(1);
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::vector<unsigned char>> wanted;
        for (int i = 0; i < 3; ++i) {
            std::vector<unsigned char> record(random() % 1300);
            for (unsigned char& byte : record) {
                byte = static_cast<unsigned char>(random());
            }
            const bool is_discarded = random() % 8 == 0;
            made.add(record, is_discarded ? BPF_RINGBUF_DISCARD_BIT : 0);
            if (!is_discarded) {
                wanted.push_back(record);
            }
        }
        std::vector<std::vector<unsigned char>> told;
        const std::uint64_t end = ring.end();
        ring.take(end, [&](std::span<const std::byte> record) {
            const auto* begin = reinterpret_cast<const unsigned char*>(record.data());
            told.emplace_back(begin, begin + record.size());
        });
        CHECK(told == wanted);
        CHECK(made.consumed() == end);
    }
    made.add(std::vector<unsigned char>(8), BPF_RINGBUF_BUSY_BIT);
    ring.take(ring.end(), [](std::span<const std::byte>) { CHECK(false); });
    CHECK(made.consumed() < ring.end());
}

// ---- StackCopy

// Memory of which the words tell their own addresses, from one page on to another; it counts what is read of it.
class Telling : public Memory {
   public:
    Telling(Address begin, Address end) : begin_(begin), end_(end) {}

    ReadResult read(Address address, void* to, std::size_t size) override {
        ++reads;
        if (address < begin_ || size > end_ - begin_ || address > end_ - size) {
            return ReadResult::kUnmapped;
        }
        bytes += size;
        for (std::size_t i = 0; i < size; ++i) {
            const std::uint64_t word = ((address + i) & ~Address{7}) + added;
            static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(word >> 8 * ((address + i) & 7));
        }
        return ReadResult::kOk;
    }

    std::size_t reads = 0;
    std::size_t bytes = 0;
    std::uint64_t added = 0;

   private:
    Address begin_;
    Address end_;
};

// GIVEN a thread's stack with code of a JIT compiler 5 MB above it, and memory all the way WHEN code of several pages is
// asked for in turns THEN each page is read once, and not what lies between.
void stack_copy_reads_code_by_pages() {
    constexpr Address kStack = 0x7f0000001008;
    constexpr Address kCode = kStack + (5 << 20);
    Telling memory(kStack & ~Address{4095}, kStack + (64 << 20));
    StackCopy stack;
    stack.begin(memory, kStack);
    CHECK(stack.word(kStack) == kStack);
    const std::size_t first = memory.bytes;
    for (Address turn = 0; turn < 100; ++turn) {
        for (Address page = 0; page < 8; ++page) {
            const Address address = (kCode & ~Address{7}) + page * 4096 + turn * 8;
            CHECK(stack.word(address) == address);
        }
        CHECK(stack.word(kStack + turn * 64) == kStack + turn * 64);
    }
    CHECK(memory.reads == 1 + 8);
    CHECK(memory.bytes == first + 8 * 4096);
    // The stack itself, as far as it goes on; a frame of a megabyte in between.
    CHECK(stack.word(kStack + (1 << 20)) == kStack + (1 << 20));
    for (Address at = kStack; at < kStack + (3 << 20); at += 4096) {
        CHECK(stack.word(at) == at);
    }
    // A word that lies in two pages, and one behind which there is nothing.
    const Address end = kStack + (64 << 20);
    const std::uint64_t over = ((kCode & ~Address{4095}) - 8) >> 32 | (kCode & ~Address{4095}) << 32;
    CHECK(stack.word((kCode & ~Address{4095}) - 4) == over);
    CHECK(stack.word(end - 8) == end - 8);
    CHECK(!stack.word(end - 4));
    CHECK(!stack.word(end + 4096));
}

// GIVEN memory that has changed since the last sample THEN nothing of what was read before is told.
void stack_copy_forgets() {
    constexpr Address kStack = 0x7f0000001000;
    constexpr Address kCode = 0x560000000000;
    Telling memory(0x1000, 0x7fffffff0000);
    StackCopy stack;
    for (std::uint64_t sample = 0; sample < 5; ++sample) {
        memory.added = sample << 40;
        stack.begin(memory, kStack);
        for (Address page = 0; page < 3 + sample * 10; ++page) {
            CHECK(stack.word(kCode + page * 4096) == kCode + page * 4096 + memory.added);
        }
        CHECK(stack.word(kStack + 8) == kStack + 8 + memory.added);
        CHECK(stack.word(kCode) == kCode + memory.added);
    }
}

// GIVEN a part of the stack that was read before THEN it is not read again, what lies behind it is, and how far words were asked
// for is told.
void stack_copy_goes_on_behind_what_is_known() {
    constexpr Address kStack = 0x7f0000001000;
    constexpr std::size_t kKnown = 3 * 4096 + 8;
    Telling memory(kStack, kStack + (1 << 20));
    for (const bool ends_there : {false, true}) {
        std::vector<std::byte> known(kKnown);
        CHECK(memory.read(kStack, known.data(), kKnown) == ReadResult::kOk);
        StackCopy stack;
        memory.reads = 0;
        stack.begin(memory, kStack, known);
        CHECK(stack.used_up_to() == kStack);
        CHECK(stack.word(kStack + 4096) == kStack + 4096);
        CHECK(stack.word(kStack + kKnown - 8) == kStack + kKnown - 8);
        CHECK(memory.reads == 0 && stack.used_up_to() == kStack + kKnown);
        if (ends_there) {
            CHECK(stack.bytes(4096).size() == 4096 && stack.bytes(4096).data() == known.data());
            continue;
        }
        CHECK(stack.word(kStack + kKnown - 4).has_value());  // half of it was known
        CHECK(stack.word(kStack + kKnown) == kStack + kKnown);
        CHECK(memory.reads == 1);
        CHECK(stack.word(kStack + 16) == kStack + 16);
        CHECK(stack.bytes(1 << 16).size() == 1 << 16);
        CHECK(std::memcmp(stack.bytes(kKnown).data(), known.data(), kKnown) == 0);
        stack.begin(memory, kStack);
        memory.added = 1 << 20;
        CHECK(stack.word(kStack + 16) == kStack + 16 + memory.added);
        memory.added = 0;
    }
}

// ---- KernelClocks, over clocks that tick in a time of our own

// The clocks of one CPU, as the kernel has them.
struct TickingClocks {
    struct Each {
        std::uint64_t period_ns;
        std::uint64_t next_ns;
    };
    std::vector<Each> clocks;
    std::uint64_t now_ns = 0;
    std::vector<std::uint64_t> ticks_ns;

    void set_period(int event, std::uint64_t period_ns) {
        clocks[static_cast<std::size_t>(event)] = {period_ns, now_ns + period_ns};
    }
    // True: some have ticked since.
    bool run_until(std::uint64_t end_ns) {
        const std::size_t before = ticks_ns.size();
        for (Each& each : clocks) {
            for (; each.next_ns <= end_ns; each.next_ns += each.period_ns) {
                ticks_ns.push_back(each.next_ns);
            }
        }
        now_ns = end_ns;
        std::sort(ticks_ns.begin() + static_cast<std::ptrdiff_t>(before), ticks_ns.end());
        return ticks_ns.size() != before;
    }
};

void clocks_tick_together_at_the_rate_and_without_memory() {
    constexpr std::size_t kCount = 32;
    std::mt19937_64 random(1);
    const auto factor = [&random] { return std::uniform_real_distribution<double>(0.5, 1.5)(random); };
    TickingClocks own;
    std::vector<int> events;
    for (std::size_t i = 0; i < kCount; ++i) {
        const auto period = i == 0 ? kMs : static_cast<std::uint64_t>(kMs * kCount / factor());
        own.clocks.push_back({period, period});
        events.push_back(static_cast<int>(i));
    }
    // The second CPU is offline.
    KernelClocks clocks({events, {}}, [&own](int event, std::uint64_t period) { own.set_period(event, period); });
    std::size_t in_first_period = 0;
    std::size_t until_then = 0;
    while (own.now_ns < 600'000 * kMs) {
        if (own.run_until(own.now_ns + 10 * kMs)) {
            clocks.note_tick(0);
        }
        clocks.draw(own.now_ns, kMs, factor);
        if (own.now_ns <= kCount * kMs) {
            in_first_period = own.ticks_ns.size();
        }
        if (own.now_ns % (1000 * kMs) == 0) {
            // Each second by itself, once all have been drawn.
            const std::size_t ticks = own.ticks_ns.size() - std::exchange(until_then, own.ticks_ns.size());
            CHECK(own.now_ns < 3000 * kMs || (ticks > 985 && ticks < 1015));
        }
    }
    CHECK(in_first_period > kCount / 2 && in_first_period < kCount * 3 / 2);
    CHECK(std::abs(static_cast<double>(own.ticks_ns.size()) / 600'000 - 1) < 0.01);
    // What comes without memory has gaps of which the deviation is as large as the mean; of one clock's it is a third.
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 1; i < own.ticks_ns.size(); ++i) {
        const auto gap = static_cast<double>(own.ticks_ns[i] - own.ticks_ns[i - 1]);
        sum += gap;
        squares += gap * gap;
    }
    const double mean = sum / static_cast<double>(own.ticks_ns.size() - 1);
    const double deviation = std::sqrt(squares / static_cast<double>(own.ticks_ns.size() - 1) - mean * mean);
    CHECK(deviation > 0.95 * mean && deviation < 1.05 * mean);
    for (const TickingClocks::Each& each : own.clocks) {
        CHECK(each.period_ns > kMs * kCount / 2 && each.period_ns < kMs * kCount * 2);
    }
}

}  // namespace

int main() {
    clocks_tick_together_at_the_rate_and_without_memory();
    read_ahead_repeats();
    read_ahead_plan_is_only_a_guess();
    read_ahead_goes_beyond_its_plan();
    read_ahead_reads_the_stack();
    limits_end_a_look();
    codes_without_versions_are_told_apart_by_texts();
    codes_with_versions_are_told_apart_by_them();
    looks_are_bounded();
    id_map_is_a_map();
    stacks_read_back();
    stacks_tell_extremes_apart();
    last_stacks_are_no_others();
    stacks_forget();
    retakes_end();
    timeline_adds_up();
    timeline_splits_blocked_time();
    timeline_tells_who_waits_for_a_cpu();
    timeline_claims();
    timeline_evens_ticks_out();
    timeline_begins_with_itself();
    ring_tells_ticks();
    timeline_leaves_holds_out();
    timeline_adds_up_at_random();
    holds_tell_percentiles();
    kernel_ring_joins_records();
    stack_copy_reads_code_by_pages();
    stack_copy_forgets();
    stack_copy_goes_on_behind_what_is_known();
    if (g_failures == 0) {
        std::puts("all hold");
    }
    return g_failures == 0 ? 0 : 1;
}
