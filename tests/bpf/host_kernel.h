// The kernel's part of collector bpf on the host, as the C++ side sees it: its maps, and the samples that it takes.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host.h"
#include "memory/memory.h"
#include "sampler/kernel_process.h"
#include "unwind/kernel_table.h"

namespace weft {

class HostKernel {
   public:
    explicit HostKernel(bool native)
        : pages_(WEFT_PAGES), rows_(std::size_t{WEFT_HOST_ROWS} + WEFT_OVERLAP), rules_(WEFT_RULES) {
        host_.read = [](void* self, std::uint64_t address, void* to, std::uint32_t size) {
            return static_cast<HostKernel*>(self)->memory_->read(address, to, size) == ReadResult::kOk ? 0 : -1;
        };
        host_.table = [](void* self, std::uint32_t number) -> weft_table* {
            auto& tables = static_cast<HostKernel*>(self)->tables_;
            const auto found = tables.find(number);
            return found == tables.end() ? nullptr : &found->second;
        };
        host_.self = this;
        host_.native = native ? 1 : 0;
        host_.process = &process_;
        host_.pages = pages_.data();
        host_.rows = rows_.data();
        host_.rules = rules_.data();
    }
    HostKernel(const HostKernel&) = delete;
    HostKernel& operator=(const HostKernel&) = delete;

    // What it knows from now on; of what was loaded before, nothing is left.
    void tell(weft_process process, const CodeMap& code) {
        next_page_ = next_row_ = 0;
        next_rule_ = 1;
        tables_.clear();
        for (const CodeMap::Mapped& mapped : code.mapped()) {
            if (!tables_.contains(mapped.table->number())) {
                load(*mapped.table);
            }
        }
        process_ = process;
        if (++generation_ == 0) {
            weft_host_forget_rules();
            generation_ = 1;
        }
        process_.generation = generation_;
        host_.state = {};
    }

    // A tick that falls on a thread with these registers: its record.
    std::span<const std::byte> tick(Memory& memory, const RegisterSet& registers, Address thread_pointer,
                                    bool in_kernel = false) {
        memory_ = &memory;
        weft_host_thread thread{};
        std::ranges::copy(registers.values, thread.registers);
        thread.thread_pointer = thread_pointer;
        thread.in_kernel = in_kernel ? 1 : 0;
        const weft_sample* sample = weft_host_tick(&host_, &thread);
        if (sample == nullptr) {
            return {};
        }
        return {reinterpret_cast<const std::byte*>(sample), sizeof *sample + sample->bytes};
    }

   private:
    // As src/weft/collect/bpf/tables.py does.
    void load(const UnwindTable& table) {
        std::vector<std::uint32_t> pages = table.first_rows();
        const std::vector<std::uint32_t>& rows = table.all_rows();
        pages.push_back(static_cast<std::uint32_t>(rows.size()));
        if (next_page_ + pages.size() > pages_.size() || next_row_ + rows.size() > WEFT_HOST_ROWS ||
            next_rule_ + table.rules().size() > rules_.size()) {
            return;
        }
        std::ranges::copy(pages, pages_.begin() + next_page_);
        std::ranges::copy(rows, rows_.begin() + next_row_);
        std::ranges::transform(table.rules(), rules_.begin() + next_rule_, packed);
        tables_[table.number()] = {static_cast<std::uint32_t>(table.first_page()),
                                   static_cast<std::uint32_t>(pages.size() - 1),
                                   next_page_,
                                   next_row_,
                                   next_rule_,
                                   0};
        next_page_ += static_cast<std::uint32_t>(pages.size());
        next_row_ += static_cast<std::uint32_t>(rows.size());
        next_rule_ += static_cast<std::uint32_t>(table.rules().size());
    }

    weft_host host_{};
    weft_process process_{};
    std::vector<std::uint32_t> pages_;
    std::vector<std::uint32_t> rows_;
    std::vector<weft_rule> rules_;
    std::unordered_map<std::uint32_t, weft_table> tables_;
    std::uint32_t next_page_ = 0;
    std::uint32_t next_row_ = 0;
    std::uint32_t next_rule_ = 1;
    std::uint16_t generation_ = 0;
    Memory* memory_ = nullptr;
};

}  // namespace weft
