// libFuzzer over the walker and the kernel's walk: a snapshot of a real interpreter, in which the input changes pointers, lengths,
// offsets of the layout, roots, and which memory is there. All threads are listed and walked, all code objects and GILs read.
//
// WEFT_SNAPSHOTS names the snapshots, in the form of Snapshot.text() (snapshots.py), separated by colons. The first byte
// of an input chooses one, the others are mutations of 8 bytes each. test_fuzz_walker.py builds and runs this.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "host_kernel.h"
#include "memory/limited.h"
#include "python/code.h"
#include "python/frames.h"
#include "python/runtime.h"
#include "sampler/kernel_sample.h"

namespace {

using namespace weft;

// The harness is no part of what the fuzzer should explore.
#define WEFT_HARNESS __attribute__((no_sanitize("coverage")))

struct Segment {
    Address begin = 0;
    std::string bytes;
    Address end() const { return begin + bytes.size(); }
};

struct Snapshot {
    Layout layout;
    RuntimeAddresses addresses;
    std::vector<Segment> segments;  // in order of address
    std::size_t size = 0;           // bytes of all segments
    std::vector<Address> sites;     // where a pointer into the snapshot lies

    WEFT_HARNESS const Segment* find(Address address) const {
        auto next = std::ranges::upper_bound(segments, address, {}, &Segment::begin);
        return next == segments.begin() || address >= std::prev(next)->end() ? nullptr : &*std::prev(next);
    }
    Address address_of(std::size_t position) const {
        position %= size;
        for (const Segment& segment : segments) {
            if (position < segment.bytes.size()) {
                return segment.begin + position;
            }
            position -= segment.bytes.size();
        }
        std::abort();
    }
    std::uint64_t word(Address address) const {
        std::uint64_t value = 0;
        if (const Segment* segment = find(address); segment != nullptr && segment->end() - address >= 8) {
            std::memcpy(&value, segment->bytes.data() + (address - segment->begin), 8);
        }
        return value;
    }
    Address site(std::size_t number) const { return sites[number % sites.size()]; }
};

std::vector<std::uint32_t*> fields_of(Layout& layout) {
    return {
#define WEFT_FIELD(name) &layout.name,
        WEFT_LAYOUT_FIELDS(WEFT_FIELD)
#undef WEFT_FIELD
    };
}

// A snapshot with changes, which are few: each read looks through all of them.
class MutatedMemory final : public Memory {
   public:
    explicit MutatedMemory(const Snapshot& snapshot) : snapshot_(snapshot) {}

    void write(Address address, const void* bytes, std::size_t size) {
        patches_.push_back({address, std::string(static_cast<const char*>(bytes), size)});
    }
    void write_word(Address address, std::uint64_t value) { write(address, &value, sizeof value); }
    void remove(Address begin, std::uint64_t size) { removed_.emplace_back(begin, size); }

    [[nodiscard]] WEFT_HARNESS ReadResult read(Address address, void* to, std::size_t size) override {
        const Segment* segment = snapshot_.find(address);
        if (segment == nullptr || size > segment->end() - address) {
            return ReadResult::kUnmapped;
        }
        for (const auto& [begin, count] : removed_) {
            if (address < begin + count && begin < address + size) {
                return ReadResult::kUnmapped;
            }
        }
        std::memcpy(to, segment->bytes.data() + (address - segment->begin), size);
        for (const Segment& patch : patches_) {
            const Address begin = std::max(address, patch.begin);
            const Address end = std::min(address + size, patch.end());
            if (begin < end) {
                std::memcpy(static_cast<char*>(to) + (begin - address), patch.bytes.data() + (begin - patch.begin),
                            end - begin);
            }
        }
        return ReadResult::kOk;
    }

   private:
    const Snapshot& snapshot_;
    std::vector<Segment> patches_;
    std::vector<std::pair<Address, std::uint64_t>> removed_;
};

struct Mutation {
    std::uint8_t kind;
    std::uint8_t how;
    std::uint16_t where;
    std::uint32_t value;
};
static_assert(sizeof(Mutation) == 8);

void change_bytes(const Snapshot& snapshot, const Mutation& m, MutatedMemory& memory) {
    const Address at = snapshot.address_of(m.where);
    const auto wide = static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(m.value)));
    switch (m.how % 5) {
        case 0: memory.write(at, &m.value, 1); break;
        case 1: memory.write(at, &m.value, 4); break;
        case 2: memory.write_word(at & ~Address{7}, wide); break;        // a small number, or one that is negative
        case 3: memory.write_word(at & ~Address{7}, wide << 32); break;  // a huge one
        case 4: memory.write_word(at, snapshot.word(at) ^ std::uint64_t{1} << m.value % 64); break;
    }
}

