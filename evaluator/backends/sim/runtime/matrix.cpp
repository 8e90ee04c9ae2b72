// Tensor-core instructions (PTX ISA 9.0, sections 9.7.14 and 9.7.15).
//
// What is exact: products, sums of integers, which bits of a float are read (tf32: the upper 19), layouts of `mma`.
// What is not: hardware aligns the products and the accumulator to the largest, cuts them off a few bits below
// float32's last and adds ("Numerical behavior of NVIDIA tensor cores", Fasi et al., PeerJ CS 7:e330, 2021). Here they
// are added in float64, products first and by rising k, and the sum is rounded once: towards zero to float32, as
// hardware does, to nearest to float16. The difference lies in the last bits. A float64 product is a chain of fused
// multiply-adds by rising k, from the accumulator.
//
// A fragment is made of registers that hold units of 8 rows: lane 4g + t has row g, columns from t on. That is the
// layout that PTX fixes for `mma`; for `wmma`, whose layout is opaque, it is the one that GPUs from sm_80 on have.
#include "matrix.h"
#include "shadow.h"
#include <math.h>

namespace {

enum { MOST = 32, DEEPEST = 64 };

int packed(Number number) { // elements in a register of 32 bits
    switch (number) {
    case N_F16: case N_BF16: return 2;
    case N_S8: case N_U8: return 4;
    case N_S4: case N_U4: return 8;
    case N_XOR: case N_AND: return 32;
    default: return 1;
    }
}

// Element `at` of a register, for all lanes, as float32 bits or as an integer.
U32 element(Number number, const U32 &x, int at) {
    switch (number) {
    case N_F16: case N_BF16: return widen_float(number == N_F16 ? F16 : BF16, at ? shr_u32(x, all32(16)) : and_b32(x, all32(0xffff)));
    case N_TF32: return and_b32(x, all32(0xffffe000));
    case N_S8: return extend_s8(shr_u32(x, all32(8 * at)));
    case N_U8: return low8(shr_u32(x, all32(8 * at)));
    case N_S4: return shr_s32(shl_b32(x, all32(28 - 4 * at)), all32(28));
    case N_U4: return and_b32(shr_u32(x, all32(4 * at)), all32(15));
    default: return x;
    }
}

// Unpack a fragment of A (rows m) or of B (rows n), columns k, into out[column][row].
template <class T, class F> void unpack(Number number, int rows, int cols, const U32 *in, F convert, T (*out)[MOST]) {
    int each = packed(number), count = rows * cols / LANES / each, high = rows / 8;
    for (int r = 0; r < count; r++)
        for (int j = 0; j < each; j++) {
            A32 x = spread(element(number, in[r], j));
            for (int lane = 0; lane < LANES; lane++)
                out[lane % 4 * each + j + 4 * each * (r / high)][lane / 4 + 8 * (r % high)] = convert(x.e[lane]);
        }
}

// Where element x of an accumulator lies in lane's fragment.
struct Cell {
    int row, col;
};
Cell cell(int rows, int lane, int x) {
    int high = rows / 8, unit = x / 2;
    return {lane / 4 + 8 * (unit % high), lane % 4 * 2 + x % 2 + 8 * (unit / high)};
}

float towards_zero(double x) {
    float f = (float)x;
    if (fabs((double)f) <= fabs(x) || x != x) return f;
    if (isinf(f) && (isinf(x) || fabs(x) >= 0x1p128)) return f;
    return nextafterf(f, 0.0f);
}

void check_lanes(Warp &w, u32 mask, i32 place) {
    warp_sync(w, mask, all32(mask), false);
    if (mask != ~0u) warn(PARTIAL_MATRIX, place, "a matrix instruction is executed by part of a warp: undefined");
}

double A_FLOAT[DEEPEST][MOST], B_FLOAT[DEEPEST][MOST];
i32 A_INTEGER[DEEPEST][MOST], B_INTEGER[DEEPEST][MOST];

template <class T> void products(const Product &p, const T (*a)[MOST], const T (*b)[MOST], T (*sums)[MOST]) {
    for (int i = 0; i < p.m; i++)
        for (int first = 0; first < p.n; first += 8) {
            T sum[8] = {};
            for (int k = 0; k < p.k; k++)
                for (int j = 0; j < 8; j++) sum[j] += a[k][i] * b[k][first + j];
            for (int j = 0; j < 8; j++) sums[i][first + j] = sum[j];
        }
}

void multiply_floats(const Product &p, const U32 *a, const U32 *b, const U32 *c, U32 *d) {
    double sums[MOST][MOST];
    auto widen = [](u32 x) { return (double)f32_of(x); };
    unpack(p.a, p.m, p.k, a, widen, A_FLOAT);
    unpack(p.b, p.n, p.k, b, widen, B_FLOAT);
    products(p, A_FLOAT, B_FLOAT, sums);
    int count = p.m * p.n / LANES;
    for (int x = 0; x < count; x++) {
        A32 from, to = {};
        A64 wide;
        if (p.c == N_F16) from = spread(widen_float(F16, x % 2 ? shr_u32(c[x / 2], all32(16)) : and_b32(c[x / 2], all32(0xffff))));
        else from = spread(c[x]);
        for (int lane = 0; lane < LANES; lane++) {
            Cell at = cell(p.m, lane, x);
            double sum = sums[at.row][at.col] + (double)f32_of(from.e[lane]);
            if (p.d == N_F16) wide.e[lane] = bits(sum);
            else to.e[lane] = sum == sum ? bits(towards_zero(sum)) : 0x7fffffffu;
        }
        if (p.d == N_F16) {
            U32 half = narrow_double(F16, NEAREST, gather(wide));
            d[x / 2] = x % 2 ? or_b32(d[x / 2], shl_b32(half, all32(16))) : half;
        } else {
            d[x] = gather(to);
        }
    }
}

u32 saturated(i64 x) { return (u32)(x > 0x7fffffff ? 0x7fffffff : x < -0x80000000ll ? -0x80000000ll : x); }

void multiply_integers(const Product &p, const U32 *a, const U32 *b, const U32 *c, U32 *d) {
    i32 sums[MOST][MOST];
    if (p.a == N_XOR || p.a == N_AND) {
        // A register holds 32 elements of a row: words instead of elements.
        auto word = [](u32 x) { return (i32)x; };
        unpack(N_S32, p.m, p.k / 32, a, word, A_INTEGER);
        unpack(N_S32, p.n, p.k / 32, b, word, B_INTEGER);
        for (int i = 0; i < p.m; i++)
            for (int j = 0; j < p.n; j++) {
                sums[i][j] = 0;
                for (int k = 0; k < p.k / 32; k++) {
                    u32 x = (u32)A_INTEGER[k][i], y = (u32)B_INTEGER[k][j];
                    sums[i][j] += __builtin_popcount(p.a == N_XOR ? x ^ y : x & y);
                }
            }
    } else {
        auto number = [](u32 x) { return (i32)x; };
        unpack(p.a, p.m, p.k, a, number, A_INTEGER);
        unpack(p.b, p.n, p.k, b, number, B_INTEGER);
        products(p, A_INTEGER, B_INTEGER, sums);
    }
    for (int x = 0; x < p.m * p.n / LANES; x++) {
        A32 r = spread(c[x]);
        for (int lane = 0; lane < LANES; lane++) {
            Cell at = cell(p.m, lane, x);
            i32 sum = sums[at.row][at.col];
            r.e[lane] = p.saturate ? saturated((i64)sum + (i32)r.e[lane]) : (u32)sum + r.e[lane];
        }
        d[x] = gather(r);
    }
}

} // namespace

