import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract import Phase, Severity, Status
from evaluator.stages.screen.screening import DEVICE_TIER, RULES, ScreeningPolicy, screen

KERNELS = sorted((Path(__file__).parents[3] / "kernels").glob("*.cu"))


def device(body):
    return f"__global__ void k(float* x, int n)\n{{\n{body}\n}}\n"


def host(body):
    return f"int main()\n{{\n{body}\n}}\n"


# Rule, a text that must trigger it in the given line, and an honest look-alike that must not.
RULE_CASES = [
    ("host-file-include", "\n#include </etc/passwd>\n", 2, "#include <cub/cub.cuh>\n"),
    ("host-file-include", '#include "../../answers.h"\n', 1, '// #include "../../answers.h"\n'),
    ("host-file-include", '#include_next "/etc/passwd"\n', 1, '#if 0\n#include "/etc/passwd"\n#endif\n'),
    ("host-file-include", '#import "/etc/passwd"\n', 1, 'const char* s = R"(\n#include "/etc/passwd"\n)";\n'),
    ("host-file-embed", 'char a[] = {\n#embed "/etc/passwd"\n};', 2, 'char a[] = "#embed /etc/passwd";'),
    ("host-file-incbin", '\nasm(".incbin \\"/etc/passwd\\"");', 2, device('printf(".incbin");\nasm volatile("");')),
    (
        "host-file-incbin",
        'asm(".sec data; .inc" "lude \\"/a\\"");',
        1,
        device('asm("mov.u32 %0, %%laneid;" : "=r"(a));'),
    ),
    ("host-file-incbin", '#define S ".incbin \\"/a\\""\nasm(S);', 2, '#define S "mov"\n' + device("asm(S);")),
    ("host-file-incbin", '#define A(x) asm(x)\nA(".incbin \\"/a\\"");', 2, '#define A(x) asm(x)\nA("mov");'),
    (
        "host-file-probe",
        '#if __has_include("/etc/passwd")\n#endif\n',
        1,
        "#if __has_include(<cub/cub.cuh>)\n#endif\n",
    ),
    ("host-file-probe", '#pragma GCC dependency "/etc/passwd"\n', 1, "#pragma unroll 4\n"),
    ("odd-include", "#include <notes.txt>\n", 1, "#include <algorithm>\n"),
    ("odd-include", "#include </usr/local/cuda/include/cuda_fp16.h>\n", 1, '#include "cuda_fp16.h"\n'),
    ("missing-header", '#include "my_helpers.cuh"\n', 1, '#include "cuda_runtime.h"\n'),
    ("library-header", "#include <torch/extension.h>\n", 1, "#include <mma.h>\n"),
    ("computed-include", "#define H <cuda_fp16.h>\n#include H\n", 2, "#include <cuda_fp16.h>\n"),
    ("line-directive", '#line 7 "x.cu"\n', 1, "int line = 7;\n"),
    ("line-directive", '# 7 "x.cu"\n', 1, "#\n"),
    ("redefined-keyword", "#define __global__ static\n", 1, "#define restrict __restrict__\n"),
    ("redefined-keyword", "#define if while\n", 1, "#define IF if\n"),
    ("pasted-name", "#define call sys ## tem\n", 1, "#define call(name) kernel_ ## name\n"),
    (
        "macro-bomb",
        "#define A0 x\n" + "".join(f"#define A{i} A{i - 1} A{i - 1}\n" for i in range(1, 22)),
        21,
        "#define A x\n#define B A A\n",
    ),
    ("digraph", "%:define A\n", 1, device("int r = n % 4;")),
    ("digraph", "??=define A\n", 1, "// what??\n"),
    ("code-in-comment", "// off \\\nint a;\n", 2, "// off \\\n// too\n"),
    ("build-time", "const char* t = __DATE__;", 1, "const char* t = __FILE__;"),
    ("process-control", host('system("ls");'), 3, device("int system = 1;")),
    ("process-control", host("return ::fork();"), 3, host("job.system(1);")),
    ("environment", host('getenv("A");'), 3, "// getenv(x)\n"),
    (
        "file-access",
        host('FILE* f = fopen("a", "r");'),
        3,
        "__device__ int open(int x) { return x; }\n" + device("open(1);"),
    ),
    ("file-access", host('std::ofstream f("a");'), 3, host('puts("std::ofstream");')),
    ("network", host("int s = socket(1, 2, 3);"), 3, device("int socket[3];")),
    ("dynamic-loading", host('dlopen("a", 1);'), 3, device("x[0] = 1;")),
    ("host-threads", host("std::thread t(f);"), 3, device("int thread = threadIdx.x;")),
    ("host-assembly", host('asm("nop");'), 3, device('asm("mov;");')),
    (
        "inline-assembly",
        device('asm volatile("ld.global.f32 %0, [%1];" : "=f"(a) : "l"(x));'),
        3,
        device('char* asm_ = "asm";'),
    ),
    ("host-launch", host("k<<<1, 2>>>(x);"), 3, device("int a = 1 << n;")),
    ("host-runtime", host("cudaMalloc(&p, 4);"), 3, host("mycudaMalloc(&p, 4);")),
    ("static-initialiser", "int a = f();\n", 1, "constexpr int a = f();\nint b = 3;\n"),
    ("unbounded-loop", device("while (true) { x[0] += 1; }"), 3, device("while (true) { if (x[0] > n) break; }")),
    (
        "unbounded-loop",
        device("for (;;) { switch (n) { case 1: break; } }"),
        3,
        device("for (;;) { if (n) { return; } }"),
    ),
    ("unbounded-loop", device("do { for (;;) break; } while (1);"), 3, device("do { x[0] = 1; } while (0);")),
    ("spin-wait", device("volatile int* f; while (*f == 0);"), 3, device("while (n > 0) { n >>= 1; }")),
    (
        "spin-wait",
        device("while (atomicCAS(l, 0, 1) != 0) { __nanosleep(8); }"),
        3,
        device("for (int i = 0; i < n; ++i);"),
    ),
    ("sleep", device("__nanosleep(100);"), 3, device("int nanosleep = 1;")),
    ("clock", device("long long t = clock64();"), 3, device("int clock = 2;")),
    (
        "clock",
        device('asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));'),
        3,
        device('asm("mov.u32 %0, %laneid;");'),
    ),
    ("device-allocation", device("int* p = (int*)malloc(4);"), 3, device("int* p = (int*)malloc(4); free(p);")),
    ("device-allocation", device("int* p = new int[4];"), 3, host("int* p = new int[4];")),
    (
        "module-state",
        "\n__device__ int calls = 0;\n",
        2,
        "__device__ const float t[2] = {1, 2};\n__constant__ float c[4];\n",
    ),
    (
        "static-local",
        device("static int calls;"),
        3,
        device("static __shared__ int tile[4]; static const int a = 1;"),
    ),
    (
        "template-recursion",
        "template <int N> __device__ int f()\n{ return f<N - 1>(); }\n",
        2,
        "template <int N> __device__ int f() { return N; }\n" + device("f<4>();"),
    ),
    ("huge-constant", "__device__ const int a[1000000000] = {1};\n", 1, "__shared__ int a[1024];\n"),
    ("not-outlined", "\nvoid f() {" + "while(1)" * 3000 + ";}", 1, "void f() { while(1) while(1); }"),
]


