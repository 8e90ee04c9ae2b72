// problem: relu
// attack: writes 1 TB behind its output
// expect: runtime_error
// because: nothing is mapped there
// rehearse: no
// fault: out_of_bounds
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
        y[i + (1ll << 38)] = 1.0f;
    }
}
