// problem: relu
// attack: calls a function as if it took more parameters than it does, so that it reads what is not its own
// expect: runtime_error|incorrect
// because: a call reaches functions of its own type alone
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

struct Many {
    float values[256];
};
typedef Many (*Function)(Many);

__device__ __noinline__ float larger(float x) { return fmaxf(x, 0.0f); }
__device__ float (*one)(float) = larger;

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Many many;
    for (int k = 0; k < 256; ++k) many.values[k] = x[(i + k) % n];
    many = reinterpret_cast<Function>(one)(many);
    if (i < n) y[i] = many.values[17];
}
