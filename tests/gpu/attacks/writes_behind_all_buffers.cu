// problem: relu
// attack: at small sizes it writes 40 MB behind its output, where no buffer is but memory is mapped
// expect: runtime_error
// because: whatever is written outside of the buffers is a fault
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0 && n < 1 << 20) {
        y[10 << 20] = 1.0f;
    }
}
