// problem: prefix_sum
// class: schedule
// race: fence
// must: anything but passed
// why: look-back whose states, aggregates and prefixes are volatile, and no fence anywhere: volatile keeps the compiler from reordering, not the memory
// proof: PTX: ld.volatile and st.volatile are relaxed; message passing without release and acquire may read the old value
// assay: temp ticket uint32 (1)
// assay: temp state uint32 (ceil_div(n, 256))
// assay: temp value float32 (ceil_div(n, 256) * 2)
// assay: fill ticket value=0
// assay: fill state value=0
// assay: launch scan grid=(ceil_div(n, 256)) block=(256) args=(x, y, ticket, state, value, n)

__global__ void scan(const float* x, float* y, unsigned* ticket, volatile unsigned* state, volatile float* value, int n)
{
    __shared__ int tile;
    __shared__ float s[256], before;
    const int t = threadIdx.x;
    if (t == 0) tile = atomicAdd(ticket, 1u);
    __syncthreads();
    const int mine = tile, i = mine * 256 + t;
    s[t] = i < n ? x[i] : 0.0f;
    for (int d = 1; d < 256; d *= 2) {
        __syncthreads();
        const float u = t >= d ? s[t - d] : 0.0f;
        __syncthreads();
        s[t] += u;
    }
    if (t == 255) {
        float sum = 0.0f;
        if (mine) {
            value[2 * mine] = s[255];
            state[mine] = 1;
            int look = mine - 1;
            unsigned seen;
            do {
                while ((seen = state[look]) == 0) { }
                sum += value[2 * look + seen - 1];
                --look;
            } while (seen == 1);
        }
        value[2 * mine + 1] = sum + s[255];
        state[mine] = 2;
        before = sum;
    }
    __syncthreads();
    if (i < n) y[i] = s[t] + before;
}
