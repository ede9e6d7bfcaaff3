"""Names of C++ and Rust as people write them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from weft.symbolize.cplusplus import shorten
from weft.symbolize.names import readable

# From the RFC of the mangling (rust-lang/rfcs, 2603): what it says that these names stand for.
RFC_2603 = {
    "_RNvNtCs1234_7mycrate3foo3bar": "mycrate::foo::bar",
    "_RINvNtC3std3mem8align_ofdE": "std::mem::align_of::<f64>",
    "_RINvNtC3std3mem8align_ofjE": "std::mem::align_of::<usize>",
    "_RINvNtC3std3mem8align_ofRcE": "std::mem::align_of::<&char>",
    "_RINvNtC3std3mem8align_ofNtNtC3std3mem12DiscriminantE": "std::mem::align_of::<std::mem::Discriminant>",
    "_RINvNtC3std3mem8align_ofQTReuEE": "std::mem::align_of::<&mut (&str, ())>",
    "_RINvNtC3std3mem8align_ofjEC3foo": "std::mem::align_of::<usize>",
    "_RNvNvXs2_C7mycrateINtC7mycrate3FoopEINtNtC3std7convert4FrompE4from3MSG": (
        "<mycrate::Foo<_> as std::convert::From<_>>::from::MSG"
    ),
}
# The grammar's other productions: here c++filt knows what they stand for.
RUST = [
    *RFC_2603,
    "_RINtNtC3std4iter5ChainINtB2_3ZipINtNtB4_3vec8IntoItermEBt_EE",
    "_RNCNvNtC7mycrate3foo3bars_0",
    "_RNSC7mycrate6vtable",
    "_RNvNtNtC7mycrateu8gdel_5qa6escher4bach",
    "_RNvYNtC7mycrate3FooNtC4core5Clone5clone",
    "_RINvC1f1gFG_RL0_hERL0_hE",
    "_RINvC1f1gFUKCPhOaEzE",
    "_RINvC1f1gFK6systemEuE",
    "_RINvC1f1gDG_INtC4core2FnTRL0_hEEp6OutputtNtC4core4SendEL_E",
    "_RINvC1f1gSAtj4_ThEE",
    "_RNvMC1fINtC1f3ArrKb1_Kc78_Kln5_Kja_E2go",
    "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
    "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
    "_ZN3foo17h05af221e174051e9E.llvm.123",
]
HOSTILE = [
    "_R", "_RB_", "_RNvB_1f", "_RNvC1f", "_RNvC9f1g", "_RNvCu1\u00e91g", "_RINvC1f1gE junk", "_RINvC1f1gKb2_E",
    "_RINvC1f1gL0_E", "_RNvC999999999999999f1g", "_RMC1f" + "R" * 4000 + "h", "_RINvC1f1gFGZZZZZZZ_EuE",
    "_RINvC1f1g" + "TRB9_" * 700 + "E" * 700 + "E", "_ZN3foo", "_ZN", "_ZN9999999foo17h05af221e174051e9E", "_Z",
    "_Zf_f", "_ZN3$u1100017h05af221e174051e9E",
    # A name that doubles with each of its parts, to 400,000 characters.
    "_Z1f1AS_IS_S_E" + "".join(f"S_IS{digit}_S{digit}_E" for digit in "0123456789ABCD"),
]  # fmt: skip


@pytest.mark.parametrize(("symbol", "name"), RFC_2603.items())
def test_rust_by_its_rfc(symbol: str, name: str) -> None:
    assert readable(symbol) == name


@pytest.mark.parametrize("symbol", RUST)
def test_rust_as_binutils_tells_it(symbol: str) -> None:
    """GIVEN symbols of both manglings THEN they are told as c++filt does, but for what tells builds apart, and the
    types of constants."""
    run = subprocess.run(["c++filt", "-s", "rust", symbol.partition(".llvm")[0]], capture_output=True, text=True)
    name = run.stdout.strip()
    assert name != symbol
    name = re.sub(r"(?<=\w)\[[0-9a-f]+\]|::h[0-9a-f]{16}$", "", name)
    assert readable(symbol) == re.sub(r": (?:[iu](?:8|16|32|64|128|size)|bool|char)(?=[\],>])", "", name)


@pytest.mark.parametrize("symbol", HOSTILE)
def test_what_is_no_name(symbol: str) -> None:
    """GIVEN what only looks like a symbol of Rust or C++, or leads into itself THEN it is told as it is."""
    assert readable(symbol) == symbol[:4096]


SOURCE = """
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>
template <class... T> struct Of { template <int N> static void at(T...); void operator()(T...) const; };
template <class... T> template <int N> void Of<T...>::at(T...) {}
template <class... T> void Of<T...>::operator()(T...) const {}
struct A {};
bool operator<(const A&, const std::string&) { return false; }
std::ostream& operator<<(std::ostream& out, const A&) { return out; }
bool operator>(const A&, std::vector<A>) { return false; }
namespace { __attribute__((used)) void hidden(std::unique_ptr<A>) {} }
[[gnu::abi_tag("mine")]] void tagged(std::wstring) {}
template struct Of<std::string, std::string_view>;
template struct Of<std::map<std::string, std::vector<int>>>;
template struct Of<std::unordered_map<std::string, A>, std::set<A*>>;
template struct Of<std::set<int, std::greater<int>>>;
template void Of<std::stringstream&>::at<-3>(std::stringstream&);
template struct Of<Of<Of<Of<Of<Of<std::string, std::string, std::string, std::string, std::string, std::string, A, A>,
    std::string, std::string, std::string>, std::string, std::string, std::string>, std::string>, A>>;
