#include "sampler/stopped.h"

#include <sys/ptrace.h>

#include <utility>

namespace weft {

namespace {

constexpr std::chrono::microseconds kLook{20};  // between two looks at a thread that does not stop at once

// Unlike the sampler, follows nothing: what the thread starts before it stops is none of our business.
tracer::Result seize_alone(pid_t tid) {
    if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0) {
        return tracer::Result::kOk;
    }
    return errno == ESRCH ? tracer::Result::kGone : tracer::Result::kDenied;
}

// Waits until it stops, for whatever reason. False: it does not in time.
bool wait_for_stop(pid_t tid, std::chrono::nanoseconds timeout, tracer::Stop& stop) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!tracer::next_stop_of(tid, stop)) {
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
        std::this_thread::sleep_for(kLook);
    }
    return true;
}

}  // namespace

StoppedThread::StoppedThread(pid_t tid, std::chrono::nanoseconds timeout) {
    std::promise<Stop> stopped;
    std::future<Stop> stop = stopped.get_future();
    tracer_ = std::thread(&StoppedThread::hold, tid, timeout, std::move(stopped), release_.get_future());
    stop_ = stop.get();
}

StoppedThread::~StoppedThread() { release(); }

void StoppedThread::release() {
    if (tracer_.joinable()) {
        release_.set_value();
        tracer_.join();
    }
}

void StoppedThread::hold(pid_t tid, std::chrono::nanoseconds timeout, std::promise<Stop> stopped,
                         std::future<void> released) {
    const tracer::Result seized = seize_alone(tid);
    if (seized != tracer::Result::kOk) {
        stopped.set_value({seized == tracer::Result::kGone ? Result::kGone : Result::kDenied, 0, {}});
        return;
    }
    tracer::Stop stop;
    if (tracer::interrupt(tid) != tracer::Result::kOk) {
        stopped.set_value({Result::kGone, 0, {}});
        return;
    }
    if (!wait_for_stop(tid, timeout, stop)) {
        stopped.set_value({Result::kTimedOut, 0, {}});
        return;
    }
    tracer::Registers registers;
    if (stop.kind == tracer::Stop::Kind::kEnd || !tracer::registers(tid, registers)) {
        stopped.set_value({Result::kGone, 0, {}});
        return;
    }
    if (registers.interrupted_syscall) {
        tracer::restart_syscall(tid);
    }
    stopped.set_value({Result::kStopped, registers.thread_pointer, registers.all});
    released.wait();
    // A signal that stopped it is delivered now (ptrace(2), PTRACE_DETACH).
    // NOLINTNEXTLINE(performance-no-int-to-ptr): ptrace takes numbers as pointers
    ptrace(PTRACE_DETACH, tid, nullptr, reinterpret_cast<void*>(static_cast<std::uintptr_t>(stop.signal)));
}

}  // namespace weft
