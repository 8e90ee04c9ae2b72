// problem: row_sum
// style: one block a row, a tree in dynamic shared memory
// assay: launch row_tree grid=(rows) block=(128) shared=(128 * 4) args=(x, y, cols)

extern __shared__ unsigned char raw[];

__global__ void row_tree(const float* x, float* y, int cols)
{
    float* s = reinterpret_cast<float*>(raw);
    const float* row = x + (long long)blockIdx.x * cols;
    float sum = 0.0f;
    for (int col = threadIdx.x; col < cols; col += blockDim.x) {
        sum += row[col];
    }
    s[threadIdx.x] = sum;
    for (unsigned half = blockDim.x >> 1; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) {
            s[threadIdx.x] += s[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        y[blockIdx.x] = s[0];
    }
}
