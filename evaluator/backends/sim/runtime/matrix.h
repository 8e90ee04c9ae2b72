// Tensor-core instructions and the moves of 8 x 8 matrices (PTX ISA 9.0, sections 9.7.14 and 9.7.15).
#pragma once
#include "machine.h"

enum Number { N_F16, N_BF16, N_TF32, N_F32, N_F64, N_S8, N_U8, N_S4, N_U4, N_XOR, N_AND, N_S32 };

// D = A * B + C with A of m x k and B of k x n; for single bits A and B name the operation.
struct Product {
    int m, n, k;
    Number a, b, c, d;
    bool saturate;
};
void multiply(Warp &w, u32 mask, const Product &p, int a_count, const U32 *a, int b_count, const U32 *b, const U32 *c, U32 *d, i32 place);
void multiply_f64(Warp &w, u32 mask, const Product &p, const U64 *a, const U64 *b, const U64 *c, U64 *d, i32 place);

// A wmma fragment in memory: `which` is a, b or c (also for d), `stride` counts elements.
struct Fragment {
    char which;
    Number number;
    int rows, cols; // of the matrix in memory
    bool row_major;
    bool shared; // named as shared memory, which a generic address is not
};
void load_fragment(Warp &w, u32 mask, const Fragment &f, const U64 &address, const U32 &stride, Site &site, int count, U32 *out);
void store_fragment(Warp &w, u32 mask, const Fragment &f, const U64 &address, const U32 &stride, Site &site, int count, const U32 *in);
void load_fragment_f64(Warp &w, u32 mask, const Fragment &f, const U64 &address, const U32 &stride, Site &site, int count, U64 *out);
void store_fragment_f64(Warp &w, u32 mask, const Fragment &f, const U64 &address, const U32 &stride, Site &site, int count, const U64 *in);

void load_matrices(Warp &w, u32 mask, int count, bool transposed, const U64 &address, Site &site, U32 *out);
void store_matrices(Warp &w, u32 mask, int count, bool transposed, const U64 &address, Site &site, const U32 *in);
U32 transpose_matrix(const U32 &x);
