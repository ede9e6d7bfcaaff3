#include "unwind/cfi.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

namespace weft {

namespace {

constexpr std::size_t kMaxRemembered =
    64;  // states on the stack of DW_CFA_remember_state; compilers nest them one deep
constexpr std::uint64_t kMaxFunction = 1ULL << 32;
// The rules that functions share run anew for each of them. Compilers write 5 bytes of these, and one such entry for each
// object file.
constexpr std::size_t kMaxShared = 256;
constexpr std::size_t kMaxCies = 1 << 18;
constexpr std::size_t kBytesPerFunction = 24;  // of .eh_frame, at least; libtorch has 72
constexpr std::size_t kMaxSection = 0xffffffff;
constexpr std::size_t kRan = 1 << 10;  // programs, whose rows are kept
constexpr std::size_t kMaxRan = 256;   // bytes of one

// Pointer encodings (Linux Standard Base 5.0, 10.5.1).
constexpr std::uint8_t kOmitted = 0xff;
constexpr std::uint8_t kIndirect = 0x80;

// DW_OP_ of the expressions that compilers and assemblers write into CFI.
enum Operation : std::uint8_t {
    kDeref = 0x06,
    kConst1u = 0x08,
    kAnd = 0x1a,
    kPlus = 0x22,
    kPlusUconst = 0x23,
    kShl = 0x24,
    kGe = 0x2a,
    kLit0 = 0x30,
    kLit31 = 0x4f,
    kBreg0 = 0x70,
    kBreg31 = 0x8f,
};

std::uint64_t read_pointer(Cursor& cursor, std::uint8_t encoding) {
    const std::uint64_t place = cursor.address();
    std::uint64_t value = 0;
    switch (encoding & 0x0f) {
        case 0x00:
        case 0x04:
        case 0x0c: value = cursor.fixed<std::uint64_t>(); break;
        case 0x01: value = cursor.uleb(); break;
        case 0x02: value = cursor.fixed<std::uint16_t>(); break;
        case 0x03: value = cursor.fixed<std::uint32_t>(); break;
        case 0x09: value = static_cast<std::uint64_t>(cursor.sleb()); break;
        case 0x0a: value = static_cast<std::uint64_t>(std::int64_t{cursor.fixed<std::int16_t>()}); break;
        case 0x0b: value = static_cast<std::uint64_t>(std::int64_t{cursor.fixed<std::int32_t>()}); break;
        default: cursor.fail();
    }
    switch (encoding & 0x70) {
        case 0x00: return value;
        case 0x10: return place + value;
        default: cursor.fail(); return 0;  // relative to text, data or function: not written for x86-64
    }
}

// One expression, as far as compilers write them: a sum of a register and numbers, with one memory read at most; and the
// linker's own for the lazy PLT.
struct Expression {
    bool known = false;
    bool deref = false;
    bool plt = false;
    Register base = Register::kRsp;
    std::int64_t offset = 0;
    std::int64_t addend = 0;  // after the read; of a PLT: the byte from which on 8 more are pushed
};

// rsp + 8 + ((rip & 15) >= n) << 3, as ld (elf_x86_64_lazy_plt_eh_frame) and lld write it.
bool read_plt(Cursor cursor, Expression& plt) {
    const auto next = [&](std::uint8_t operation) { return cursor.fixed<std::uint8_t>() == operation; };
    plt.base = Register::kRsp;
    if (!next(kBreg0 + 7)) {
        return false;
    }
    plt.offset = cursor.sleb();
    if (!next(kBreg0 + 16) || cursor.sleb() != 0 || !next(kLit0 + 15) || !next(kAnd)) {
        return false;
    }
    const auto literal = cursor.fixed<std::uint8_t>();
    plt.addend = literal - kLit0;
    return literal >= kLit0 && literal < kLit0 + 16 && next(kGe) && next(kLit0 + 3) && next(kShl) && next(kPlus) &&
           cursor.at_end() && !cursor.failed();
}

// Nonsense wraps around.
std::int64_t add(std::int64_t sum, std::uint64_t value) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + value);
}