void change_pointer(const Snapshot& snapshot, const Mutation& m, MutatedMemory& memory) {
    const Address at = snapshot.site(m.where);
    const Address other = snapshot.site(m.value);
    switch (m.how % 8) {
        case 0: memory.write_word(at, 0); break;
        case 1: memory.write_word(at, at); break;
        case 2: memory.write_word(at, other); break;
        case 3: memory.write_word(at, snapshot.address_of(m.value)); break;
        case 4:
            memory.write_word(at, snapshot.word(at) + static_cast<Address>(static_cast<std::int8_t>(m.value)));
            break;
        case 5: memory.write_word(at, std::uint64_t{m.value} << 32 | m.value); break;  // wild
        default: memory.write_word(at, snapshot.word(other)); break;                   // cycles, crossed chains
    }
}

void change_layout(const Mutation& m, Layout& layout) {
    const std::vector<std::uint32_t*> fields = fields_of(layout);
    std::uint32_t& field = *fields[m.where % fields.size()];
    switch (m.how % 4) {
        case 0: field = m.value % 1024; break;
        case 1: field = m.value; break;
        case 2: field = kAbsent; break;
        case 3: field = *fields[m.value % fields.size()]; break;
    }
    layout.pointer_size = layout.pointer_size % 2 == 0 ? 8 : 4;  // what the binding lets through
}

void change(const Snapshot& snapshot, const Mutation& m, Layout& layout, RuntimeAddresses& roots,
            MutatedMemory& memory) {
    switch (m.kind % 8) {
        case 0:
        case 1: change_bytes(snapshot, m, memory); break;
        case 2: {  // a struct where another one was
            const Address from = snapshot.address_of(m.value);
            const Segment* segment = snapshot.find(from);
            const std::uint64_t size = std::min<std::uint64_t>(segment->end() - from, m.how);
            memory.write(snapshot.address_of(m.where), segment->bytes.data() + (from - segment->begin), size);
            break;
        }
        case 3: change_layout(m, layout); break;
        case 4: {
            std::uint64_t* const all[] = {&roots.interpreters_head, &roots.current_thread, &roots.gil};
            *all[m.how % 3] = m.how < 128 ? snapshot.site(m.where) : snapshot.address_of(m.where) + m.value % 8;
            break;
        }
        case 5: memory.remove(snapshot.address_of(m.where), m.how); break;
        default: change_pointer(snapshot, m, memory); break;
    }
}

void check(bool holds, const char* what) {
    if (!holds) {
        std::fprintf(stderr, "not so: %s\n", what);
        std::abort();
    }
}

// The walker's frames of a thread, in memory whose code objects nobody has seen before; or at the instant of a sample.
void walk_anew(FrameWalker& walker, const Layout& layout, Memory& memory, const ThreadState& state,
               const KernelSample* sample, PythonStack& stack) {
    static CodeMap no_code;
    std::uint32_t next_code = 1;
    CodeTable codes(layout, next_code);
    LimitedMemory limited;
    limited.begin(memory);
    if (sample == nullptr) {
        codes.begin_sample();
        walker.walk(memory, limited, state, codes, stack);
        return;
    }
    SampleMemory of_thread(*sample, no_code, memory);
    SampleObjects objects(*sample);
    objects.begin(limited);
    codes.begin_sample(sample->codes(), &objects);
    walker.walk(of_thread, objects, state, codes, stack);
}

// The kernel's walk along the frames of the thread that `state` is of. `as_laid_out`: the layout is the process's own.
void check_kernel(HostKernel& kernel, const Layout& layout, Memory& memory, const ThreadState& state,
                  FrameWalker& walker, bool as_laid_out) {
    static KernelSample sample;
    static PythonStack own;
    static PythonStack told;
    check(sample.parse(kernel.tick(memory, {}, state.pthread)), "the kernel tells a sample");
    check(sample.head().python_frames <= 2048, "the kernel's walk is bounded");
    if (sample.head().thread_state != state.address) {
        return;  // it has found another one of the same thread
    }
    walk_anew(walker, layout, memory, state, nullptr, own);
    walk_anew(walker, layout, memory, state, &sample, told);
    // That a frame has been popped can be told by the one only, where chunks have changed.
    if (as_laid_out && own.loss == Loss::kNone && told.loss != Loss::kBetween &&
        sample.head().python_end == WEFT_END_WHOLE) {
        const auto same = [](const auto& one, const auto& other) {
            return one.anchor == other.anchor && one.end == other.end;
        };
        check(told.loss == Loss::kNone && told.frames == own.frames && told.callers == own.callers,
              "the kernel tells the walker's frames");
        check(told.anchor == own.anchor && std::ranges::equal(told.segments, own.segments, same),
              "the kernel tells the walker's anchors");
    }
}

