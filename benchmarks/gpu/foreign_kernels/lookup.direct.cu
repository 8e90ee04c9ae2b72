// expected: passed
// One thread for each element.
// assay: launch lookup grid=(ceil_div(rows * dim, 256)) block=(256) args=(indices, table_weight, out, rows, dim)

extern "C" __global__ void lookup(const long long* indices, const float* table_weight, float* out, int rows, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * dim) out[i] = 2.0f * table_weight[indices[i / dim] * dim + i % dim];
}
