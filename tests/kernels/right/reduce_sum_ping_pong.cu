// problem: reduce_sum
// assay: temp ping float32 (ceil_div(n, 32))
// assay: temp pong float32 (ceil_div(n, 1024))
// assay: launch fold32 grid=(ceil_div(n, 192)) block=(192) args=(x, ping, n)
// assay: launch fold32 grid=(ceil_div(ceil_div(n, 32), 192)) block=(192) args=(ping, pong, ceil_div(n, 32))
// assay: launch fold32 grid=(ceil_div(ceil_div(n, 1024), 192)) block=(192) args=(pong, ping, ceil_div(n, 1024))
// assay: launch fold32 grid=(ceil_div(ceil_div(n, 32768), 192)) block=(192) args=(ping, pong, ceil_div(n, 32768))
// assay: launch fold32 grid=(1) block=(192) args=(pong, ping, ceil_div(n, 1048576))
// assay: launch fold32 grid=(1) block=(32) args=(ping, total, ceil_div(n, 33554432))
// style: ping-pong between two temporaries, each launch folds 32 elements into one by a warp; six levels for 2^25
__global__ void fold32(const float* from, float* to, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? from[i] : 0.0f;
#pragma unroll
    for (int lane = 16; lane >= 1; lane >>= 1) v += __shfl_xor_sync(0xffffffffu, v, lane, 32);
    if (i < n && (i & 31) == 0) to[i >> 5] = v;
}
