// The kernel's walk, compiled for the host, and our own walkers, over threads of a process that stand still.
//
//   compare_walks PID FILE
//
// FILE tells of the process (told_process.h). Each line of standard input is a thread: its thread pointer, its registers, whether it is in the kernel. A line of
// standard output answers it: "same", whether the kernel has followed the native frames to their end, numbers of native and of
// Python frames, and how many of the latter the kernel has told; or "not the same: " and what differs.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "host_kernel.h"
#include "memory/process.h"
#include "python/code_identity.h"
#include "sampler/kernel_sample.h"
#include "sampler/python_target.h"
#include "told_process.h"
#include "weave/weave.h"

namespace {

using namespace weft;

// `with_registers`: that functions preserve, of activations.
std::string differs(const NativeStack& own, const NativeStack& kernels, bool with_registers) {
    for (std::size_t i = 0; i < std::max(own.frames.size(), kernels.frames.size()); ++i) {
        if (i >= own.frames.size() || i >= kernels.frames.size()) {
            return "number of native frames";
        }
        const NativeFrame& one = own.frames[i];
        const NativeFrame& other = kernels.frames[i];
        if (one.pc != other.pc || one.stack_pointer != other.stack_pointer || one.cfa != other.cfa ||
            one.is_return != other.is_return ||
            (with_registers && one.place.eval_loop && one.preserved != other.preserved)) {
            return "native frame " + std::to_string(i);
        }
    }
    return own.loss == kernels.loss ? "" : "why the native stack ends";
}

std::string differs(const PythonStack& own, const PythonStack& kernels) {
    const auto same = [](const Segment& one, const Segment& other) {
        return one.anchor == other.anchor && one.end == other.end;
    };
    // What is no code object can look like one that is gone: of its texts, some are not told.
    const auto why = [](const PythonStack& stack) {
        return std::string(
            kLossNames[static_cast<std::size_t>(stack.loss == Loss::kCodeGone ? Loss::kNotCode : stack.loss)]);
    };
    return why(own) != why(kernels)         ? "the Python stack ends by " + why(own) + " and " + why(kernels)
           : own.frames != kernels.frames   ? "Python frames"
           : own.anchor != kernels.anchor   ? "anchor"
           : own.callers != kernels.callers ? "callers"
           : !std::ranges::equal(own.segments, kernels.segments, same) ? "segments"
                                                                       : "";
}

// Whether the memory of which a record tells is there, and as the record has it.
bool is_true(std::span<const std::byte> record, Memory& memory) {
    std::vector<std::byte> own;
    record = record.subspan(sizeof(weft_sample));
    while (!record.empty()) {
        weft_piece piece{};
        std::memcpy(&piece, record.data(), sizeof piece);
        const auto told = record.subspan(sizeof piece, piece.size);
        own.resize(piece.size);
        if (piece.kind == WEFT_MEMORY &&
            (memory.read(piece.address, own.data(), own.size()) != ReadResult::kOk || !std::ranges::equal(own, told))) {
            return false;
        }
        record = record.subspan(sizeof piece + ((piece.size + 7) & ~7u));
    }
    return true;
}

// Whether code objects of the stack are told, by the numbers by which our own side knows them.
bool are_identities_same(const PythonStack& stack, const KernelSample& sample, const Layout& layout, Memory& memory) {
    CodeIdentifier identifier(layout);
    const bool is_any_told = !sample.codes().empty() || stack.frames.empty();
    return is_any_told && std::ranges::all_of(sample.codes(), [&](const CodeIdentity& told) {
               CodeHeader header;
               std::uint64_t own = 0;
               return identifier.read(memory, told.address, header) == Loss::kNone &&
                      identifier.identify(memory, header, own) == Loss::kNone && own == told.identity;
           });
}

class Comparison {
   public:
    Comparison(pid_t pid, ToldProcess& told)
        : memory_(pid),
          code_(told.code),
          layout_(told.place.layout),
          process_(kernel_process(told.code, &told.place, false)),
          python_(told.place.layout, told.place.addresses, next_code_),
          own_weaver_(told.place.layout),
          kernels_weaver_(told.place.layout) {
        kernel_.tell(process_, code_);
    }

    std::string compare(const ThreadPosition& position, bool in_kernel) {
        KernelSample sample;
        const auto record = kernel_.tick(memory_, position.registers, position.pthread, in_kernel);
        if (!sample.parse(record)) {
            return "not the same: there is no sample";
        }
        SampleMemory then(sample, code_, memory_);
        python_.look(memory_, thread_, position, own_stack_);
        SampleObjects objects(sample);
        const PastThread past{then, objects, sample.codes(), sample.head().thread_state, sample.head().is_alone != 0};
        python_.look(memory_, thread_, position, kernels_stack_, &past);

        own_words_.begin(memory_, position.stack_pointer());
        kernels_words_.begin(then, position.stack_pointer());
        unwind(own_words_, code_, position.registers, own_native_);
        const bool done = sample.native_is_done();
        if (done) {
            sample.native(code_, kernels_native_);
        } else {
            unwind(kernels_words_, code_, position.registers, kernels_native_);
        }
        std::string what = differs(own_stack_, kernels_stack_);
        what += what.empty() ? differs(own_native_, kernels_native_, !done || process_.anchors_are_values) : "";
        const std::size_t native = own_native_.frames.size();
        own_weaver_.weave(own_stack_, own_native_, code_, own_words_, own_woven_);
        kernels_weaver_.weave(kernels_stack_, kernels_native_, code_, kernels_words_, kernels_woven_);
        if (what.empty() && own_woven_.frames != kernels_woven_.frames) {
            what = "woven frames";
        }
        if (what.empty() && !is_true(record, memory_)) {
            what = "memory";
        }
        if (what.empty() && !are_identities_same(own_stack_, sample, layout_, memory_)) {
            what = "identities of code objects";
        }
        if (what.empty() && sample.kernel().count != (in_kernel ? 2 : 0)) {
            what = "frames in the kernel";
        }
        std::ostringstream answer;
        answer << (what.empty() ? "same" : "not the same: " + what + ";") << ' ' << done << ' ' << native << ' '
               << own_stack_.frames.size() << ' ' << sample.head().python_frames;
        return answer.str();
    }

   private:
    ProcessMemory memory_;
    CodeMap& code_;
    const Layout& layout_;
    weft_process process_;
    std::uint32_t next_code_ = 1;
    PythonTarget python_;
    PythonThread thread_;
    HostKernel kernel_{true};
    Weaver own_weaver_;
    Weaver kernels_weaver_;
    PythonStack own_stack_;
    PythonStack kernels_stack_;
    NativeStack own_native_;
    NativeStack kernels_native_;
    StackCopy own_words_;
    StackCopy kernels_words_;
    WovenStack own_woven_;
    WovenStack kernels_woven_;
};

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        return 2;
    }
    ToldProcess told = read_told_process(words[2]);
    Comparison comparison(static_cast<pid_t>(std::strtol(words[1], nullptr, 10)), told);
    ThreadPosition position;
    while (std::cin >> position.pthread) {
        for (std::size_t i = 0; i < kRegisters; ++i) {
            std::uint64_t value = 0;
            std::cin >> value;
            position.registers.set(static_cast<Register>(i), value);
        }
        bool in_kernel = false;
        std::cin >> in_kernel;
        std::cout << comparison.compare(position, in_kernel) << std::endl;
    }
    return 0;
}
