// problem: prefix_sum
// assay: temp sums1 float32 (ceil_div(n, 512))
// assay: temp sums2 float32 (ceil_div(n, 512 * 512))
// assay: temp sums3 float32 (1)
// assay: launch prescan grid=(ceil_div(n, 512)) block=(256) args=(y, x, sums1, n)
// assay: launch prescan grid=(ceil_div(n, 512 * 512)) block=(256) args=(sums1, sums1, sums2, ceil_div(n, 512))
// assay: launch prescan grid=(1) block=(256) args=(sums2, sums2, sums3, ceil_div(n, 512 * 512))
// assay: launch uniform_add grid=(ceil_div(n, 512 * 512)) block=(256) args=(sums1, sums2, ceil_div(n, 512))
// assay: launch make_inclusive grid=(ceil_div(n, 512)) block=(256) args=(y, x, sums1, n)
// style: the book chapter's work-efficient scan: up-sweep, down-sweep, CONFLICT_FREE_OFFSET, two elements a thread
#define LOG_NUM_BANKS 5
#define CONFLICT_FREE_OFFSET(i) ((i) >> LOG_NUM_BANKS)

__global__ void prescan(float *g_odata, const float *g_idata, float *g_sums, int n)
{
    __shared__ float temp[512 + 16];
    const int thid = threadIdx.x, base = blockIdx.x * 512;
    int offset = 1;
    const int ai = thid, bi = thid + 256;
    temp[ai + CONFLICT_FREE_OFFSET(ai)] = base + ai < n ? g_idata[base + ai] : 0.0f;
    temp[bi + CONFLICT_FREE_OFFSET(bi)] = base + bi < n ? g_idata[base + bi] : 0.0f;

    for (int d = 256; d > 0; d >>= 1) {          // build sum in place up the tree
        __syncthreads();
        if (thid < d) {
            int a = offset * (2 * thid + 1) - 1;
            int b = offset * (2 * thid + 2) - 1;
            a += CONFLICT_FREE_OFFSET(a);
            b += CONFLICT_FREE_OFFSET(b);
            temp[b] += temp[a];
        }
        offset *= 2;
    }
    if (thid == 0) {                              // store and clear the last element
        g_sums[blockIdx.x] = temp[511 + CONFLICT_FREE_OFFSET(511)];
        temp[511 + CONFLICT_FREE_OFFSET(511)] = 0;
    }
    for (int d = 1; d < 512; d *= 2) {            // traverse down tree & build scan
        offset >>= 1;
        __syncthreads();
        if (thid < d) {
            int a = offset * (2 * thid + 1) - 1;
            int b = offset * (2 * thid + 2) - 1;
            a += CONFLICT_FREE_OFFSET(a);
            b += CONFLICT_FREE_OFFSET(b);
            float t = temp[a];
            temp[a] = temp[b];
            temp[b] += t;
        }
    }
    __syncthreads();
    if (base + ai < n) g_odata[base + ai] = temp[ai + CONFLICT_FREE_OFFSET(ai)];
    if (base + bi < n) g_odata[base + bi] = temp[bi + CONFLICT_FREE_OFFSET(bi)];
}

__global__ void uniform_add(float *g_data, const float *uniforms, int n)
{
    __shared__ float uni;
    if (threadIdx.x == 0) uni = uniforms[blockIdx.x];
    __syncthreads();
    const int i = blockIdx.x * 512 + threadIdx.x;
    if (i < n) g_data[i] += uni;
    if (i + 256 < n) g_data[i + 256] += uni;
}

__global__ void make_inclusive(float *y, const float *x, const float *uniforms, int n)
{
    const int i = blockIdx.x * 512 + threadIdx.x;
    if (i < n) y[i] = y[i] + x[i] + uniforms[blockIdx.x];
    if (i + 256 < n) y[i + 256] = y[i + 256] + x[i + 256] + uniforms[blockIdx.x];
}