Expression read_expression(Cursor cursor) {
    Expression read;
    if (read_plt(cursor, read)) {
        read.known = read.plt = true;
        return read;
    }
    read = {};
    const auto first = cursor.fixed<std::uint8_t>();
    if (first < kBreg0 || first > kBreg0 + 16) {
        return read;
    }
    read.base = static_cast<Register>(first - kBreg0);
    read.offset = cursor.sleb();
    while (!cursor.at_end()) {
        std::int64_t& sum = read.deref ? read.addend : read.offset;
        switch (const auto operation = cursor.fixed<std::uint8_t>()) {
            case kPlusUconst: sum = add(sum, cursor.uleb()); break;
            case kDeref:
                if (read.deref) {
                    return read;
                }
                read.deref = true;
                break;
            default:
                // A literal and the operation that adds it.
                if (operation < kLit0 || operation > kLit31 || cursor.fixed<std::uint8_t>() != kPlus) {
                    return read;
                }
                sum = add(sum, operation - kLit0);
        }
    }
    read.known = !cursor.failed();
    return read;
}

std::optional<std::int32_t> narrow(std::int64_t value) {
    const auto narrowed = static_cast<std::int32_t>(value);
    return narrowed == value ? std::optional(narrowed) : std::nullopt;
}

// The state of a CFA program (DWARF 5, 6.4.2).
struct State {
    enum class Cfa : std::uint8_t { kUnset, kRegister, kExpression };
    Cfa cfa = Cfa::kUnset;
    std::uint64_t cfa_register = 0;
    std::int64_t cfa_offset = 0;
    Expression cfa_expression;
    bool return_undefined = false;
    std::array<Saved, kRegisters> registers{};  // kSame also where nothing was said
    bool odd = false;                           // there was something that could not be understood
};

std::int32_t sum(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}

// longjmp and setcontext of glibc: the CFA is no stack pointer but the place where the registers are saved; the stack
// pointer is in a register, or saved there, too.
void move_cfa(UnwindRule& rule, const Saved& stack) {
    if (stack.where != Saved::Where::kInRegister && stack.where != Saved::Where::kAtCfa) {
        return;
    }
    const auto move = [&](Saved& saved) {
        if (saved.where == Saved::Where::kAtCfa) {
            saved = {Saved::Where::kAtRegister, rule.base, sum(rule.offset, saved.offset)};
        }
    };
    move(rule.return_address);
    std::ranges::for_each(rule.saved, move);
    if (stack.where == Saved::Where::kAtCfa) {
        rule.cfa = UnwindRule::Cfa::kDeref;
        rule.offset = sum(rule.offset, stack.offset);
    } else {
        rule.base = stack.base;
        rule.offset = 0;
    }
}

UnwindRule to_rule(const State& state, const Cie& cie, CfiLosses& losses) {
    UnwindRule rule;
    rule.signal = cie.signal;
    const bool by_register = state.cfa == State::Cfa::kRegister && state.cfa_register < kRegisters;
    const Expression& expression = state.cfa_expression;
    const std::optional<std::int32_t> offset = narrow(by_register ? state.cfa_offset : expression.offset);
    const std::optional<std::int32_t> addend = narrow(expression.addend);
    const Saved& return_address = state.registers[static_cast<std::size_t>(Register::kReturn)];
    if (state.return_undefined) {
        rule.cfa = UnwindRule::Cfa::kEnd;
        return rule;
    }
    if (state.odd || !offset || !addend || state.cfa == State::Cfa::kUnset || (!by_register && !expression.known) ||
        return_address.where == Saved::Where::kLost) {
        ++losses.expressions;
        return rule;
    }
    rule.base = by_register ? static_cast<Register>(state.cfa_register) : expression.base;
    rule.offset = *offset;
    if (by_register) {
        rule.cfa = UnwindRule::Cfa::kRegister;
    } else {
        rule.addend = *addend;
        rule.cfa = expression.plt     ? UnwindRule::Cfa::kPlt
                   : expression.deref ? UnwindRule::Cfa::kDeref
                                      : UnwindRule::Cfa::kRegister;
        if (rule.cfa == UnwindRule::Cfa::kRegister) {
            rule.addend = 0;
        }
    }
    // Said nowhere, it lies where the call instruction has put it.
    if (return_address.where != Saved::Where::kSame) {
        rule.return_address = return_address;
    }
    for (std::size_t i = 0; i < kPreserved.size(); ++i) {
        rule.saved[i] = state.registers[static_cast<std::size_t>(kPreserved[i])];
    }
    if (rule.cfa == UnwindRule::Cfa::kRegister) {
        move_cfa(rule, state.registers[static_cast<std::size_t>(Register::kRsp)]);
    }
    return rule;
}

class Program {
   public:
    Program(const Cie& cie, std::uint64_t begin, RuleTable& rules, std::vector<CfiRow>& rows, CfiLosses& losses)
        : cie_(cie), begin_(begin), address_(begin), rules_(rules), rows_(rows), losses_(losses) {}

