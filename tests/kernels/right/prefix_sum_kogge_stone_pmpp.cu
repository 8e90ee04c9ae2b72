// problem: prefix_sum
// assay: temp S float32 (ceil_div(n, 2048))
// assay: launch Kogge_Stone_coarsened grid=(ceil_div(n, 2048)) block=(512) args=(x, y, S, n)
// assay: launch scan_S grid=(1) block=(1024) args=(S, ceil_div(n, 2048))
// assay: launch distribute grid=(ceil_div(n, 2048)) block=(512) args=(y, S, n)
// style: the textbook's coarsened Kogge-Stone: sections of four in shared memory, partial sums scanned, then distributed
#define SECTION_SIZE 2048
#define COARSE_FACTOR 4

__global__ void Kogge_Stone_coarsened(float *X, float *Y, float *S, unsigned int N)
{
    __shared__ float XY[SECTION_SIZE];
    __shared__ float ends[SECTION_SIZE / COARSE_FACTOR];
    const unsigned int section = blockIdx.x * SECTION_SIZE;
    for (unsigned int j = 0; j < COARSE_FACTOR; ++j) {
        const unsigned int i = j * blockDim.x + threadIdx.x;
        XY[i] = section + i < N ? X[section + i] : 0.0f;
    }
    __syncthreads();
    const unsigned int own = threadIdx.x * COARSE_FACTOR;
    for (unsigned int j = 1; j < COARSE_FACTOR; ++j) XY[own + j] += XY[own + j - 1];
    ends[threadIdx.x] = XY[own + COARSE_FACTOR - 1];
    for (unsigned int stride = 1; stride < blockDim.x; stride *= 2) {
        __syncthreads();
        float temp = 0.0f;
        if (threadIdx.x >= stride) temp = ends[threadIdx.x - stride];
        __syncthreads();
        if (threadIdx.x >= stride) ends[threadIdx.x] += temp;
    }
    __syncthreads();
    if (threadIdx.x > 0)
        for (unsigned int j = 0; j < COARSE_FACTOR; ++j) XY[own + j] += ends[threadIdx.x - 1];
    __syncthreads();
    for (unsigned int j = 0; j < COARSE_FACTOR; ++j) {
        const unsigned int i = j * blockDim.x + threadIdx.x;
        if (section + i < N) Y[section + i] = XY[i];
    }
    if (threadIdx.x == blockDim.x - 1) S[blockIdx.x] = XY[SECTION_SIZE - 1];
}

__global__ void scan_S(float *S, unsigned int N)
{
    __shared__ float XY[1024];
    float carry = 0.0f;
    for (unsigned int base = 0; base < N; base += 1024) {
        const unsigned int i = base + threadIdx.x;
        XY[threadIdx.x] = i < N ? S[i] : 0.0f;
        for (unsigned int stride = 1; stride < 1024; stride *= 2) {
            __syncthreads();
            const float temp = threadIdx.x >= stride ? XY[threadIdx.x - stride] : 0.0f;
            __syncthreads();
            XY[threadIdx.x] += temp;
        }
        __syncthreads();
        if (i < N) S[i] = XY[threadIdx.x] + carry;
        carry += XY[1023];
        __syncthreads();
    }
}

__global__ void distribute(float *Y, float *S, unsigned int N)
{
    if (blockIdx.x == 0) return;
    for (unsigned int i = blockIdx.x * SECTION_SIZE + threadIdx.x; i < N && i < (blockIdx.x + 1) * SECTION_SIZE; i += blockDim.x)
        Y[i] += S[blockIdx.x - 1];
}