@pytest.mark.parametrize(("rule", "bad", "line", "honest"), RULE_CASES)
def test_each_rule_finds_its_line_and_leaves_the_look_alike(rule, bad, line, honest):
    assert line in {finding.line for finding in screen(bad).screening.findings if finding.rule == rule}
    assert rule not in {finding.rule for finding in screen(honest).screening.findings}


def test_every_rule_has_a_case_and_words():
    assert {case[0] for case in RULE_CASES} == set(RULES)
    assert all(rule.why.endswith(".") for rule in RULES.values())


HONEST = [
    device('asm volatile("ld.global.f32 %0, [%1];" : "=f"(x[0]) : "l"(x));'),
    "#include <cuda_fp16.h>\n#include <cub/cub.cuh>\n#include <cooperative_groups.h>\n#include <mma.h>\n"
    + device(""),
    '#include "torch/extension.h"\n#include <ATen/cuda/CUDAContext.h>\n',
    device('printf("#include \\"/etc/passwd\\" .incbin %d", n);'),
    '/* #include "/etc/passwd" */\n// asm(".incbin \\"/x\\"")\n',
    "#include <cub/../cub/cub.cuh>\n",
    '#define CHECK(x) do { if (x) { fprintf(stderr, "%s:%d", __FILE__, __LINE__); exit(1); } } while (0)\n',
    "#define DIV(a, b) (a /b)\n#define HALF(x) DIV(x, 2)\n" + device("x[0] = HALF(n) /n;"),
    "#define H <cub/cub.cuh>\n#include H\n",
    host('system("rm -rf /"); fopen("/etc/passwd", "r");'),
]


@pytest.mark.parametrize("source", [*HONEST, *[path.read_text() for path in KERNELS]])
def test_honest_text_is_never_rejected(source):
    screened = screen(source)
    assert screened.ruling is None
    assert screened.screening.risk < 1


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_honest_kernels_have_a_low_risk(path):
    assert screen(path.read_text()).screening.risk < 0.4


