// Steps a program instruction by instruction, and weaves its stack at each.
//
//   step_stacks PID FILE STEPS
//
// FILE tells of the process (told_process.h). No instruction does more than to begin or to end one Python frame: the innermost
// one, and it is the eval loop's own code that does so, in the activation that runs the frame. So of two stacks one after the
// other that are whole and proven, one is the other with at most one frame more, and that is the one whose activation is the
// innermost native frame. Prints those that are not, then how many were looked at, whole, and changed.
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "memory/process.h"
#include "sampler/python_target.h"
#include "sampler/tracer.h"
#include "told_process.h"
#include "weave/weave.h"

namespace {

using namespace weft;

// A Python frame of a woven stack, and the activation that runs it.
struct Placed {
    std::uint32_t code = 0;
    bool incomplete = false;
    std::int32_t instruction = 0;
    Address activation = 0;  // its CFA

    static bool is_same(const Placed& one, const Placed& other) {
        return one.code == other.code && one.activation == other.activation;
    }
};

class Stepped {
   public:
    Stepped(pid_t pid, ToldProcess& told)
        : pid_(pid),
          memory_(pid),
          code_(told.code),
          python_(told.place.layout, told.place.addresses, next_code_),
          weaver_(told.place.layout) {}

    bool stop() const {
        return ptrace(PTRACE_SEIZE, pid_, nullptr, nullptr) == 0 &&
               ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr) == 0 && waitpid(pid_, nullptr, 0) == pid_;
    }

    bool step() const {
        int status = 0;
        return ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) == 0 && waitpid(pid_, &status, 0) == pid_ &&
               WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
    }

    // Whether the stack is whole and proven; `stack` is it then, outermost first.
    bool look(std::vector<Placed>& stack) {
        tracer::Registers registers;
        if (!tracer::registers(pid_, registers)) {
            return false;
        }
        const ThreadPosition position{registers.thread_pointer, registers.all};
        python_.look(memory_, thread_, position, python_stack_);
        for (const CodeDefinition& code : python_.codes().take_definitions()) {
            names_.resize(std::max<std::size_t>(names_.size(), code.id + 1));
            names_[code.id] = code.name.bytes;
        }
        words_.begin(memory_, position.stack_pointer());
        unwind(words_, code_, position.registers, native_);
        weaver_.weave(python_stack_, native_, code_, words_, woven_);
        if (python_stack_.loss != Loss::kNone || native_.loss != Loss::kNone || woven_.gaps != 0 ||
            woven_.seams[static_cast<std::size_t>(Proof::kCounted)] != 0 ||
            woven_.seams[static_cast<std::size_t>(Proof::kOpen)] != 0) {
            return false;
        }
        place(stack);
        return true;
    }

    std::string shown(const std::vector<Placed>& stack) const {
        std::ostringstream text;
        for (const Placed& frame : stack) {
            text << ' ' << names_[frame.code] << (frame.incomplete ? "?" : "") << '+' << frame.instruction << '@'
                 << std::hex << frame.activation << std::dec;
        }
        return text.str();
    }

    const NativeFrame& innermost() const { return native_.frames.front(); }

   private:
    // The Python frames of an activation come before it in the woven stack, which is innermost first.
    void place(std::vector<Placed>& stack) const {
        stack.clear();
        Address activation = 0;
        for (auto frame = woven_.frames.rbegin(); frame != woven_.frames.rend(); ++frame) {
            if (frame->kind == WovenFrame::Kind::kPython) {
                const PythonFrame& python = python_stack_.frames[frame->index];
                stack.push_back({python.code, python.incomplete, python.instruction, activation});
            } else if (frame->proof == Proof::kProven) {
                activation = native_.frames[frame->index].cfa;
            }
        }
    }

    pid_t pid_;
    ProcessMemory memory_;
    CodeMap& code_;
    std::uint32_t next_code_ = 1;
    PythonTarget python_;
    PythonThread thread_;
    Weaver weaver_;
    PythonStack python_stack_;
    NativeStack native_;
    StackCopy words_;
    WovenStack woven_;
    std::vector<std::string> names_;
};

// Whether one instruction can have made the one of the other, while `innermost` ran; a few, if some are not known between them.
bool may_follow(const std::vector<Placed>& before, const std::vector<Placed>& after, const NativeFrame& innermost,
                bool adjacent) {
    const auto differing = std::ranges::mismatch(before, after, &Placed::is_same);
    const auto ended = before.end() - differing.in1;
    const auto begun = after.end() - differing.in2;
    if (ended + begun == 0) {
        return true;
    }
    const Address activation = ended != 0 ? differing.in1->activation : differing.in2->activation;
    return ended + begun == 1 && (!adjacent || activation == innermost.cfa);
}

}  // namespace

int main(int count, char** words) {
    if (count != 4) {
        return 2;
    }
    ToldProcess told = read_told_process(words[2]);
    const auto pid = static_cast<pid_t>(std::strtol(words[1], nullptr, 10));
    Stepped stepped(pid, told);
    if (!stepped.stop()) {
        return 3;
    }
    const std::uint64_t steps = std::strtoull(words[3], nullptr, 10);
    std::vector<Placed> before;
    std::vector<Placed> stack;
    std::uint64_t whole = 0;
    std::uint64_t changes = 0;
    std::uint64_t unproven = 0;  // since the last one that was whole
    for (std::uint64_t i = 0; i < steps; ++i) {
        if (!stepped.step()) {
            return 4;
        }
        if (!stepped.look(stack)) {
            ++unproven;
            continue;
        }
        ++whole;
        if (whole > 1 && !may_follow(before, stack, stepped.innermost(), unproven == 0)) {
            std::cout << "after " << unproven << " unproven, at " << std::hex << stepped.innermost().pc << " in "
                      << stepped.innermost().cfa << std::dec << ":\n " << stepped.shown(before) << "\n "
                      << stepped.shown(stack) << '\n';
        }
        changes += std::ranges::equal(before, stack, &Placed::is_same) ? 0 : 1;
        before.swap(stack);
        unproven = 0;
    }
    ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
    std::cout << steps << " steps, " << whole << " whole, " << changes << " changes" << std::endl;
    return 0;
}
