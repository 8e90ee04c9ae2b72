// expected: passed
// A chunk of the row for each thread of a warp.
// assay: launch cumsum grid=(rows) block=(32) args=(x, out, rows, dim)

extern "C" __global__ void cumsum(const float* x, float* out, int rows, int dim)
{
    __shared__ float before[32];
    int lane = threadIdx.x, chunk = (dim + 31) / 32;
    const float* row = x + blockIdx.x * dim;
    int first = lane * chunk, last = min(dim, first + chunk);
    float sum = 0.0f;
    for (int i = first; i < last; ++i) sum += row[i];
    before[lane] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int i = 0; i < lane; ++i) sum += before[i];
    for (int i = first; i < last; ++i) {
        sum += row[i];
        out[blockIdx.x * dim + i] = sum;
    }
}
