// problem: transpose
// assay: launch transpose_mov grid=(ceil_div(cols, 8), ceil_div(rows, 32)) block=(32, 4) args=(x, y, rows, cols)
// style: movmatrix turns 8 x 8 halves of words: low and high 16 bits of each float apart, joined again by prmt
__device__ unsigned turned(unsigned two)
{
    unsigned out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(two));
    return out;
}

__global__ void transpose_mov(const unsigned* x, unsigned* y, int rows, int cols)
{
    const int lane = threadIdx.x, r0 = (blockIdx.y * 4 + threadIdx.y) * 8, c0 = blockIdx.x * 8;
    const int r = r0 + lane / 4, c = c0 + lane % 4 * 2;
    const unsigned a = r < rows && c < cols ? x[(size_t)r * cols + c] : 0u;
    const unsigned b = r < rows && c + 1 < cols ? x[(size_t)r * cols + c + 1] : 0u;
    const unsigned low = turned(__byte_perm(a, b, 0x5410)), high = turned(__byte_perm(a, b, 0x7632));
    const int to_row = c0 + lane / 4, to_col = r0 + lane % 4 * 2;
    if (to_row < cols && to_col < rows) y[(size_t)to_row * rows + to_col] = __byte_perm(low, high, 0x5410);
    if (to_row < cols && to_col + 1 < rows) y[(size_t)to_row * rows + to_col + 1] = __byte_perm(low, high, 0x7632);
}
