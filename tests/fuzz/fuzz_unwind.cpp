// libFuzzer over CFI and the unwinder: the input is a section of CFI, and the stack that its rules are applied to.
//
// The first byte tells the kind of section and how the rest is divided. test_fuzz_unwind.py builds and runs this; its
// seeds are sections of real modules.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "unwind/unwinder.h"

namespace {

using namespace weft;

constexpr Address kModule = 0x10000;
constexpr Address kBias = 0x7f0000000000;
constexpr Address kStack = 0x7ffc00000000;

// The end of the input, again and again: a stack of any size that is wanted.
class Words final : public Memory {
   public:
    explicit Words(Bytes bytes) : bytes_(bytes) {}

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override {
        if (address < kStack || address - kStack > (1 << 20) || bytes_.empty()) {
            return ReadResult::kUnmapped;
        }
        auto* bytes = static_cast<std::byte*>(to);
        for (std::size_t i = 0; i < size; ++i) {
            bytes[i] = bytes_[(address - kStack + i) % bytes_.size()];
        }
        return ReadResult::kOk;
    }

   private:
    Bytes bytes_;
};

void check(bool holds) {
    if (!holds) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) {
        return 0;
    }
    const Bytes input(reinterpret_cast<const std::byte*>(data), size);
    const std::size_t split = 1 + (size - 1) * (1 + (data[0] >> 1 & 7)) / 8;
    const CfiSection section{input.subspan(1, split - 1), kModule, (data[0] & 1) == 0};
    const UnwindTable built = UnwindTable::build({&section, 1});
    const std::string saved = built.save();
    const auto loaded = UnwindTable::load(saved);
    check(loaded.has_value());
    const auto table = std::make_shared<const UnwindTable>(*loaded);
    for (Address address = 0; address < 2 * kModule; address += 61) {
        check(built.find(address) == table->find(address));
    }
    check(built.losses().functions + built.losses().overlaps <= size);
    static_cast<void>(UnwindTable::load({reinterpret_cast<const char*>(data), size}));

    CodeMap code;
    code.add(kBias, kBias + (1ULL << 40), kBias, 1, table);
    code.add(kBias + 5, kBias + 5000, kBias + 1, 2, table);
    Words words(input.subspan(split));
    RegisterSet registers;
    for (std::size_t i = 0; i < kRegisters; ++i) {
        registers.set(static_cast<Register>(i), kStack + 8 * i);
    }
    registers.set(Register::kReturn, kBias + kModule + data[size - 1]);
    StackCopy copy;
    copy.begin(words, kStack);
    NativeStack stack;
    unwind(copy, code, registers, stack);
    check(!stack.frames.empty() && stack.frames.size() <= kMaxNativeFrames);
    return 0;
}
