// libFuzzer over CFI, code without CFI, tables, the unwinder and the kernel's walk: the input is a section of CFI, the bytes of
// code, and the stack that is unwound through both.
//
// The first byte tells the kind of section and how the rest is divided. test_fuzz_unwind.py builds and runs this; its
// seeds are sections and code of real modules.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "host_kernel.h"
#include "sampler/kernel_sample.h"
#include "unwind/code_rule.h"
#include "unwind/unwinder.h"

namespace {

using namespace weft;

constexpr Address kModule = 0x10000;
constexpr Address kBias = 0x7f0000000000;
constexpr Address kStack = 0x7ffc00000000;
constexpr std::size_t kCodeSize = 1 << 14;   // bytes of code that can be read, from kModule on
constexpr std::size_t kStackSize = 1 << 12;  // of most inputs
constexpr std::size_t kDeepStack = 1 << 17;  // of some: twice the most frames, so that these can be had
constexpr std::size_t kLarge = 1 << 12;      // rows of a table that spans far more code than the input tells of

void check(bool holds) {
    if (!holds) {
        std::abort();
    }
}

// Bytes again and again, as many as are wanted.
void fill(std::vector<std::byte>& to, Bytes from) {
    std::size_t done = std::min(from.size(), to.size());
    std::memcpy(to.data(), from.data(), done);
    for (std::size_t more = 0; done != 0 && done < to.size(); done += more) {
        more = std::min(done, to.size() - done);
        std::memcpy(to.data() + done, to.data(), more);
    }
}

// A word of the stack, of two bytes: a place in the code, one on the stack, a small number or a wild one.
std::uint64_t stack_word(unsigned value) {
    const Address distance = value >> 2;
    switch (value & 3) {
        case 0: return kBias + kModule + distance;
        case 1: return kStack + 4 * distance;
        case 2: return distance;
        default: return ~distance * 0x9e3779b97f4a7c15ULL;
    }
}

// The stack and the code. Made once: only what an input tells is written for it.
class Words final : public Memory {
   public:
    Words() : code_(kCodeSize) {}

    void set(Bytes code, Bytes stack, std::size_t size) {
        fill(code_, code);
        stack_.resize(size);
        std::vector<std::uint64_t> words;
        for (std::size_t i = 0; i + 2 <= stack.size(); i += 2) {
            words.push_back(
                stack_word(std::to_integer<unsigned>(stack[i]) | std::to_integer<unsigned>(stack[i + 1]) << 8));
        }
        fill(stack_, std::as_bytes(std::span(words)));
    }

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override {
        for (const auto& [begin, bytes] : {std::pair(kBias + kModule, &code_), std::pair(kStack, &stack_)}) {
            const Address at = address - begin;
            if (at <= bytes->size() && size <= bytes->size() - at) {
                std::memcpy(to, bytes->data() + at, size);
                return ReadResult::kOk;
            }
        }
        return ReadResult::kUnmapped;
    }

