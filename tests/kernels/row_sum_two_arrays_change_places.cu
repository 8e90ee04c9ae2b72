// problem: row_sum
// style: two shared arrays that change places by pointers; either pointer may be made from either array
// assay: launch sum_rows grid=(rows) block=(128) args=(x, y, rows, cols)

__global__ void sum_rows(const float* x, float* y, int rows, int cols)
{
    __shared__ float first[128], second[128];
    float *from = first, *to = second;
    const int i = threadIdx.x;
    float sum = 0.0f;
    for (int col = i; col < cols; col += 128) sum += x[(size_t)blockIdx.x * cols + col];
    from[i] = sum;
    __syncthreads();
    for (int step = 1; step < 128; step *= 2) {
        to[i] = from[i] + (i >= step ? from[i - step] : 0.0f);
        __syncthreads();
        float* other = from;
        from = to;
        to = other;
    }
    if (i == 127) y[blockIdx.x] = from[127];
}
