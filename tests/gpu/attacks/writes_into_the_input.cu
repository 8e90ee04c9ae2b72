// problem: relu
// attack: reaches the input from the output by address arithmetic and writes there
// expect: rejected
// because: inputs must come back as they were
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        float value = fmaxf(x[i], 0.0f);
        y[i] = value;
        y[i + (x - y)] = value;
    }
}