void multiply(Warp &w, u32 mask, const Product &p, int, const U32 *a, int, const U32 *b, const U32 *c, U32 *d, i32 place) {
    check_lanes(w, mask, place);
    if (p.d == N_S32) multiply_integers(p, a, b, c, d);
    else multiply_floats(p, a, b, c, d);
}

void multiply_f64(Warp &w, u32 mask, const Product &p, const U64 *a, const U64 *b, const U64 *c, U64 *d, i32 place) {
    check_lanes(w, mask, place);
    double sums[MOST][MOST];
    auto place_in = [&](int rows, const U64 *in, double (*out)[MOST]) {
        int high = rows / 8;
        for (int r = 0; r < rows * p.k / LANES; r++) {
            A64 x = spread(in[r]);
            for (int lane = 0; lane < LANES; lane++)
                out[lane % 4 + 4 * (r / high)][lane / 4 + 8 * (r % high)] = f64_of(x.e[lane]);
        }
    };
    place_in(p.m, a, A_FLOAT);
    place_in(p.n, b, B_FLOAT);
    for (int x = 0; x < p.m * p.n / LANES; x++) {
        A64 r = spread(c[x]);
        for (int lane = 0; lane < LANES; lane++) {
            Cell at = cell(p.m, lane, x);
            double sum = f64_of(r.e[lane]);
            for (int k = 0; k < p.k; k++) sum = fma(A_FLOAT[k][at.row], B_FLOAT[k][at.col], sum);
            r.e[lane] = bits(sum);
        }
        d[x] = gather(r);
    }
}

