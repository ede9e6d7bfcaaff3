// Threads that leave their CPU and come back to one: in which stack, and for how long. Of each thread all time is added up, to the
// nanosecond, whether its stack was taken or not.
#pragma once

#include "ids.h"

enum {
    STRETCH = 26,        // 2 to this power of nanoseconds: 67 ms
    OFTEN = 64,          // switches of a thread in a stretch. Beyond it, stacks are taken of
    SOME = 16,           // so many of them
    OFTEN_ON_CPU = 128,  // the same, of all threads on a CPU
    SOME_ON_CPU = 32,
    LONG_STAY = 1000000,  // ns; of such a stay, its end is told in any case
    TASK_IS_DEAD = 0x80,  // TASK_DEAD (include/linux/sched.h)
};

// How often it happens, this time included: in this stretch, or in the one before if that was more.
INLINE uint32_t rate_of(struct weft_rate* rate, uint64_t now_ns) {
    const uint32_t stretch = now_ns >> STRETCH;
    if (rate->stretch != stretch) {
        rate->before = rate->stretch + 1 == stretch ? rate->now : 0;
        rate->stretch = stretch;
        rate->now = 0;
    }
    rate->now++;
    return rate->now > rate->before ? rate->now : rate->before;
}

// Of how many switches one is to have its stack taken. It depends on what has been, and not on what this stay will be: so those that
// are taken, by chance, stand for the others.
INLINE uint32_t one_in(struct weft_thread* thread, uint64_t now_ns) {
    const uint32_t cpu = cpu_number();
    struct weft_rate* on_cpu = map_lookup(&rates, &cpu);
    const uint32_t of_thread = rate_of(&thread->rate, now_ns);
    const uint32_t of_cpu = on_cpu ? rate_of(on_cpu, now_ns) : 0;
    const uint32_t for_thread = of_thread > OFTEN ? of_thread / SOME : 1;
    const uint32_t for_cpu = of_cpu > OFTEN_ON_CPU ? of_cpu / SOME_ON_CPU : 1;
    return for_thread > for_cpu ? for_thread : for_cpu;
}

// A thread that was not known yet. If it is no older than what is known of its process, and came to a CPU once, it has been there since.
NOT_INLINE struct weft_thread* new_thread(const struct weft_process* process, uint32_t tid, uint64_t now_ns) {
    struct task_struct* task = current_task();
    struct weft_thread fresh = {};
    const uint64_t start_ns = task->start_time;
    const uint64_t delay_ns = task->sched_info.run_delay;
    fresh.times.began_ns = now_ns;
    fresh.cpu_ns = task->se.sum_exec_runtime;
    const uint64_t arrivals = task->sched_info.pcount;
    if (start_ns > process->told_ns && arrivals == 1 && start_ns + delay_ns < now_ns) {
        fresh.cpu_ns = 0;
        fresh.times.began_ns = start_ns;
        fresh.times.ready_ns = delay_ns;
    }
    fresh.since_ns = fresh.times.began_ns + fresh.times.ready_ns;
    fresh.place = WEFT_ON_CPU;
    map_update(&threads, &tid, &fresh, MAP_NO_EXIST);
    return map_lookup(&threads, &tid);
}

INLINE struct weft_thread* thread_at(const struct weft_process* process, uint32_t tid, uint64_t now_ns) {
    struct weft_thread* thread = map_lookup(&threads, &tid);
    return thread ? thread : new_thread(process, tid, now_ns);
}

// The time of an event that is `now_ns` by the clock, which was asked before the thread's account was: user mode, which finds the
// thread at that moment, can have begun the account in between.
INLINE uint64_t not_before(const struct weft_thread* thread, uint64_t now_ns) {
    return now_ns > thread->since_ns ? now_ns : thread->since_ns;
}

// Nonzero: the ring has no room for it.
INLINE long tell_times(const struct weft_thread* thread, uint32_t record, uint32_t pid, uint32_t tid, uint64_t left_ns,
                       uint64_t woken_ns) {
    struct weft_return told = {};
    told.record = record;
    told.pid = pid;
    told.tid = tid;
    told.every = thread->every;
    told.left_ns = left_ns;
    told.woken_ns = woken_ns;
    told.time_ns = thread->since_ns;
    told.times = thread->times;
    const long failed = tell(&told, sizeof told);
    if (failed) {
        count_lost();
    }
    return failed;
}

// When it left the place where it was last seen (a CPU, or off it) for the other one, by the CPU time that it has used since.
INLINE uint64_t untold_switch_ns(const struct weft_thread* thread, uint64_t ran_ns, uint64_t now_ns) {
    const uint64_t past_ns = now_ns - thread->since_ns;
    const uint64_t known_ns = ran_ns < past_ns ? ran_ns : past_ns;
    return thread->place == WEFT_ON_CPU ? thread->since_ns + known_ns : now_ns - known_ns;
}

