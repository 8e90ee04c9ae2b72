// problem: relu
// attack: an index below 0 reaches the array in front
// expect: passed
// because: what is read there is not used for an answer
// warns: array_overrun
// assay: launch relu grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    __shared__ float front[128];
    __shared__ float here[128];
    const int i = blockIdx.x * 128 + threadIdx.x;
    front[threadIdx.x] = here[threadIdx.x] = i < n ? fmaxf(x[i], 0.0f) : 0.0f;
    __syncthreads();
    const float mine = here[threadIdx.x], before = here[(int)threadIdx.x - 1] + front[threadIdx.x - 1 & 127];  // HERE
    if (i < n) y[i] = before > 1e30f ? mine + 0.0f : mine;
}
