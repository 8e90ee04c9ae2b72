// problem: relu
// attack: writes one element past the end of its output
// expect: runtime_error
// because: the guard behind a buffer begins at its very end
// rehearse: no
// fault: out_of_bounds
// message: past its end
// assay: launch work grid=(ceil_div(n + 1, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i <= n) {
        y[i] = i < n ? fmaxf(x[i], 0.0f) : 1.0f;
    }
}
