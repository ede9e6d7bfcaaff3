// What weft knows of a process, told to a program of the tests in a file (tests/told_process.py) of lines of words:
//   layout NAME NUMBER, address NAME NUMBER            as in tests/fuzz/snapshots.py
//   code BEGIN END BIAS MODULE ANONYMOUS TABLE         TABLE: a file of UnwindTable.save(), or - for none
//   eval_loop BEGIN END, stack_base BEGIN END
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "python/layout.h"
#include "python/runtime.h"
#include "sampler/target.h"
#include "unwind/code_map.h"
#include "unwind/table.h"

namespace weft {

struct ToldProcess {
    PythonPlace place;
    CodeMap code;
};

inline std::shared_ptr<const UnwindTable> load_table(const std::string& path) {
    static std::map<std::string, std::shared_ptr<const UnwindTable>> loaded;
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    auto& table = loaded[path];
    if (table == nullptr) {
        table = std::make_shared<const UnwindTable>(UnwindTable::load(bytes).value());
    }
    return table;
}

inline ToldProcess read_told_process(const char* path) {
    ToldProcess told;
    std::map<std::string, std::uint32_t*> fields;
#define WEFT_FIELD(name) fields[#name] = &told.place.layout.name;
    WEFT_LAYOUT_FIELDS(WEFT_FIELD)
#undef WEFT_FIELD
    RuntimeAddresses& roots = told.place.addresses;
    std::map<std::string, std::uint64_t*> addresses = {{"interpreters_head", &roots.interpreters_head},
                                                       {"current_thread", &roots.current_thread},
                                                       {"gil", &roots.gil}};
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string kind;
        std::string name;
        Address begin = 0;
        Address end = 0;
        words >> kind;
        if (kind == "layout") {
            words >> name;
            words >> *fields.at(name);
        } else if (kind == "address") {
            words >> name;
            name == "current_state" ? words >> roots.current_state : words >> *addresses.at(name);
        } else if (kind == "code") {
            Address bias = 0;
            std::uint32_t module = 0;
            bool anonymous = false;
            words >> begin >> end >> bias >> module >> anonymous >> name;
            told.code.add(begin, end, bias, module, name == "-" ? nullptr : load_table(name), anonymous);
        } else if (kind == "eval_loop") {
            words >> begin >> end;
            told.code.add_eval_loop(begin, end);
        } else {
            words >> begin >> end;
            told.code.add_stack_base(begin, end);
        }
    }
    return told;
}

}  // namespace weft