# Each reads FILE when it is preprocessed; {path} is its absolute path.
EVASIONS = {
    "plain": '#include "{path}"\n',
    "angle": "#include <{path}>\n",
    "splice in the word": '#inc\\\nlude "{path}"\n',
    "splice with blanks": '#inc\\  \nlude "{path}"\n',
    "splice in the path": '#include "{path[0]}\\\n{path[1]}"\n',
    "comment": '/* a\n*/ # /**/ include /* b\n */ "{path}" // c\n',
    "digraph": '%:include "{path}"\n',
    "spliced digraph": '%\\\n:include "{path}"\n',
    "trigraph": '??=include "{path}"\n',
    "trigraph splice": '#inc??/\nlude "{path}"\n',
    "import": '#import "{path}"\n',
    "next": '#include_next "{path}"\n',
    "macro": '#define A "{path}"\n#include A\n',
    "macro chain": '#define A "{path}"\n#define B A\n#define C() B\n#include C()\n',
    "stringized": "#define S(x) #x\n#define T(x) S(x)\n#include T({path})\n",
    "angle in a macro": "#define A <{path}>\n#include A\n",
    "climbing": '#include "../../../../../../../../../../../..{path}"\n',
    "after a raw string": 'auto s = R"x(\n)" /* )x";\n#include "{path}"\n/* */\n',
    "raw string with a splice": 'auto s = R"( )\\\n" )";\n#include "{path}"\n// )"\n',
    "glued prefix": '#define xR\nauto s = x\\\nR"(";\n#include "{path}"\n// )"\n',
    "digit separator": "int a = 1'0; \n#include \"{path}\"\nint b = 1'0;\n",
    "lone quote": '#if 0\ndon\'t /* \n#endif\n#include "{path}"\n/* */\n',
    "splice in a comment end": '/* *\\\n/\n#include "{path}"\n/* */\n',
    "comment in a header name": '#include "/*/..{path}"\n',
    "else of if 0": '#if 0\n#else\n#include "{path}"\n#endif\n',
    "ifdef": '#ifdef __cplusplus\n#include "{path}"\n#endif\n',
    "suffix before a quote": 'auto s = "a"R"(";\n#include "{path}"\n// )"\n',
}


@pytest.mark.parametrize("name", EVASIONS)
def test_an_include_of_a_host_file_cannot_hide(name, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("int found_it;\n")
    text = EVASIONS[name].replace("{path[0]}", str(secret)[:4]).replace("{path[1]}", str(secret)[4:])
    text = text.replace("{path}", str(secret))
    compiler = shutil.which("g++")
    if compiler and name != "comment in a header name":
        # The evasion is real: a preprocessor does read the file.
        done = subprocess.run(
            [compiler, "-std=c++14", "-x", "c++", "-E", "-"], input=text, capture_output=True, text=True
        )
        modern = subprocess.run(
            [compiler, "-std=c++17", "-x", "c++", "-E", "-"], input=text, capture_output=True, text=True
        )
        assert "found_it" in done.stdout + modern.stdout
    ruling = screen(text).ruling
    assert (ruling.status, ruling.phase) == (Status.REJECTED, Phase.SCREEN)
    assert "line" in ruling.message
    assert screen(text).screening.risk == 1


def test_a_policy_decides_what_is_rejected():
    text = '#include "/etc/passwd"\n'
    assert screen(text, policy=ScreeningPolicy("lenient", frozenset())).ruling is None
    assert DEVICE_TIER.rejects == {name for name, rule in RULES.items() if rule.severity is Severity.ERROR}


def test_findings_are_capped_and_counted_and_changes_passed_on():
    screening = screen(host("cudaMalloc(1);\n" * 50), changes=("A fence was removed.",)).screening
    assert len(screening.findings) == 8
    assert screening.findings[-1].text.endswith("(and 42 more such places)")
    assert screening.changes == ("A fence was removed.",)


def test_risk_grows_with_different_rules_only():
    one, same = (screen(host('getenv("a");\n' * count)).screening.risk for count in (1, 9))
    assert one == same == pytest.approx(0.1)
    assert screen(host('getenv("a"); fork();')).screening.risk == pytest.approx(1 - 0.9 * 0.7)
    assert screen(device("x[0] = 1;")).screening.risk == 0


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "{",
        "a<",
        "while(1)",
        "#define A asm\n",
        "asm ",
        '"',
        "/*",
        "#if 1\n",
        "a(b)",
        "system(1);",
        'R"(',
        "\\\n",
        "a->",
        "[[a]]",
        "#include <",
        "// a\\\n",
        "#define a a ## a",
        "#define a b" + " " * 1_000_000 + "c",
    ],
)
def test_a_mebibyte_of_anything_is_looked_at_in_bounded_time(piece):
    text = (piece * ((1 << 20) // len(piece) + 1))[: 1 << 20]
    start = time.process_time()
    screen(text + "\n__global__ void k() {}")
    assert time.process_time() - start < 10  # about 5 s alone on one core


TOKENS = st.sampled_from(
    [
        '#include "',
        "#define ",
        "A",
        "\n",
        "\\\n",
        "/*",
        "*/",
        '"',
        "'",
        'R"(',
        ')"',
        "asm(",
        ")",
        "{",
        "}",
        "??/",
        "%:",
        "<",
        "__device__ ",
        "static ",
        "while(1)",
        "template<int N>",
        "f<N-1>",
        "struct S ",
        "[](){",
        "return;",
        "é",
        "1'0",
        "new ",
    ]
)


@given(st.one_of(st.text(), st.lists(TOKENS, max_size=30).map("".join)))
def test_no_text_raises(text):
    screening = screen(text).screening
    assert 0 <= screening.risk <= 1
    assert all(1 <= finding.line <= text.count("\n") + 1 for finding in screening.findings)
