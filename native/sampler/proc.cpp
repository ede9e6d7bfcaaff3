#include "sampler/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string_view>

namespace weft {

namespace {

constexpr std::size_t kSmallFile = 256;
constexpr std::size_t kStatFile = 1024;
constexpr std::size_t kStackFile = 8192;
constexpr int kFlagsField = 9;
constexpr unsigned kKernelTask = 0x00200000;  // PF_KTHREAD (include/linux/sched.h)
constexpr int kFaultsField = 10;              // minor ones; those of children; major ones
constexpr int kStartCodeField = 26;           // then the code's end, and the stack's begin
constexpr int kStackPointerField = 29;
constexpr int kProcessorField = 39;

Descriptor open_file(const std::string& path) { return Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)); }

std::string task_path(pid_t pid, pid_t tid, const char* name) {
    return "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/" + name;
}

std::string read_file(const std::string& path) {
    const Descriptor file = open_file(path);
    std::string text;
    std::array<char, 4096> buffer;
    while (file.valid()) {
        const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
        if (got <= 0) {
            break;
        }
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return text;
}

// The next number of `text` in `base`, which may be led by spaces and 0x; what was read is taken off the text.
template <typename T>
bool next_number(std::string_view& text, T& value, int base = 10) {
    const std::size_t begin = text.find_first_not_of(" \t");
    text.remove_prefix(begin == std::string_view::npos ? text.size() : begin);
    if (base == 16 && text.starts_with("0x")) {
        text.remove_prefix(2);
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc{}) {
        return false;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

std::string_view status_field(std::string_view status, std::string_view key) {
    const std::size_t begin = status.find(key);
    if (begin == std::string_view::npos) {
        return {};
    }
    status.remove_prefix(begin + key.size());
    return status.substr(0, status.find('\n'));
}

// proc(5), /proc/PID/stat, from a field on. The second one is the name, in parentheses, and may hold anything.
std::string_view stat_fields(std::string_view stat, int first) {
    std::size_t at = stat.rfind(')');
    for (int field = 2; field < first && at != std::string_view::npos; ++field) {
        at = stat.find(' ', at + 1);
    }
    stat.remove_prefix(std::min(at, stat.size()));
    return stat;
}

std::vector<pid_t> numbers_in(const std::string& folder) {
    std::vector<pid_t> numbers;
    DIR* directory = opendir(folder.c_str());
    if (directory == nullptr) {
        return numbers;
    }
    while (const dirent* entry = readdir(directory)) {
        std::string_view name(entry->d_name);
        pid_t number = 0;
        if (next_number(name, number)) {
            numbers.push_back(number);
        }
    }
    closedir(directory);
    return numbers;
}

}  // namespace

TaskFile::TaskFile(pid_t pid, pid_t tid, const char* name) : path_(task_path(pid, tid, name)), file_(open_file(path_)) {
    if (file_.valid() ? is_among_first(file_, 2) : errno != EMFILE) {
        path_.clear();
    } else {
        file_ = Descriptor();
    }
}

ssize_t TaskFile::read(std::span<char> buffer) const {
    const auto read_from = [&](const Descriptor& file) {
        const ssize_t got = pread(file.get(), buffer.data(), buffer.size(), 0);
        return got < 0 ? -errno : got;
    };
    if (path_.empty()) {
        return read_from(file_);
    }
    const Descriptor file = open_file(path_);
    if (!file.valid()) {
        return errno == ENOENT ? -ESRCH : -errno;
    }
    return read_from(file);
}

ThreadFiles::ThreadFiles(pid_t pid, pid_t tid)
    : schedstat_(pid, tid, "schedstat"),
      syscall_(pid, tid, "syscall"),
      stat_(pid, tid, "stat"),
      stack_(pid, tid, "stack") {}

bool ThreadFiles::read(SchedStat& stat) const {
    std::array<char, kSmallFile> buffer;
    const ssize_t got = schedstat_.read(buffer);
    if (got <= 0) {
        return false;
    }
    std::string_view text(buffer.data(), static_cast<std::size_t>(got));
    return next_number(text, stat.cpu_ns) && next_number(text, stat.delay_ns) && next_number(text, stat.switches);
}

ThreadActivity ThreadFiles::activity() const {
    ThreadActivity activity;
    std::array<char, kSmallFile> buffer;
    const ssize_t got = syscall_.read(buffer);
    if (got <= 0) {
        // A thread that has ended reads as ESRCH, or as nothing.
        activity.kind = got < 0 && got != -ESRCH ? ThreadActivity::Kind::kUnknown : ThreadActivity::Kind::kGone;
        return activity;
    }
    std::string_view text(buffer.data(), static_cast<std::size_t>(got));
    if (text.starts_with("running")) {
        activity.kind = ThreadActivity::Kind::kRunning;
        return activity;
    }
    if (!next_number(text, activity.syscall)) {
        return activity;
    }
    activity.kind = ThreadActivity::Kind::kBlocked;
    // "nr arg0 ... arg5 sp pc", or "-1 sp pc" outside of a system call.
    std::array<Address, 8> numbers{};
    const std::size_t count = activity.syscall >= 0 ? numbers.size() : 2;
    for (std::size_t i = 0; i < count; ++i) {
        if (!next_number(text, numbers[i], 16)) {
            return activity;
        }
    }
    activity.first_argument = activity.syscall >= 0 ? numbers[0] : 0;
    activity.second_argument = activity.syscall >= 0 ? numbers[1] : 0;
    activity.stack_pointer = numbers[count - 2];
    activity.pc = numbers[count - 1];
    return activity;
}

std::optional<std::uint64_t> ThreadFiles::faults() const {
    std::array<char, kStatFile> buffer;
    const ssize_t got = stat_.read(buffer);
    if (got <= 0) {
        return std::nullopt;
    }
    std::string_view text = stat_fields({buffer.data(), static_cast<std::size_t>(got)}, kFaultsField);
    std::uint64_t minor = 0;
    std::uint64_t of_children = 0;
    std::uint64_t major = 0;
    const bool told = next_number(text, minor) && next_number(text, of_children) && next_number(text, major);
    return told ? std::optional(minor + major) : std::nullopt;
}

int ThreadFiles::cpu() const {
    std::array<char, kStatFile> buffer;
    const ssize_t got = stat_.read(buffer);
    if (got <= 0) {
        return -1;
    }
    std::string_view text = stat_fields({buffer.data(), static_cast<std::size_t>(got)}, kProcessorField);
    int cpu = -1;
    return next_number(text, cpu) ? cpu : -1;
}

bool ThreadFiles::read_kernel_stack(std::vector<std::string>& functions) const {
    functions.clear();
    std::array<char, kStackFile> buffer;
    const ssize_t got = stack_.read(buffer);
    if (got < 0) {
        return false;
    }
    // Lines as "[<0>] vfs_read+0xbb/0x360" and "[<0>] ext4_read+0xbb/0x360 [ext4]".
    std::string_view text(buffer.data(), static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
        const std::string_view line = text.substr(0, end);
        const std::string_view place = line.substr(std::min(line.size(), line.find("] ") + 2));
        std::string& function = functions.emplace_back(place.substr(0, place.find_first_of("+ ")));
        if (const std::size_t module = place.find(" ["); module != std::string_view::npos) {
            function += place.substr(module);
        }
    }
    return true;
}

std::string read_image(pid_t pid) {
    const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    const std::string_view text = stat_fields(stat, kStartCodeField);
    // Until the new program is mapped, and when the process has let go of its memory (fs/proc/array.c, do_task_stat).
    if (text.starts_with(" 0 ")) {
        return {};
    }
    return std::string(text.substr(0, text.size() - stat_fields(stat, kStackPointerField).size()));
}

std::vector<pid_t> list_processes() { return numbers_in("/proc"); }

std::vector<pid_t> list_threads(pid_t pid) { return numbers_in("/proc/" + std::to_string(pid) + "/task"); }

std::vector<pid_t> list_children(pid_t pid) {
    std::vector<pid_t> children;
    for (const pid_t tid : list_threads(pid)) {
        const std::string text = read_file(task_path(pid, tid, "children"));
        std::string_view rest(text);
        for (pid_t child = 0; next_number(rest, child);) {
            children.push_back(child);
        }
    }
    return children;
}

bool is_kernel_task(pid_t pid) {
    const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    std::string_view text = stat_fields(stat, kFlagsField);
    unsigned flags = 0;
    return next_number(text, flags) && (flags & kKernelTask) != 0;
}

std::string read_thread_name(pid_t pid, pid_t tid) {
    std::string name = read_file(task_path(pid, tid, "comm"));
    if (!name.empty() && name.back() == '\n') {
        name.pop_back();
    }
    return name;
}

std::optional<uid_t> read_user(pid_t pid) {
    const std::string status = read_file("/proc/" + std::to_string(pid) + "/status");
    std::string_view field = status_field(status, "\nUid:");  // real, effective, saved, of file systems
    uid_t user = 0;
    return next_number(field, user) && next_number(field, user) ? std::optional(user) : std::nullopt;
}

std::vector<std::string> read_cgroups(pid_t pid) {
    // cgroups(7): "number:controllers:path".
    const std::string text = read_file("/proc/" + std::to_string(pid) + "/cgroup");
    std::vector<std::string> cgroups;
    std::string_view rest(text);
    for (std::size_t end = 0; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
        const std::string_view line = rest.substr(0, end);
        const std::size_t second = line.find(':', line.find(':') + 1);
        if (second != std::string_view::npos) {
            cgroups.emplace_back(line.substr(second + 1));
        }
    }
    return cgroups;
}

ThreadStatus read_thread_status(pid_t tid) {
    ThreadStatus told;
    // /proc/TID is there for every thread, though it is not listed.
    const std::string status = read_file("/proc/" + std::to_string(tid) + "/status");
    std::string_view field = status_field(status, "\nTgid:");
    static_cast<void>(next_number(field, told.process));
    field = status_field(status, "\nPPid:");
    static_cast<void>(next_number(field, told.parent));
    told.ended = status_field(status, "\nState:\t").starts_with('Z');
    field = status_field(status, "\nTracerPid:");
    static_cast<void>(next_number(field, told.tracer));
    // NSpid: one number a namespace, the innermost last (kernel 4.1).
    field = status_field(status, "\nNSpid:");
    while (next_number(field, told.inner_tid)) {
    }
    if (told.inner_tid == 0) {
        told.inner_tid = tid;
    }
    return told;
}

std::uint64_t read_clock(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

std::uint64_t monotonic_ns() { return read_clock(CLOCK_MONOTONIC); }
std::uint64_t own_cpu_ns() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

std::uint64_t own_switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return static_cast<std::uint64_t>(usage.ru_nvcsw) + static_cast<std::uint64_t>(usage.ru_nivcsw);
}

}  // namespace weft
