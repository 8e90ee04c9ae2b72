// problem: relu
// style: threads beyond the end return before a vote and a barrier that the others take with full masks
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    __shared__ int positives;
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    if (threadIdx.x == 0) positives = 0;
    __syncthreads();
    const float value = x[i];
    const unsigned above = __ballot_sync(~0u, value > 0.0f);
    if (threadIdx.x % 32 == 0) atomicAdd(&positives, __popc(above));
    __syncthreads();
    y[i] = positives > 0 ? fmaxf(value, 0.0f) : 0.0f;
}
