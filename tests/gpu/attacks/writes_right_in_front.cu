// problem: relu
// attack: writes one element before the start of its output
// expect: runtime_error
// because: there is a guard in front of every buffer
// rehearse: no
// fault: out_of_bounds
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0) {
        y[-1] = 1.0f;
    }
}
