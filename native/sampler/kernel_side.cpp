#include "sampler/kernel_side.h"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "sampler/proc.h"

namespace weft {

namespace {

template <typename Pointer>
std::uint64_t address_of(Pointer* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

bool change(int command, int map, const std::uint32_t& key, const void* value, std::uint64_t flags = BPF_ANY) {
    bpf_attr attributes{};
    attributes.flags = flags;
    attributes.map_fd = static_cast<std::uint32_t>(map);
    attributes.key = address_of(&key);
    attributes.value = address_of(value);
    return syscall(SYS_bpf, command, &attributes, sizeof attributes) == 0;
}

}  // namespace

// One that no process has. By it the kernel remembers rules of a process's code, which must not be taken for another's.
std::uint16_t KernelSide::next_generation() {
    do {
        if (++generation_ == 0) {
            const std::vector<std::byte> nothing(maps_.cache_bytes);
            for (std::uint32_t cpu = 0; cpu < maps_.cpus; ++cpu) {
                change(BPF_MAP_UPDATE_ELEM, maps_.caches, cpu, nothing.data());
            }
            generation_ = 1;
        }
    } while (std::ranges::any_of(generations_, [&](const auto& told) { return told.second == generation_; }));
    return generation_;
}

bool KernelSide::tell(pid_t pid, weft_process& process) {
    generations_.erase(pid);
    process.generation = generations_[pid] = next_generation();
    process.told_ns = others_since_ns_ != 0 ? others_since_ns_ : monotonic_ns();
    return change(BPF_MAP_UPDATE_ELEM, maps_.processes, static_cast<std::uint32_t>(pid), &process);
}

void KernelSide::sample_others(bool switches) {
    weft_process process{};
    process.sampled = 1;
    process.switches = switches ? 1 : 0;
    process.told_ns = others_since_ns_ = monotonic_ns();
    change(BPF_MAP_UPDATE_ELEM, maps_.others, 0, &process);
}

void KernelSide::follow_children() {
    weft_process process{};
    process.follows = 1;
    change(BPF_MAP_UPDATE_ELEM, maps_.others, 0, &process);
}

void KernelSide::ignore(pid_t pid) {
    forget(pid);
    const std::uint8_t value = 1;
    change(BPF_MAP_UPDATE_ELEM, maps_.ignored, static_cast<std::uint32_t>(pid), &value);
}

void KernelSide::forget(pid_t pid) {
    generations_.erase(pid);
    change(BPF_MAP_DELETE_ELEM, maps_.processes, static_cast<std::uint32_t>(pid), nullptr);
    change(BPF_MAP_DELETE_ELEM, maps_.ignored, static_cast<std::uint32_t>(pid), nullptr);
}

void KernelSide::remember_state(pid_t tid, Address state) {
    const weft_state known{state, 0};
    change(BPF_MAP_UPDATE_ELEM, maps_.states, static_cast<std::uint32_t>(tid), &known);
}

void KernelSide::tell_thread(pid_t tid, std::uint64_t now_ns, std::uint64_t cpu_ns) {
    weft_thread thread{};
    thread.times.began_ns = thread.since_ns = now_ns;
    thread.cpu_ns = cpu_ns;
    thread.place = WEFT_SOMEWHERE;
    change(BPF_MAP_UPDATE_ELEM, maps_.threads, static_cast<std::uint32_t>(tid), &thread, BPF_NOEXIST);
}

void KernelSide::forget_thread(pid_t tid) {
    change(BPF_MAP_DELETE_ELEM, maps_.threads, static_cast<std::uint32_t>(tid), nullptr);
}

std::optional<weft_thread> KernelSide::thread(pid_t tid) const {
    weft_thread thread{};
    const bool known = change(BPF_MAP_LOOKUP_ELEM, maps_.threads, static_cast<std::uint32_t>(tid), &thread);
    return known ? std::optional(thread) : std::nullopt;
}

}  // namespace weft