namespace {

// Where the elements of a fragment's register lie in memory: address of lane's element `j` of register `r`.
struct Placement {
    const Fragment &f;
    A64 base;
    A32 stride;
    int rows; // rows of the fragment: for B its transpose is what the units are made of
    bool contiguous; // elements of a register are neighbours in memory

    Placement(const Fragment &fragment, const U64 &address, const U32 &strides) : f(fragment), base(spread(address)), stride(spread(strides)) {
        rows = f.which == 'b' ? f.cols : f.rows;
        contiguous = f.which == 'b' ? !f.row_major : f.row_major;
    }
    U64 address(int r, int j, int each, int bytes) const {
        A64 to;
        for (int lane = 0; lane < LANES; lane++) {
            int high = rows / 8, row = lane / 4 + 8 * (r % high), col = lane % 4 * each + j + 4 * each * (r / high);
            if (f.which == 'c') {
                Cell at = cell(rows, lane, each == 2 ? 2 * r + j : r);
                row = at.row;
                col = at.col;
            }
            u64 step = stride.e[lane], offset = contiguous ? row * step + col : col * step + row;
            to.e[lane] = base.e[lane] + offset * bytes;
        }
        return gather(to);
    }
    // Distinct registers: those beyond repeat them (float16 fragments of wmma).
    int distinct(int each) const { return f.rows * f.cols / LANES / each; }
};

// PTX leaves open how fragments travel, and NVIDIA asks for a start at a multiple of 32 bytes and a stride of a multiple
// of 16. What ptxas makes of it for sm_80 and sm_90 needs less: rows of 16 bytes in shared memory (`ldmatrix`), and pairs
// of an accumulator's elements in one access. Less than that traps on a GPU.
void check_rows(Warp &w, u32 mask, const Placement &at, int each, int bytes, const Site &site, bool writes) {
    const Fragment &f = at.f;
    if (f.which == 'c') {
        bool pairs = f.row_major && bytes == 4 && f.rows == 16 && f.cols == 16;
        for (int r = 0; pairs && r < at.distinct(each); r += 2) check_alignment(w, mask, at.address(r, 0, each, bytes), 8, site, writes);
        return;
    }
    if (!f.shared || (bytes != 2 && !(bytes == 1 && at.contiguous))) return;
    int lines = f.row_major ? f.rows : f.cols;
    A64 to;
    for (int lane = 0; lane < LANES; lane++) to.e[lane] = at.base.e[lane] + (u64)(lane % lines) * at.stride.e[lane] * bytes;
    check_alignment(w, mask, gather(to), 16, site, writes);
}

} // namespace

void load_fragment(Warp &w, u32 mask, const Fragment &f, const U64 &address, const U32 &stride, Site &site, int count, U32 *out) {
    check_lanes(w, mask, site.place);
    Placement at(f, address, stride);
    int each = packed(f.number), bytes = 4 / each, distinct = at.distinct(each);
    check_rows(w, mask, at, each, bytes, site, false);
    for (int r = 0; r < count; r++) {
        if (r >= distinct) out[r] = out[r % distinct];
        else if (at.contiguous || each == 1) load<4, 1>(w, mask, at.address(r, 0, each, bytes), site, &out[r]);
        else {
            U32 sum = all32(0), part;
            for (int j = 0; j < each; j++) {
                if (bytes == 2) load<2, 1>(w, mask, at.address(r, j, each, bytes), site, &part);
                else load<1, 1>(w, mask, at.address(r, j, each, bytes), site, &part);
                sum = or_b32(sum, shl_b32(part, all32(8 * bytes * j)));
            }
            out[r] = sum;
        }
    }
}

