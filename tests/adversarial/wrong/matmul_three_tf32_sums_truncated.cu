// problem: matmul
// class: precision
// must: anything but passed
// why: three TF32 products keep 22 bits of each factor, and sums that stay in the tensor core are cut, not rounded, at each step: 2^-19 is lost where one term is large and the others are small
// proof: a row of one term of 1 and terms of 2^-20: on an H100 the sum loses one unit in the last place every eight terms
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(32) args=(a, b, c, m, n, k)
#include <mma.h>
using namespace nvcuda;
__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ alignas(32) float A[2][16][8], B[2][8][16], C[16][16]; int t = threadIdx.x, j0 = blockIdx.x * 16;
    for (int i0 = blockIdx.y * 16; i0 < m; i0 += gridDim.y * 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 8, float> d, e; wmma::fill_fragment(d, 0.f); wmma::fill_fragment(e, 0.f);
        for (int l0 = 0; l0 < k; l0 += 8) {
            for (int q = t; q < 128; q += 32) { int r = q / 8, s = q % 8; float v = i0 + r < m && l0 + s < k ? a[(size_t)(i0 + r) * k + l0 + s] : 0.f; float h = wmma::__float_to_tf32(v); A[0][r][s] = h; A[1][r][s] = wmma::__float_to_tf32(v - h); }
            for (int q = t; q < 128; q += 32) { int r = q / 16, s = q % 16; float v = l0 + r < k && j0 + s < n ? b[(size_t)(l0 + r) * n + j0 + s] : 0.f; float h = wmma::__float_to_tf32(v); B[0][r][s] = h; B[1][r][s] = wmma::__float_to_tf32(v - h); }
            __syncwarp();
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa[2]; wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb[2];
            for (int z = 0; z < 2; z++) { wmma::load_matrix_sync(fa[z], &A[z][0][0], 8); wmma::load_matrix_sync(fb[z], &B[z][0][0], 16); }
            wmma::mma_sync(e, fa[1], fb[0], e); wmma::mma_sync(e, fa[0], fb[1], e); wmma::mma_sync(d, fa[0], fb[0], d);
            __syncwarp();
        }
        for (int q = 0; q < d.num_elements; q++) d.x[q] += e.x[q];
        wmma::store_matrix_sync(&C[0][0], d, 16, wmma::mem_row_major); __syncwarp();
        for (int q = t; q < 256; q += 32) if (i0 + q / 16 < m && j0 + q % 16 < n) c[(size_t)(i0 + q / 16) * n + j0 + q % 16] = C[q / 16][q % 16];
        __syncwarp();
    }
}