// What the sampler and PythonReader do, over all threads; with what must hold of it whatever the memory says.
void read_all(Memory& memory, const Runtime& runtime, CodeTable& codes, FrameWalker& walker,
              const std::uint32_t& next_code, bool as_laid_out) {
    constexpr std::size_t kWalks = 64;
    LimitedMemory limited;
    limited.begin(memory);
    Threads threads;
    Loss loss = runtime.list(limited, threads);
    check(threads.interpreters.size() <= 1024 && threads.states.size() <= 1 << 16, "lists are bounded");
    static_cast<void>(runtime.has_grown(limited, threads));
    for (const Interpreter& interpreter : threads.interpreters) {
        static_cast<void>(runtime.gil_holder(limited, interpreter));
    }
    PythonStack stack;
    codes.begin_sample();
    threads.states.resize(std::min(threads.states.size(), kWalks));
    static HostKernel kernel(false);
    const PythonPlace place{runtime.layout(), runtime.addresses()};
    kernel.tell(kernel_process({}, &place, false), {});
    for (const ThreadState& state : threads.states) {
        limited.begin(memory);
        walker.walk(limited, limited, state, codes, stack);
        loss = stack.loss;
        check(static_cast<std::size_t>(loss) < kLossCount, "a loss has a name");
        check(stack.frames.size() <= FrameWalker::kMaxFrames, "a stack is bounded");
        for (const PythonFrame& frame : stack.frames) {
            check(frame.code != 0 && frame.code < next_code, "a frame has a code that is known");
            check(frame.instruction >= -2 && frame.instruction <= 1 << 28, "an instruction is in range");
        }
        check_kernel(kernel, runtime.layout(), memory, state, walker, as_laid_out);
    }
    for (const CodeDefinition& code : codes.take_definitions()) {
        check(code.line_table.size() <= 4 << 20, "a line table is bounded");
        for (const Text* text : {&code.filename, &code.name, &code.qualname}) {
            check(text->bytes.size() <= std::size_t{4096} * std::max(text->kind, 1U), "a name is bounded");
            check(text->kind <= 2 || text->kind == 4, "a name has a width");
        }
    }
}

std::unique_ptr<Snapshot> load(const std::string& path) {
    auto snapshot = std::make_unique<Snapshot>();
    std::map<std::string, std::uint32_t*> fields;
#define WEFT_FIELD(name) fields[#name] = &snapshot->layout.name;
    WEFT_LAYOUT_FIELDS(WEFT_FIELD)
#undef WEFT_FIELD
    std::map<std::string, std::uint64_t*> roots = {{"interpreters_head", &snapshot->addresses.interpreters_head},
                                                   {"current_thread", &snapshot->addresses.current_thread},
                                                   {"gil", &snapshot->addresses.gil}};
    std::ifstream file(path);
    std::string kind, name, value;
    while (file >> kind >> name >> value) {
        if (kind == "layout") {
            *fields.at(name) = static_cast<std::uint32_t>(std::stoul(value));
        } else if (kind == "address") {
            *roots.at(name) = std::stoull(value);
        } else {
            Segment segment{std::stoull(name), {}};
            for (std::size_t i = 0; i < value.size(); i += 2) {
                segment.bytes.push_back(static_cast<char>(std::stoi(value.substr(i, 2), nullptr, 16)));
            }
            snapshot->size += segment.bytes.size();
            snapshot->segments.push_back(std::move(segment));
        }
    }
    check(!snapshot->segments.empty(), path.c_str());
    for (const Segment& segment : snapshot->segments) {
        for (Address at = (segment.begin + 7) & ~Address{7}; at + 8 <= segment.end(); at += 8) {
            if (snapshot->find(snapshot->word(at)) != nullptr) {
                snapshot->sites.push_back(at);
            }
        }
    }
    return snapshot;
}

const std::vector<std::unique_ptr<Snapshot>>& snapshots() {
    static const auto all = [] {
        const char* names = std::getenv("WEFT_SNAPSHOTS");
        check(names != nullptr, "WEFT_SNAPSHOTS is set");
        std::vector<std::unique_ptr<Snapshot>> loaded;
        std::istringstream list(names);
        for (std::string path; std::getline(list, path, ':');) {
            loaded.push_back(load(path));
        }
        return loaded;
    }();
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const Snapshot& snapshot = *snapshots()[data[0] % snapshots().size()];
    const bool change_between = (data[0] & 0x80) != 0;
    Layout layout = snapshot.layout;
    RuntimeAddresses roots = snapshot.addresses;
    MutatedMemory memory(snapshot);
    std::vector<Mutation> mutations((size - 1) / sizeof(Mutation));
    if (!mutations.empty()) {
        std::memcpy(mutations.data(), data + 1, mutations.size() * sizeof(Mutation));
    }
    // Changes of the layout come before the walker is made; of memory, half of them perhaps after a first sample, so that
    // what is remembered of code objects meets memory that has been used anew.
    const std::size_t early = change_between ? mutations.size() / 2 : mutations.size();
    for (std::size_t i = 0; i < early; ++i) {
        change(snapshot, mutations[i], layout, roots, memory);
    }
    const bool as_laid_out = std::memcmp(&layout, &snapshot.layout, sizeof layout) == 0;
    std::uint32_t next_code = 1;
    const Runtime runtime(layout, roots);
    CodeTable codes(runtime.layout(), next_code);
    FrameWalker walker(runtime);
    read_all(memory, runtime, codes, walker, next_code, as_laid_out);
    if (change_between) {
        for (std::size_t i = early; i < mutations.size(); ++i) {
            change(snapshot, mutations[i], layout, roots, memory);
        }
        read_all(memory, runtime, codes, walker, next_code, as_laid_out);
    }
    return 0;
}
