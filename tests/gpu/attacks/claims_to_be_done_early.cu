// problem: relu
// attack: lets dependent launches begin before it has computed anything, so that its events might end early
// expect: passed
// because: nothing after it was launched to begin early, so its time is whole
// rehearse: no
// twin: relu_twin
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
