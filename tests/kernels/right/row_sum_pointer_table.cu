// problem: row_sum
// assay: temp table uint64 (rows)
// assay: launch make_table grid=(ceil_div(rows, 128)) block=(128) args=(x, table, rows, cols)
// assay: launch sum_rows grid=(ceil_div(rows, 4)) block=(128) args=(table, y, rows, cols)
// style: an array of row pointers in a temporary, as batched libraries take them; passed as 64-bit words and cast to float**
__global__ void make_table(const float* x, unsigned long long* words, int rows, int cols)
{
    const float** const table = reinterpret_cast<const float**>(words);
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) table[r] = x + (size_t)r * cols;
}

__global__ void sum_rows(const unsigned long long* words, float* y, int rows, int cols)
{
    const float* const* const table = reinterpret_cast<const float* const*>(words);
    const int r = blockIdx.x * 4 + threadIdx.x / 32;
    if (r >= rows) return;
    const float* p = table[r];
    float s = 0.0f;
    for (int c = threadIdx.x % 32; c < cols; c += 32) s += p[c];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) y[r] = s;
}
