// problem: reduce_sum
// assay: temp sums float32 (ceil_div(n, 1024))
// assay: temp rest float32 (ceil_div(n, 1024 * 1024))
// assay: launch reduce4 grid=(ceil_div(n, 1024)) block=(512) args=(x, sums, n)
// assay: launch reduce4 grid=(ceil_div(n, 1024 * 1024)) block=(512) args=(sums, rest, ceil_div(n, 1024))
// assay: launch reduce4 grid=(1) block=(512) args=(rest, total, ceil_div(n, 1024 * 1024))
// style: the reduction lecture, step 5: the last warp unrolled, with a read, __syncwarp and a write for each line
__device__ void warp_reduce(float* s, int t)
{
    float v = s[t];
    v += s[t + 32]; __syncwarp(); s[t] = v; __syncwarp();
    v += s[t + 16]; __syncwarp(); s[t] = v; __syncwarp();
    v += s[t + 8];  __syncwarp(); s[t] = v; __syncwarp();
    v += s[t + 4];  __syncwarp(); s[t] = v; __syncwarp();
    v += s[t + 2];  __syncwarp(); s[t] = v; __syncwarp();
    v += s[t + 1];  __syncwarp(); s[t] = v;
}

__global__ void reduce4(const float* in, float* out, int n)
{
    __shared__ float sdata[512];
    const int tid = threadIdx.x;
    const int i = blockIdx.x * 1024 + tid;
    sdata[tid] = (i < n ? in[i] : 0.f) + (i + 512 < n ? in[i + 512] : 0.f);
    __syncthreads();
    for (int s = 256; s > 32; s >>= 1) {
        if (tid < s) sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid < 32) warp_reduce(sdata, tid);
    if (tid == 0) out[blockIdx.x] = sdata[0];
}
