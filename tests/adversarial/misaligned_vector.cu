// problem: relu
// attack: a float4 load from an address that is not a multiple of 16
// expect: runtime_error
// because: such a load traps on every GPU
// fault: misaligned
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 5 < n) {
        float4 v = *reinterpret_cast<const float4*>(x + i / 4 * 4 + 1);  // HERE
        y[i] = fmaxf(v.x, 0.0f) + 0.0f * (v.y + v.z + v.w);
    } else if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