void store_fragment(Warp &w, u32 mask, const Fragment &f, const U64 &address, const U32 &stride, Site &site, int count, const U32 *in) {
    check_lanes(w, mask, site.place);
    Placement at(f, address, stride);
    int each = packed(f.number), bytes = 4 / each;
    check_rows(w, mask, at, each, bytes, site, true);
    for (int r = 0; r < count; r++) {
        if (at.contiguous || each == 1) {
            store<4, 1>(w, mask, at.address(r, 0, each, bytes), site, &in[r]);
            continue;
        }
        for (int j = 0; j < each; j++) {
            U32 part = shr_u32(in[r], all32(8 * bytes * j));
            store<2, 1>(w, mask, at.address(r, j, each, bytes), site, &part);
        }
    }
}

void load_fragment_f64(Warp &w, u32 mask, const Fragment &f, const U64 &address, const U32 &stride, Site &site, int count, U64 *out) {
    check_lanes(w, mask, site.place);
    Placement at(f, address, stride);
    for (int r = 0; r < count; r++) load<8, 1>(w, mask, at.address(r, 0, 1, 8), site, &out[r]);
}

void store_fragment_f64(Warp &w, u32 mask, const Fragment &f, const U64 &address, const U32 &stride, Site &site, int count, const U64 *in) {
    check_lanes(w, mask, site.place);
    Placement at(f, address, stride);
    for (int r = 0; r < count; r++) store<8, 1>(w, mask, at.address(r, 0, 1, 8), site, &in[r]);
}

// Rows of 16 bytes come from the lanes that name their addresses: lanes 0-7 those of the first matrix, and so on.
namespace {

u32 naming(int count) { return count == 4 ? ~0u : (1u << 8 * count) - 1; }

// The half at (row, col) of matrix j, in rows of four words a lane.
struct Rows {
    A32 word[4];
    u32 half(int j, int row, int col) const { return word[col / 2].e[8 * j + row] >> 16 * (col % 2) & 0xffff; }
};

} // namespace

void load_matrices(Warp &w, u32 mask, int count, bool transposed, const U64 &address, Site &site, U32 *out) {
    check_lanes(w, mask, site.place);
    U32 words[4] = {all32(0), all32(0), all32(0), all32(0)};
    if (mask & naming(count)) load<4, 4>(w, mask & naming(count), address, site, words);
    Rows rows;
    for (int i = 0; i < 4; i++) rows.word[i] = spread(words[i]);
    for (int j = 0; j < count; j++) {
        A32 r;
        for (int lane = 0; lane < LANES; lane++) {
            int row = lane / 4, col = lane % 4 * 2;
            r.e[lane] = transposed ? rows.half(j, col, row) | rows.half(j, col + 1, row) << 16
                                   : rows.word[lane % 4].e[8 * j + row];
        }
        out[j] = gather(r);
    }
}

namespace {

A32 transposed_matrix(const A32 &x) {
    A32 r;
    auto half = [&](int row, int col) { return x.e[4 * row + col / 2] >> 16 * (col % 2) & 0xffff; };
    for (int lane = 0; lane < LANES; lane++) {
        int row = lane / 4, col = lane % 4 * 2;
        r.e[lane] = half(col, row) | half(col + 1, row) << 16;
    }
    return r;
}

} // namespace

void store_matrices(Warp &w, u32 mask, int count, bool transposed, const U64 &address, Site &site, const U32 *in) {
    check_lanes(w, mask, site.place);
    A32 words[4] = {};
    for (int j = 0; j < count; j++) {
        A32 x = spread(in[j]);
        if (transposed) x = transposed_matrix(x);
        for (int lane = 0; lane < LANES; lane++) words[lane % 4].e[8 * j + lane / 4] = x.e[lane];
    }
    U32 rows[4] = {gather(words[0]), gather(words[1]), gather(words[2]), gather(words[3])};
    if (mask & naming(count)) store<4, 4>(w, mask & naming(count), address, site, rows);
}

U32 transpose_matrix(const U32 &x) { return gather(transposed_matrix(spread(x))); }
