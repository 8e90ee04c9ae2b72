// problem: relu
// attack: writes nothing from the third launch of a size on, so that the output of the launch before would stand
// expect: incorrect
// because: outputs are overwritten before each launch
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch note grid=(1) block=(1) args=(n)

__device__ int same, last_n;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && !(last_n == n && same >= 2)) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void note(int n)
{
    same = last_n == n ? same + 1 : 1;
    last_n = n;
}
