// The clocks of collector bpf: on each CPU several slow ones, which tick together at the rate that was asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace weft {

class KernelClocks {
   public:
    using SetPeriod = std::function<void(int event, std::uint64_t period_ns)>;  // it begins with the call

    // Perf events by their CPU, none where it is offline; they are not ours. The first of each CPU's ticks at the whole rate, until
    // draw() finds the others at work.
    explicit KernelClocks(const std::vector<std::vector<int>>& events, SetPeriod set_period = by_ioctl);

    // A sample was taken at a tick on this CPU.
    void note_tick(std::uint32_t cpu);

    // Gives a clock of each CPU that has ticked, and has kept its clocks for some times `period_ns`, another period, so that those of a
    // CPU tick once in `period_ns` in the mean. `factor` draws what its rate is to be of its fellows' mean: from 0 to 2, 1 in
    // the mean.
    void draw(std::uint64_t now_ns, std::uint64_t period_ns, const std::function<double()>& factor);

   private:
    struct Clock {
        int event;
        std::uint64_t since_ns;  // when it got its period; 0: long ago
    };
    struct Cpu {
        std::vector<Clock> clocks;
        std::size_t next = 0;        // the one that is drawn next
        double factor = 1;           // of the one that was drawn last
        bool is_starting = true;     // the first clock still ticks at the whole rate
        bool has_ticked = false;     // and a sample was taken, since the last drawing
        std::uint64_t drawn_ns = 0;  // when that was
    };
    static void by_ioctl(int event, std::uint64_t period_ns);
    void draw_next(Cpu& cpu, std::uint64_t now_ns, std::uint64_t period_ns);

    SetPeriod set_period_;
    std::vector<Cpu> cpus_;
    std::uint64_t began_ns_ = 0;  // with the first call of draw()
};

}  // namespace weft