    // Runs the CIE's part, then the function's own, and emits its rows.
    bool run(Cursor own) {
        State state;
        Cursor common = cie_.program;
        initial_ = state;
        run_part(common, state, false);
        initial_ = state;
        run_part(own, state, true);
        emit(state);
        return !common.failed() && !own.failed();
    }

    // Whether it says the same of a function elsewhere.
    bool is_relative() const { return is_relative_; }

   private:
    void emit(const State& state) {
        // A program that advances too far wraps around.
        if (const std::uint64_t offset = address_ - begin_; offset < kMaxFunction) {
            const std::uint32_t rule = rules_.intern(to_rule(state, cie_, losses_));
            rows_.push_back({static_cast<std::uint32_t>(offset), rule});
        }
    }

    void run_part(Cursor& code, State& state, bool emits) {
        while (!code.at_end() && !code.failed()) {
            const auto instruction = code.fixed<std::uint8_t>();
            const std::uint8_t low = instruction & 0x3f;
            switch (instruction >> 6) {
                case 1: advance(low, state, emits); break;
                case 2: at_cfa(state, low, cie_.scaled(code.uleb())); break;
                case 3: restore(state, low); break;
                default: run_extended(low, code, state, emits);
            }
        }
    }

    void advance(std::uint64_t delta, const State& state, bool emits) {
        if (emits && delta != 0) {
            emit(state);
        }
        address_ += delta * cie_.code_factor;
    }

    static void set(State& state, std::uint64_t number, const Saved& saved) {
        if (number < kRegisters) {
            state.registers[number] = saved;
        }
    }

    static void at_cfa(State& state, std::uint64_t number, std::int64_t offset) {
        if (const auto narrowed = narrow(offset)) {
            set(state, number, {Saved::Where::kAtCfa, Register::kRsp, *narrowed});
        } else {
            state.odd = true;
        }
    }

    void restore(State& state, std::uint64_t number) const {
        if (number < kRegisters) {
            state.registers[number] = initial_.registers[number];
        }
    }

    void undefined(State& state, std::uint64_t number) const {
        state.return_undefined = state.return_undefined || number == cie_.return_register;
        set(state, number, {Saved::Where::kLost, Register::kRsp, 0});
    }

    static void at_expression(State& state, std::uint64_t number, const Expression& expression) {
        const auto offset = narrow(expression.offset);
        const bool known = expression.known && !expression.deref && !expression.plt && offset;
        set(state, number,
            known ? Saved{Saved::Where::kAtRegister, expression.base, *offset}
                  : Saved{Saved::Where::kLost, Register::kRsp, 0});
    }

    static void define_cfa(State& state, std::uint64_t number, std::int64_t offset) {
        state.cfa = State::Cfa::kRegister;
        state.cfa_register = number;
        state.cfa_offset = offset;
    }

    void remember(Cursor& code, const State& state) {
        if (remembered_.size() == kMaxRemembered) {
            code.fail();
        } else {
            remembered_.push_back(state);
        }
    }

    void recall(Cursor& code, State& state) {
        if (remembered_.empty()) {
            code.fail();
        } else {
            state = remembered_.back();
            remembered_.pop_back();
        }
    }

    void run_extended(std::uint8_t operation, Cursor& code, State& state, bool emits);
    void run_cfa(std::uint8_t operation, Cursor& code, State& state) const;
    void run_register(std::uint8_t operation, Cursor& code, State& state) const;

    const Cie& cie_;
    std::uint64_t begin_;
    std::uint64_t address_;
    RuleTable& rules_;
    std::vector<CfiRow>& rows_;
    CfiLosses& losses_;
    State initial_;
    std::vector<State> remembered_;
    bool is_relative_ = true;
};

// DWARF 5, 7.24; GNU extensions: binutils' include/dwarf2.def.
void Program::run_extended(std::uint8_t operation, Cursor& code, State& state, bool emits) {
    switch (operation) {
        case 0x00: break;  // nop
        case 0x01: {       // set_loc
            is_relative_ = false;
            const std::uint64_t to = read_pointer(code, cie_.encoding);
            advance(to >= address_ ? (to - address_) / cie_.code_factor : 0, state, emits);
            break;
        }
        case 0x02: advance(code.fixed<std::uint8_t>(), state, emits); break;
        case 0x03: advance(code.fixed<std::uint16_t>(), state, emits); break;
        case 0x04: advance(code.fixed<std::uint32_t>(), state, emits); break;
        case 0x0a: remember(code, state); break;
        case 0x0b: recall(code, state); break;
        case 0x2e: code.uleb(); break;  // GNU_args_size
        case 0x0c:
        case 0x0d:
        case 0x0e:
        case 0x0f:
        case 0x12:
        case 0x13: run_cfa(operation, code, state); break;
        default: run_register(operation, code, state);
    }
}

