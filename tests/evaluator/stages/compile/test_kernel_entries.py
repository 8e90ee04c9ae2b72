import subprocess

import pytest

from evaluator.stages.compile.kernel_entries import demangled, entries
from evaluator.stages.compile.toolchain import find_toolchain

SOURCE = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cstdint>
#define KERNEL(name) extern "C" __global__ void name(float* in_a, const int* __restrict__ const p, int)
enum Mode { A, B };
enum class Small : uint8_t { X };
typedef float real;
typedef struct { int a; } Anonymous;
struct S { int a; float b; double c; };
union U { int i; float f; };

KERNEL(from_macro) { in_a[0] = p[0]; }

namespace {
__global__ void hidden(real* r, Mode mode, Small small, S s, const S& by_reference, bool flag) {
  if (r) r[0] = s.b;
}
}
namespace ns {
__global__ void over(int* a) { a[0] = 1; }
__global__ void over(float* a) { a[0] = 1; }
template <typename T, int N>
__global__ void scale(const T* __restrict__ x, T* y, size_t n, uint64_t m, float4 v) { y[0] = x[N]; }
template __global__ void scale<float, 4>(const float*, float*, size_t, uint64_t, float4);
template __global__ void scale<__half, 2>(const __half*, __half*, size_t, uint64_t, float4);
}
__global__ void kinds(float4* f4, __half* h, const __nv_bfloat16* b, half value, double d, unsigned long long ull,
                      char c, void* anything, const float* const* nested, float (*rows)[4], float bound[16],
                      void (*callback)(float), Anonymous anonymous, U u, volatile int* seen, long long big) {
  seen[0] = c;
}
__global__ void unnamed(float*, const int n, float, float* last) { if (threadIdx.x < n) last[0] = 1; }
__global__ void nothing() {}
struct Base { char tag; double v; };
struct Empty {};
struct Pair { char k; long long w; };
struct Gaps : Base { char a; int n : 5; short h[3]; Empty e; U u; Pair in[2]; static int z; };
__global__ void gaps(Gaps g, Empty e, S s) { }
extern "C" __global__ void shuffles(double* out, const double* in) { *out = __shfl_xor_sync(~0u, *in, 1); }
void host() { hidden<<<1, 1>>>(0, A, Small::X, S(), S(), true); }
"""


@pytest.fixture(scope="module", params=["sm_80", "sm_100"])
def texts(request, tmp_path_factory):
    """PTX and debug PTX, compiled in folders with different names, as sandboxes may."""
    found = []
    for flags in (("-O3", "-lineinfo"), ("-G",)):
        folder = tmp_path_factory.mktemp("work")
        (folder / "kernel.cu").write_text(SOURCE)
        command = [find_toolchain().nvcc, "-ptx", "-std=c++17", *flags, f"-arch={request.param}", "kernel.cu"]
        subprocess.run(command, cwd=folder, check=True)
        found.append((folder / "kernel.ptx").read_text())
    return found


@pytest.fixture
def by_name(texts):
    return {entry.name.partition("(")[0] or entry.name: entry for entry in entries(*texts)}


def described(entry):
    return [(one.name, one.type, one.kind, one.size_bytes, one.offset, one.pointee) for one in entry.parameters]


def test_every_kernel_is_there_once(texts):
    found = entries(*texts)
    assert sorted(entry.name.partition("(")[0] for entry in found if "anonymous" not in entry.name) == [
        "from_macro",
        "gaps",
        "kinds",
        "nothing",
        "ns::over",
        "ns::over",
        "ns::scale<__half, 2>",
        "ns::scale<float, 4>",
        "shuffles",
        "unnamed",
    ]
    assert sum(entry.name.startswith("(anonymous namespace)::hidden(") for entry in found) == 1
    assert all(entry.symbol in texts[0] for entry in found)


def test_extern_c_from_a_macro(by_name):
    entry = by_name["from_macro"]
    assert entry.symbol == "from_macro"
    assert entry.line == SOURCE[: SOURCE.index("KERNEL(from")].count("\n") + 1
    assert described(entry) == [
        ("in_a", "float*", "pointer", 8, 0, "float"),
        ("p", "const int* const", "pointer", 8, 8, "int"),
        ("arg2", "int", "int", 4, 16, None),
    ]


def test_names_survive_a_parameter_of_a_library_function_that_moves(texts, by_name):
    assert any(".debug_loc" in text for text in texts), "no parameter has a list of places any more"
    assert described(by_name["shuffles"]) == [
        ("out", "double*", "pointer", 8, 0, "double"),
        ("in", "const double*", "pointer", 8, 8, "double"),
    ]


def test_bytes_of_no_member_are_padding(by_name):
    assert [one.padding for one in by_name["gaps"].parameters] == [
        ((1, 8), (24, 28), (33, 40), (49, 56)),
        ((0, 1),),
        (),
    ]


def test_templates_and_overloads(texts):
    found = {entry.name: entry for entry in entries(*texts)}
    assert described(found["ns::over(int*)"]) == [("a", "int*", "pointer", 8, 0, "int")]
    assert described(found["ns::over(float*)"]) == [("a", "float*", "pointer", 8, 0, "float")]
    scale = next(entry for name, entry in found.items() if name.startswith("ns::scale<float, 4>"))
    assert described(scale) == [
        ("x", "const float*", "pointer", 8, 0, "float"),
        ("y", "float*", "pointer", 8, 8, "float"),
        ("n", "size_t", "uint", 8, 16, None),
        ("m", "uint64_t", "uint", 8, 24, None),
        ("v", "float4", "struct", 16, 32, None),
    ]
    half = next(entry for name, entry in found.items() if name.startswith("ns::scale<__half, 2>"))
    assert half.parameters[0].pointee == "__half"


def test_anonymous_namespace_keeps_its_names(texts):
    entry = next(entry for entry in entries(*texts) if "hidden" in entry.symbol)
    assert described(entry) == [
        ("r", "real*", "pointer", 8, 0, "float"),
        ("mode", "Mode", "int", 4, 8, None),
        ("small", "Small", "int", 1, 12, None),
        ("s", "S", "struct", 16, 16, None),
        ("by_reference", "const S&", "pointer", 8, 32, "S"),
        ("flag", "bool", "uint", 1, 40, None),
    ]


def test_kinds_of_types(by_name):
    assert described(by_name["kinds"]) == [
        ("f4", "float4*", "pointer", 8, 0, "float4"),
        ("h", "__half*", "pointer", 8, 8, "__half"),
        ("b", "const __nv_bfloat16*", "pointer", 8, 16, "__nv_bfloat16"),
        ("value", "__half", "float", 2, 24, None),
        ("d", "double", "float", 8, 32, None),
        ("ull", "unsigned long long", "uint", 8, 40, None),
        ("c", "char", "int", 1, 48, None),
        ("anything", "void*", "pointer", 8, 56, "void"),
        ("nested", "const float* const*", "pointer", 8, 64, "float*"),
        ("rows", "float (*)[4]", "pointer", 8, 72, "float"),
        ("bound", "float*", "pointer", 8, 80, "float"),
        ("callback", "void (*)()", "pointer", 8, 88, "void"),
        ("anonymous", "Anonymous", "struct", 4, 96, None),
        ("u", "U", "struct", 4, 100, None),
        ("seen", "volatile int*", "pointer", 8, 104, "int"),
        ("big", "long long", "int", 8, 112, None),
    ]


def test_unnamed_parameters(by_name):
    assert [(one.name, one.kind) for one in by_name["unnamed"].parameters] == [
        ("arg0", "pointer"),
        ("n", "int"),
        ("arg2", "float"),
        ("last", "pointer"),
    ]
    assert by_name["nothing"].parameters == ()


@pytest.mark.parametrize(
    "damage", [None, "", ".section\t.debug_info\n{\n.b8 1,2,3\n}\n.section\t.debug_abbrev\n{\n}\n"]
)
def test_without_dwarf_the_mangled_name_serves(texts, damage):
    found = {entry.name.partition("(")[0]: entry for entry in entries(texts[0], damage)}
    scale = found["ns::scale<float, 4>"]
    assert [(one.name, one.type, one.kind, one.pointee) for one in scale.parameters] == [
        ("arg0", "const float*", "pointer", "float"),
        ("arg1", "float*", "pointer", "float"),
        ("arg2", "unsigned long", "uint", None),
        ("arg3", "unsigned long", "uint", None),
        ("arg4", "float4", "struct", None),
    ]
    assert [one.kind for one in found["kinds"].parameters][8:12] == ["pointer"] * 4
    assert [one.size_bytes for one in found["from_macro"].parameters] == [8, 8, 4]
    assert scale.line is None


def test_any_damage_to_the_dwarf_is_survived(texts):
    lines = texts[1].splitlines()
    start = next(number for number, line in enumerate(lines) if ".debug_info" in line)
    layout = [[(one.size_bytes, one.offset) for one in entry.parameters] for entry in entries(*texts)]
    for position in range(start + 3, min(start + 900, len(lines)), 37):
        changed = [*lines[:position], ".b8 255,17,0", *lines[position + 1 :]]
        found = entries(texts[0], "\n".join(changed))
        assert [[(one.size_bytes, one.offset) for one in entry.parameters] for entry in found] == layout


def test_dwarf_that_contradicts_the_ptx_is_not_believed(texts):
    lying = texts[1].replace("_Z7unnamedPfifS_", "_Z5kindsXXXXXXXX")
    found = {entry.name.partition("(")[0]: entry for entry in entries(texts[0], lying)}
    assert [one.size_bytes for one in found["unnamed"].parameters] == [8, 4, 4, 8]


def test_demangling():
    assert demangled("_ZN2ns5scaleIfLi4EEEvPKT_") == "void ns::scale<float, 4>(float const*)".removeprefix("void ")
    assert demangled("plain") == "plain"
    assert demangled("_Zbroken") == "_Zbroken"


def test_a_name_that_stands_for_gigabytes_is_left_alone():
    doubling = "1PIiiE" + "".join(f"S{digit}_S{digit}_" for digit in "0123456789ABCDEFGHIJKLMNOPQ")
    nested = "_Z1kP" + "1PI" * 30 + "i" + "".join(f"S{d}_E" for d in "RQPONMLKJIHGFEDCBA9876543210")
    for symbol in (f"_Z1kP{doubling}", nested, "_Z1k" + "P" * 300_000 + "i", "_Z" + "N1a" * 100_000):
        assert len(demangled(symbol)) <= len(symbol) + 8192


def test_long_but_honest_names_are_read():
    symbol = "_Z1k" + "Pf" + "S_" * 40
    assert demangled(symbol).startswith("k(float*, float*")
