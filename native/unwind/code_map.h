// Where the code of a process lies, and how its functions are unwound.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "memory/memory.h"
#include "unwind/table.h"

namespace weft {

class CodeMap {
   public:
    struct Place {
        std::uint32_t module = 0;            // whose code it is, in the numbers of whoever made the map; 0: nobody's
        std::uint64_t address = 0;           // in the module
        const UnwindTable* table = nullptr;  // null: not there yet
        const UnwindRule* rule = nullptr;    // that holds there; null without a table
        bool eval_loop = false;              // it is the interpreter's eval loop, as far as its symbols tell
        bool stack_base = false;             // its frame is a stack's outermost, though others may lie behind it
        bool anonymous = false;              // it is in no file: a JIT compiler has made it
    };

    // `bias`: what is added to the module's own addresses. A later mapping replaces what it covers of earlier ones.
    void add(Address begin, Address end, Address bias, std::uint32_t module, std::shared_ptr<const UnwindTable> table,
             bool anonymous = false);

    void add_eval_loop(Address begin, Address end);
    void add_stack_base(Address begin, Address end);

    struct Mapped {
        Address begin = 0;
        Address end = 0;
        Address bias = 0;
        std::shared_ptr<const UnwindTable> table;
    };
    std::vector<Mapped> mapped() const;  // code that has a table, by its begin; it does not overlap
    std::vector<std::pair<Address, Address>> eval_loops() const;  // [begin, end)

    // The place of an instruction. Not for two threads at once: what is found is remembered, since samples meet the same few
    // hundred places again and again, and the tables are in no cache by then.
    const Place& find(Address pc);

   private:
    struct Range {
        Address begin = 0;
        Address end = 0;
    };
    struct Mapping {
        Range range;
        Address bias = 0;
        std::uint32_t module = 0;
        std::shared_ptr<const UnwindTable> table;
        bool anonymous = false;
    };
    struct Remembered {
        Address pc = 0;
        Place place;
    };
    static constexpr unsigned kRememberedBits = 10;

    Place search(Address pc) const;

    std::vector<Mapping> mappings_;  // by their begin; they do not overlap
    std::vector<Range> eval_loops_;
    std::vector<Range> stack_bases_;
    std::vector<Remembered> remembered_;  // by a hash of the pc
};

}  // namespace weft