void Program::run_cfa(std::uint8_t operation, Cursor& code, State& state) const {
    switch (operation) {
        case 0x0c: {  // def_cfa
            const std::uint64_t number = code.uleb();
            define_cfa(state, number, static_cast<std::int64_t>(code.uleb()));
            break;
        }
        case 0x0d: define_cfa(state, code.uleb(), state.cfa_offset); break;  // def_cfa_register
        case 0x0e: state.cfa_offset = static_cast<std::int64_t>(code.uleb()); break;
        case 0x0f:  // def_cfa_expression
            state.cfa = State::Cfa::kExpression;
            state.cfa_expression = read_expression(code.take(code.uleb()));
            break;
        case 0x12: {  // def_cfa_sf
            const std::uint64_t number = code.uleb();
            define_cfa(state, number, cie_.scaled(static_cast<std::uint64_t>(code.sleb())));
            break;
        }
        default: state.cfa_offset = cie_.scaled(static_cast<std::uint64_t>(code.sleb()));  // def_cfa_offset_sf
    }
}

void Program::run_register(std::uint8_t operation, Cursor& code, State& state) const {
    constexpr Saved kNowhere{Saved::Where::kLost, Register::kRsp, 0};
    const std::uint64_t number = code.uleb();
    switch (operation) {
        case 0x05: at_cfa(state, number, cie_.scaled(code.uleb())); break;
        case 0x06: restore(state, number); break;
        case 0x07: undefined(state, number); break;
        case 0x08: set(state, number, {}); break;  // same_value
        case 0x09: {                               // register
            const std::uint64_t base = code.uleb();
            set(state, number,
                base < kRegisters ? Saved{Saved::Where::kInRegister, static_cast<Register>(base), 0} : kNowhere);
            break;
        }
        case 0x10: at_expression(state, number, read_expression(code.take(code.uleb()))); break;
        case 0x11:
            at_cfa(state, number, cie_.scaled(static_cast<std::uint64_t>(code.sleb())));
            break;  // offset_extended_sf
        case 0x14:
        case 0x15:  // val_offset, val_offset_sf: a value, not a place
            code.uleb();
            set(state, number, kNowhere);
            break;
        case 0x16:  // val_expression
            code.skip(code.uleb());
            set(state, number, kNowhere);
            break;
        default: code.fail();
    }
}

class SectionReader {
   public:
    SectionReader(const CfiSection& section, std::deque<Cie>& cies, std::vector<CfiFunction>& functions,
                  CfiLosses& losses)
        : section_(section), cies_(cies), functions_(functions), losses_(losses) {}

    void read() {
        Cursor entries(section_.bytes.first(std::min(section_.bytes.size(), kMaxSection)), section_.address);
        while (!entries.at_end()) {
            const std::uint64_t begin = entries.address() - section_.address;
            std::uint64_t length = entries.fixed<std::uint32_t>();
            const bool wide = length == 0xffffffff;
            if (wide) {
                length = entries.fixed<std::uint64_t>();
            }
            if (length == 0) {
                continue;  // the end of one object file's part
            }
            const std::uint64_t id_at = entries.address() - section_.address;
            Cursor entry = entries.take(length);
            if (entries.failed()) {
                ++losses_.functions;
                break;
            }
            const std::uint64_t id = wide && !section_.eh ? entry.fixed<std::uint64_t>() : entry.fixed<std::uint32_t>();
            const std::uint64_t cie_id = section_.eh ? 0 : wide ? ~std::uint64_t{0} : 0xffffffff;
            if (id == cie_id) {
                if (const std::optional<Cie> cie = read_cie(entry); cie && cies_.size() < kMaxCies) {
                    places_[begin] = &cies_.emplace_back(*cie);
                }
            } else {
                // .eh_frame: the distance back to the CIE; .debug_frame: its place.
                read_function(entry, section_.eh ? id_at - id : id);
            }
        }
    }