INLINE void end_run(struct weft_thread* thread, uint64_t now_ns, uint32_t place, uint32_t why) {
    thread->times.ran_ns += now_ns - thread->since_ns;
    thread->since_ns = now_ns;
    thread->place = place;
    thread->why = why;
    thread->every = 0;
    thread->missed = 0;
}

INLINE void lose_stay(struct weft_thread* thread, uint64_t ns) {
    thread->times.lost_ns += ns;
    thread->times.lost++;
}

INLINE void end_stay(struct weft_thread* thread, uint32_t tid, uint64_t now_ns) {
    const uint64_t left_ns = thread->since_ns;
    uint64_t woken_ns = left_ns;
    // If it was woken before it had left, it has only waited for a CPU; if it was blocked and its waking was not told, it was
    // blocked throughout.
    if (thread->why || thread->place == WEFT_SOMEWHERE) {
        woken_ns = !thread->woken_ns && thread->why ? now_ns : thread->woken_ns;
        woken_ns = woken_ns < left_ns ? left_ns : woken_ns > now_ns ? now_ns : woken_ns;
    }
    const struct weft_times before = thread->times;
    if (thread->missed) {
        lose_stay(thread, now_ns - left_ns);
    } else {
        thread->times.blocked_ns += woken_ns - left_ns;
        thread->times.ready_ns += now_ns - woken_ns;
        thread->times.untold += !thread->every && thread->place == WEFT_OFF_CPU;
    }
    thread->since_ns = now_ns;
    thread->woken_ns = 0;
    thread->place = WEFT_ON_CPU;
    if ((thread->every || now_ns - left_ns > LONG_STAY) && tell_times(thread, WEFT_IN, 0, tid, left_ns, woken_ns) &&
        !thread->missed) {
        // Who is told of the next stay only would give this one's time to that one's stack.
        thread->times = before;
        lose_stay(thread, now_ns - left_ns);
    }
}

// The thread is seen on a CPU: if it was away, it has come back untold. Kernels may have failed to tell of a switch: a guest with Linux 6.18 often told nothing of a CPU that ceases to be
// idle, not to its own tracer (tracefs) either.
INLINE void notice_return(struct weft_thread* thread, uint32_t tid, uint64_t now_ns) {
    if (thread->place != WEFT_ON_CPU) {
        const struct task_struct* task = current_task();
        end_stay(thread, tid, untold_switch_ns(thread, task->se.sum_exec_runtime - thread->cpu_ns, now_ns));
    }
}

// The running thread leaves its CPU, blocked in the state `why`. Returns it, but not one that has ended; weft_thread.every is set.
INLINE struct weft_thread* leave(const struct weft_process* process, uint64_t now_ns, uint32_t tid, uint32_t why) {
    struct weft_thread* thread = thread_at(process, tid, now_ns);
    if (!thread) {
        count_lost();
        return 0;
    }
    now_ns = not_before(thread, now_ns);
    notice_return(thread, tid, now_ns);
    end_run(thread, now_ns, WEFT_OFF_CPU, why);
    const struct task_struct* task = current_task();
    thread->cpu_ns = task->se.sum_exec_runtime;
    if (why & TASK_IS_DEAD) {
        tell_times(thread, WEFT_END, current_ids() >> 32, tid, now_ns, now_ns);
        map_delete(&threads, &tid);
        return 0;
    }
    const uint32_t every = one_in(thread, now_ns);
    if (every == 1 || random_number() < 0xffffffffu / every) {
        thread->every = every;
    }
    return thread;
}

INLINE void come_back(struct weft_thread* thread, uint32_t tid, uint64_t task, uint64_t now_ns) {
    now_ns = not_before(thread, now_ns);
    if (thread->place == WEFT_ON_CPU) {  // it has left, untold
        uint64_t cpu_ns = thread->cpu_ns;
        read_kernel(&cpu_ns, sizeof cpu_ns, &((const struct task_struct*)task)->se.sum_exec_runtime);
        end_run(thread, untold_switch_ns(thread, cpu_ns - thread->cpu_ns, now_ns), WEFT_SOMEWHERE, 0);
        thread->cpu_ns = cpu_ns;
    }
    end_stay(thread, tid, now_ns);
}

// The arguments of a tracepoint, as bpf_raw_tracepoint_args has them (include/uapi/linux/bpf.h).
struct arguments {
    uint64_t values[4];
};