   private:
    std::vector<std::byte> code_;
    std::vector<std::byte> stack_;
};

// What code tells is about the stack that it can have made: some words for each of its bytes, or the largest for its rows.
void check_code(Bytes code) {
    constexpr std::int64_t kMost = 1 << 20;
    const auto size = static_cast<std::int64_t>(code.size());
    if (const auto rule = rule_of_code(code)) {
        check(rule->offset >= -kMost * size && rule->offset <= kMost * size + 8);
    }
    std::uint64_t last = 0;
    for (const PrologueRow& row : rules_of_prologue(code)) {
        check(row.offset >= last && row.offset <= code.size());
        check(row.rule.by_code && row.rule.offset >= 8);
        last = row.offset;
    }
    static_cast<void>(rule_by_frame_pointer(code, false));
    static_cast<void>(ends_in_call(code));
}

// The frames that the kernel's walk tells are the unwinder's; it tells all of them, or leaves the stack to the unwinder.
void check_kernel(Words& words, CodeMap& map, const RegisterSet& registers, const NativeStack& own,
                  bool all_registers) {
    static HostKernel kernel(true);
    static KernelSample sample;
    static NativeStack told;
    weft_process process = kernel_process(map, nullptr, false);
    if (all_registers) {
        process.anchors_are_values = 1;
        process.eval_loops = 1;  // of each frame, then
        process.eval_loop[0] = {0, ~0ull};
    }
    kernel.tell(process, map);
    check(sample.parse(kernel.tick(words, registers, 0)));
    if (!sample.native_is_done()) {
        return;
    }
    sample.native(map, told);
    check(!told.frames.empty() && told.frames.size() <= own.frames.size());
    for (std::size_t i = 0; i < told.frames.size(); ++i) {
        const NativeFrame& one = own.frames[i];
        const NativeFrame& other = told.frames[i];
        check(one.pc == other.pc && one.stack_pointer == other.stack_pointer && one.is_return == other.is_return);
        check(one.cfa == other.cfa || (told.loss == Loss::kDepth && &other == &told.frames.back()));
        check(!all_registers || one.preserved == other.preserved);
    }
    check(told.loss == Loss::kDepth || told.frames.size() == own.frames.size());
    check(told.loss == Loss::kDepth || (told.loss == Loss::kNone) == (own.loss == Loss::kNone));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 16) {
        return 0;
    }
    const Bytes input(reinterpret_cast<const std::byte*>(data), size);
    const std::size_t split = 1 + (size - 1) * (1 + (data[0] >> 1 & 3)) / 5;
    const std::size_t half = split + (size - split) / 2;
    const CfiSection section{input.subspan(1, split - 1), kModule, (data[0] & 1) == 0};
    const Bytes code = input.subspan(split, half - split);
    const Bytes ahead = code.first(std::min(code.size(), std::size_t{128}));
    check_code(ahead);

    // Behind what the section tells of, and over it, where that holds.
    const std::array functions = {FunctionCode{kModule + 32, kModule + 4096, ahead},
                                  FunctionCode{kModule + kCodeSize / 2, kModule + kCodeSize, ahead}};
    const UnwindTable built = UnwindTable::build({&section, 1}).with_functions(functions);
    check(built.losses().functions + built.losses().overlaps <= size);
    if (built.rows() > kLarge && data[1] % 32 != 0) {
        return 0;  // they take a hundred times longer, and differ in nothing but their empty pages
    }
    const std::string saved = built.save();
    const auto loaded = UnwindTable::load(saved);
    check(loaded && loaded->save() == saved);
    const auto table = std::make_shared<const UnwindTable>(*loaded);
    for (Address address = 0; address < 2 * kModule; address += 1021) {
        check(built.find(address) == table->find(address));
    }
    static_cast<void>(UnwindTable::load({reinterpret_cast<const char*>(data), size}));

    static CodeMap map = [] {
        CodeMap made;
        made.add_stack_base(kBias + kModule + 999, kBias + kModule + 1001);
        return made;
    }();
    map.add(kBias, kBias + (1ULL << 40), kBias, 1, table);
    map.add(kBias + 5, kBias + 5000, kBias + 1, 2, table);
    static const auto nothing = std::make_shared<const UnwindTable>(UnwindTable::build({}));
    map.add(kBias + kModule + kCodeSize / 4, kBias + kModule + kCodeSize / 2, kBias, 3, nothing, true);
    static Words words;
    words.set(code, input.subspan(half), data[1] % 64 == 0 ? kDeepStack : kStackSize);
    RegisterSet registers;
    for (std::size_t i = 0; i < kRegisters; ++i) {
        registers.set(static_cast<Register>(i), kStack + 8 * i);
    }
    registers.set(Register::kRsp, kStack);
    registers.set(Register::kReturn, kBias + kModule + 8 * data[size - 1]);
    static StackCopy copy;
    copy.begin(words, kStack);
    static NativeStack stack;  // its room is kept, as samplers keep it
    unwind(copy, map, registers, stack);
    check(!stack.frames.empty() && stack.frames.size() <= kMaxNativeFrames);
    for (const NativeFrame& frame : stack.frames) {
        check(frame.pc != 0 && (frame.cfa != 0 || &frame == &stack.frames.back()));
    }
    check_kernel(words, map, registers, stack, (data[0] & 8) != 0);
    // Behind a gap at any frame it goes on.
    static NativeStack rest;
    rest.frames.clear();
    const NativeFrame& last = stack.frames.back();
    if (last.place.table != nullptr) {
        unwind_caller(copy, map, kStack + 512, last.place, rest);
    }
    check(rest.frames.size() <= kMaxNativeFrames);
    return 0;
}