   private:
    std::optional<Cie> read_cie(Cursor& entry) const {
        Cie cie;
        cie.section = &section_;
        const auto version = entry.fixed<std::uint8_t>();
        if (version != 1 && version != 3 && version != 4) {
            return std::nullopt;
        }
        const std::string_view augmentation = entry.text();
        if (version == 4 && (entry.fixed<std::uint8_t>() != 8 || entry.fixed<std::uint8_t>() != 0)) {
            return std::nullopt;  // not 64 bit, or segmented
        }
        cie.code_factor = entry.uleb();
        cie.data_factor = entry.sleb();
        cie.return_register = version == 1 ? entry.fixed<std::uint8_t>() : entry.uleb();
        if (!augmentation.empty() && augmentation.front() != 'z') {
            return std::nullopt;
        }
        cie.augmented = !augmentation.empty();
        Cursor data = cie.augmented ? entry.take(entry.uleb()) : Cursor({}, 0);
        for (const char letter : augmentation.substr(cie.augmented ? 1 : 0)) {
            switch (letter) {
                case 'R': cie.encoding = data.fixed<std::uint8_t>(); break;
                case 'P': {
                    const auto encoding = data.fixed<std::uint8_t>();
                    read_pointer(data, encoding & static_cast<std::uint8_t>(~kIndirect));
                    break;
                }
                case 'L': data.fixed<std::uint8_t>(); break;
                case 'S': cie.signal = true; break;
                default: return std::nullopt;
            }
        }
        if (entry.failed() || data.failed() || cie.code_factor == 0 || entry.left() > kMaxShared ||
            cie.return_register != static_cast<std::uint64_t>(Register::kReturn)) {
            return std::nullopt;
        }
        cie.program = entry;
        return cie;
    }

    void read_function(Cursor& entry, std::uint64_t cie_at) {
        const auto found = places_.find(cie_at);
        if (found == places_.end()) {
            ++losses_.functions;
            return;
        }
        const Cie& cie = *found->second;
        const std::uint64_t begin = read_pointer(entry, cie.encoding);
        const std::uint64_t size = read_pointer(entry, cie.encoding & 0x0f);
        if (cie.augmented) {
            entry.skip(entry.uleb());
        }
        if (entry.failed() || cie.encoding == kOmitted || size == 0 || size > kMaxFunction || begin + size < begin) {
            losses_.functions += size == 0 && !entry.failed() ? 0 : 1;
            return;
        }
        functions_.push_back({.begin = begin,
                              .end = begin + size,
                              .cie = &cie,
                              .program = static_cast<std::uint32_t>(entry.address() - section_.address),
                              .program_size = static_cast<std::uint32_t>(entry.left())});
    }

    const CfiSection& section_;
    std::deque<Cie>& cies_;
    std::vector<CfiFunction>& functions_;
    CfiLosses& losses_;
    std::map<std::uint64_t, const Cie*> places_;  // in the section
};

}  // namespace

Cfi::Cfi(std::span<const CfiSection> sections) : ran_(kRan) {
    std::size_t most = 0;
    for (const CfiSection& section : sections) {
        most += section.bytes.size() / kBytesPerFunction;
    }
    functions_.reserve(most);  // what is not used of it costs nothing
    for (const CfiSection& section : sections) {
        SectionReader(section, cies_, functions_, losses_).read();
    }
    // The sections are in an array, so that their addresses tell which comes first.
    std::ranges::sort(functions_, {}, [](const CfiFunction& function) {
        return std::tuple(function.begin, function.cie->section, function.program);
    });
}

std::span<const CfiRow> Cfi::rows_of(const CfiFunction& function, RuleTable& rules) {
    const CfiSection& section = *function.cie->section;
    const Bytes program = section.bytes.subspan(function.program, function.program_size);
    const std::string_view text(reinterpret_cast<const char*>(program.data()), program.size());
    const bool is_kept = program.size() <= kMaxRan;
    Ran& ran = ran_[is_kept ? std::hash<std::string_view>()(text) % kRan : 0];
    if (ran.cie != function.cie || !std::ranges::equal(ran.program, program)) {
        CfiLosses losses;
        ran.rows.clear();
        Program run(*function.cie, function.begin, rules, ran.rows, losses);
        if (!run.run(Cursor(program, section.address + function.program))) {
            ran.rows.clear();
        }
        ran.cie = is_kept && run.is_relative() ? function.cie : nullptr;
        ran.program = program;
        ran.expressions = losses.expressions;
    }
    losses_.expressions += ran.expressions;
    losses_.functions += ran.rows.empty() ? 1 : 0;
    return ran.rows;
}

}  // namespace weft
