// Numbers of processes and threads, as they are in weft's PID namespace: those that /proc and the sideband tell there.
#pragma once

#include "sample.h"

enum {
    FIRST_NAMESPACE = 0xeffffffc,  // the machine's own (include/uapi/linux/nsfs.h, PID_NS_INIT_INO)
    MOST_NAMESPACES = 33,          // that a process is in (include/linux/pid_namespace.h, MAX_PID_NS_LEVEL)
};

// The PID namespace that weft is in, if it is not the machine's own; else 0.
INLINE uint32_t own_namespace(void) {
    const uint32_t zero = 0;
    const uint32_t* own = map_lookup(&name_space, &zero);
    return own && *own != FIRST_NAMESPACE ? *own : 0;
}

// The number in a namespace that the struct pid at an address tells; 0: it is not in that one.
GLOBAL uint32_t number_at(uint32_t name_space, uint64_t address) {
    uint32_t level = 0;
    const struct pid* pid = (const struct pid*)address;
    if (!address || read_kernel(&level, sizeof level, &pid->level)) {
        return 0;
    }
    for (uint32_t i = 0; i < MOST_NAMESPACES && i <= level; ++i) {
        struct upid number = {};
        uint32_t id = 0;
        const uint64_t first = (uint64_t)&pid->numbers[0];
        read_kernel(&number, sizeof number, (const void*)(first + (uint64_t)i * sizeof number));
        read_kernel(&id, sizeof id, &number.ns->ns.inum);
        if (id == name_space) {
            return number.nr;
        }
    }
    return 0;
}

// The number of a task in a namespace; 0: it is not in that one.
INLINE uint32_t number_within(uint32_t name_space, uint64_t task) {
    uint64_t pid = 0;
    read_kernel(&pid, sizeof pid, &((const struct task_struct*)task)->thread_pid);
    return number_at(name_space, pid);
}

// As of bpf_get_current_pid_tgid().
INLINE uint64_t current_ids(void) {
    const uint32_t own = own_namespace();
    if (!own) {
        return current_pid_tgid();
    }
    const uint64_t task = (uint64_t)current_task();
    uint64_t first = 0;
    read_kernel(&first, sizeof first, &((const struct task_struct*)task)->group_leader);
    return (uint64_t)number_within(own, first) << 32 | number_within(own, task);
}

INLINE uint32_t tid_of(uint64_t task) {
    const uint32_t own = own_namespace();
    if (own) {
        return number_within(own, task);
    }
    int tid = 0;
    read_kernel(&tid, sizeof tid, &((const struct task_struct*)task)->pid);
    return tid;
}

// The process whose child the current one is; 0: it is not known here.
INLINE uint32_t pid_of_parent(void) {
    uint64_t parent = 0;
    uint64_t first = 0;
    read_kernel(&parent, sizeof parent, &current_task()->real_parent);
    return parent && !read_kernel(&first, sizeof first, &((const struct task_struct*)parent)->group_leader)
               ? tid_of(first)
               : 0;
}