"""
NAMES = {
    "operator<(A const&, std::string const&)",
    "operator<<(std::ostream&, A const&)",
    "operator>(A const&, std::vector<A>)",
    "(anonymous namespace)::hidden(std::unique_ptr<A>)",
    "tagged(std::wstring)",
    "Of<std::string, std::string_view>::operator()(std::string, std::string_view) const",
    "Of<std::map<std::string, std::vector<int>>>::operator()(std::map<std::string, std::vector<int>>) const",
    "Of<std::unordered_map<std::string, A>, std::set<A*>>::operator()"
    "(std::unordered_map<std::string, A>, std::set<A*>) const",
    "Of<std::set<int, std::greater<int>>>::operator()(std::set<int, std::greater<int>>) const",
    "void Of<std::stringstream&>::at<-3>(std::stringstream&)",
}


def test_cplusplus(tmp_path: Path) -> None:
    """GIVEN functions that g++ has mangled THEN their names are as in the source: no defaults, no ABI namespaces; and
    those that would be too long have dots for what is nested deepest."""
    source, library = tmp_path / "names.cpp", tmp_path / "names.o"
    source.write_text(SOURCE)
    subprocess.run(["g++", "-std=c++17", "-O0", "-c", source, "-o", library], check=True)
    rows = subprocess.run(["nm", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    own = [row.split()[-1] for row in rows.splitlines() if re.search(r"2Of|1A|hidden|tagged", row)]
    told = {readable(symbol) for symbol in own if "_ZNSt" not in symbol and "_ZSt" not in symbol}
    assert told >= NAMES
    (long,) = [name for name in told if name.startswith("Of<Of<")]
    assert len(long) <= 160
    assert "..." in long
    assert long.endswith(") const")


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("split.cold", "split"),
        ("_Z5splitv.isra.0.part.1.cold.2", "split()"),
        ("split.llvm.4711", "split"),
        ("main._omp_fn.0", "main._omp_fn.0"),
        ("resumed.resume", "resumed.resume"),
        (".cold", ".cold"),
    ],
)
def test_parts_and_clones(symbol: str, name: str) -> None:
    """GIVEN what compilers make of one function THEN it has the function's name; functions of their own keep theirs."""
    assert readable(symbol) == name


def test_brackets_that_do_not_match() -> None:
    """GIVEN names that no demangler makes THEN they are told as they are."""
    for name in ("f(", "f)", "a<b", "a>b(", "a<(>)", "<" * 5000 + ">" * 5000):
        assert shorten(name) == name


def number_of(index: int) -> str:
    """A number of 36 digits, as substitutions are numbered."""
    digit = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[index % 36]
    return digit if index < 36 else number_of(index // 36) + digit


def doubled(times: int) -> str:
    """A symbol of a function whose last argument is a<x, x>, where x is an argument like that, and so on."""
    return "_Z1f1aIiiE" + "".join(f"S_I{2 * f'S{number_of(index)}_'}E" for index in range(times))


def test_names_without_end() -> None:
    """GIVEN symbols that stand for 2 GB of text, or for more than there are atoms THEN they are told as they are."""
    assert readable(doubled(2)).startswith("f(a<int, int>, a<a<int, int>, a<int, int>>, a<a<a")
    for times in (12, 26, 60, 300):
        assert readable(doubled(times)) == doubled(times)


def test_names_that_nest_deep() -> None:
    """GIVEN symbols whose types are nested as deep as they are long THEN they end, whatever they are told as."""
    for symbol in ("_Z1f" + "P" * 4000 + "i", "_Z1f" + "PFvv" * 1000, "_Z1fI" + "J" * 4000, "_Z" + "N1aI" * 1000):
        assert readable(symbol)


def test_long_names_before_brackets() -> None:
    """GIVEN one name of 60,000 letters before brackets THEN it is looked through once, not from each of its letters."""
    assert shorten("a" * 60_000 + "(b)<c>").startswith("aaa")
