// problem: attention
// style: a matrix of scores as a temporary, a part of one larger buffer as the result
#include <torch/extension.h>

__global__ void scores(const float* q, const float* k, float* s, int seq, int dim, float scale)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y, head = blockIdx.z;
    if (col >= seq) return;
    float sum = 0.f;
    for (int i = 0; i < dim; i++) sum += q[((size_t)head * seq + row) * dim + i] * k[((size_t)head * seq + col) * dim + i];
    s[((size_t)head * seq + row) * seq + col] = sum * scale;
}

__global__ void weighted(const float* s, const float* v, float* o, int seq, int dim)
{
    const float* row = s + ((size_t)blockIdx.y * seq + blockIdx.x) * seq;
    float most = -INFINITY, sum = 0.f;
    for (int i = 0; i < seq; i++) most = fmaxf(most, row[i]);
    for (int i = 0; i < seq; i++) sum += expf(row[i] - most);
    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        float made = 0.f;
        for (int i = 0; i < seq; i++) made += expf(row[i] - most) * v[((size_t)blockIdx.y * seq + i) * dim + d];
        o[((size_t)blockIdx.y * seq + blockIdx.x) * dim + d] = made / sum;
    }
}

torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V)
{
    const int64_t heads = Q.size(0), seq = Q.size(1), dim = Q.size(2);
    auto buffer = torch::empty({heads * seq * (seq + dim)}, Q.options());
    auto s = buffer.narrow(0, 0, heads * seq * seq), o = buffer.slice(0, heads * seq * seq).view({heads, seq, dim});
    scores<<<dim3((seq + 31) / 32, seq, heads), 32>>>(Q.data_ptr<float>(), K.data_ptr<float>(), s.data_ptr<float>(), seq, dim, 1.0f / sqrtf(dim));
    weighted<<<dim3(seq, heads), 32>>>(s.data_ptr<float>(), V.data_ptr<float>(), o.data_ptr<float>(), seq, dim);
    return o;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
