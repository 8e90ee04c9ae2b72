// problem: saxpy
// assay: launch axpy grid=(128) block=(128) args=(x, y, out, alpha, n)
// style: 128 blocks of 128 threads in a while loop; one thread puts the coefficient into shared memory for all
__global__ void axpy( float *x, float *y, float *out, float alpha, int N ) {
    __shared__ float coefficient;
    if (threadIdx.x == 0)
        coefficient = alpha;
    __syncthreads();
    int tid = threadIdx.x + blockIdx.x * blockDim.x;
    while (tid < N) {
        out[tid] = coefficient * x[tid] + y[tid];
        tid += blockDim.x * gridDim.x;
    }
}
