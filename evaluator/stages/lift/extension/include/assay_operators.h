// Operators of PyTorch's own, which compute: each ends the recording with its name. Included inside namespace at.
#pragma once

// What is given to one may begin with a list in braces, of which no type can be deduced.
#define ASSAY_METHOD(name)                                                                              \
    template <typename... A> Tensor name(A &&...) const { assay::operator_called(#name); }             \
    template <typename... A> Tensor name(IntArrayRef, A &&...) const { assay::operator_called(#name); }
#define ASSAY_FUNCTION(name)                                                                            \
    template <typename... A> Tensor name(A &&...) { assay::operator_called(#name); }                   \
    template <typename... A> Tensor name(const Tensor &, IntArrayRef, A &&...) { assay::operator_called(#name); } \
    template <typename... A> Tensor name(std::initializer_list<Tensor>, A &&...) { assay::operator_called(#name); } \
    template <typename... A> Tensor name(std::initializer_list<int64_t>, A &&...) { assay::operator_called(#name); }
// Over all elements one tensor, along a dimension values and indices, with another tensor one.
#define ASSAY_PAIR_METHOD(name)                                                                         \
    Tensor name() const { assay::operator_called(#name); }                                             \
    Tensor name(const Tensor &) const { assay::operator_called(#name); }                               \
    template <typename... A> std::tuple<Tensor, Tensor> name(int64_t, A &&...) const { assay::operator_called(#name); }
#define ASSAY_PAIR_FUNCTION(name)                                                                       \
    inline Tensor name(const Tensor &) { assay::operator_called(#name); }                              \
    inline Tensor name(const Tensor &, const Tensor &) { assay::operator_called(#name); }              \
    template <typename... A> std::tuple<Tensor, Tensor> name(const Tensor &, int64_t, A &&...) { assay::operator_called(#name); }

#define ASSAY_BOTH(_) \
    _(abs) _(absolute) _(acos) _(acosh) _(adaptive_avg_pool2d) _(adaptive_max_pool2d) _(add) _(addcdiv) _(addcmul) \
    _(addmm) _(addmv) _(addr) _(all) _(allclose) _(amax) _(amin) _(aminmax) _(angle) _(any) _(arange) _(argmax) \
    _(argmin) _(argsort) _(asin) _(atan) _(atan2) _(avg_pool1d) _(avg_pool2d) _(avg_pool3d) _(baddbmm) _(batch_norm) \
    _(bernoulli) _(bilinear) _(binary_cross_entropy) _(binary_cross_entropy_with_logits) _(bincount) _(bitwise_and) \
    _(bitwise_or) _(bitwise_xor) _(bmm) _(broadcast_to) _(bucketize) _(cat) _(cdist) _(ceil) _(celu) _(cholesky) \
    _(clamp) _(clamp_max) _(clamp_min) _(clip) _(concat) _(constant_pad_nd) _(conv1d) _(conv2d) _(conv3d) \
    _(conv_transpose1d) _(conv_transpose2d) _(conv_transpose3d) _(convolution) _(cos) _(cosh) _(cosine_similarity) \
    _(count_nonzero) _(cross) _(cross_entropy) _(cross_entropy_loss) _(cudnn_convolution) _(cumprod) _(cumsum) \
    _(deg2rad) _(diag) _(diag_embed) _(diagonal) _(diff) _(digamma) _(dist) _(div) _(divide) _(dot) _(dropout) \
    _(einsum) _(elu) _(embedding) _(eq) _(erf) _(erfc) _(erfinv) _(exp) _(exp2) _(expm1) _(eye) _(fft_fft) \
    _(fft_irfft) _(fft_rfft) _(flip) _(floor) _(floor_divide) _(fmod) _(fold) _(frac) _(gather) _(gcd) _(ge) _(gelu) \
    _(glu) _(greater) _(group_norm) _(gt) _(hardshrink) _(hardsigmoid) _(hardswish) _(hardtanh) \
    _(hinge_embedding_loss) _(histc) _(hstack) _(huber_loss) _(index) _(index_add) _(index_copy) _(index_fill) \
    _(index_put) _(index_select) _(inner) _(instance_norm) _(interpolate) _(inverse) _(isclose) _(isfinite) _(isinf) \
    _(isnan) _(kl_div) _(l1_loss) _(layer_norm) _(le) _(leaky_relu) _(lerp) _(less) _(lgamma) _(linalg_norm) \
    _(linalg_vector_norm) _(linear) _(linspace) _(log) _(log10) _(log1p) _(log2) _(log_sigmoid) _(log_softmax) \
    _(logaddexp) _(logical_and) _(logical_not) _(logical_or) _(logit) _(logsumexp) _(lstm) _(lt) \
    _(margin_ranking_loss) _(masked_fill) _(masked_scatter) _(masked_select) _(matmul) _(matrix_exp) _(max_pool1d) \
    _(max_pool2d) _(max_pool3d) _(maximum) _(mean) _(minimum) _(mish) _(mm) _(mse_loss) _(mul) \
    _(multi_head_attention_forward) _(multinomial) _(multiply) _(mv) _(nan_to_num) _(native_batch_norm) \
    _(native_layer_norm) _(ne) _(neg) _(negative) _(nll_loss) _(nonzero) _(norm) _(normal) _(normalize) _(not_equal) \
    _(one_hot) _(outer) _(pad) _(pdist) _(pixel_shuffle) _(poisson) _(pow) _(prelu) _(prod) _(put) _(qr) _(quantile) \
    _(rand) _(rand_like) _(randint) _(randn) _(randn_like) _(randperm) _(range) _(reciprocal) _(relu) _(relu6) \
    _(remainder) _(renorm) _(repeat) _(repeat_interleave) _(rms_norm) _(roll) _(rot90) _(round) _(rrelu) _(rsqrt) \
    _(scaled_dot_product_attention) _(scatter) _(scatter_add) _(scatter_reduce) _(searchsorted) _(selu) _(sigmoid) \
    _(sign) _(signbit) _(silu) _(sin) _(sinc) _(sinh) _(slogdet) _(smooth_l1_loss) _(softmax) _(softmin) _(softplus) \
    _(softshrink) _(softsign) _(sqrt) _(square) _(stack) _(std) _(std_mean) _(sub) _(subtract) _(sum) _(take) \
    _(take_along_dim) _(tan) _(tanh) _(tanhshrink) _(tensordot) _(threshold) _(tile) _(trace) _(tril) \
    _(triplet_margin_loss) _(triu) _(true_divide) _(trunc) _(unfold) _(uniform) _(unique) _(upsample_bilinear2d) \
    _(upsample_nearest2d) _(var) _(var_mean) _(vdot) _(vstack) _(where) _(xlogy)
#define ASSAY_PAIRS(_) \
    _(max) _(min) _(sort) _(topk) _(median) _(mode) _(kthvalue) _(cummax) _(cummin)
#define ASSAY_IN_PLACE(_) \
    _(abs_) _(add_) _(addcdiv_) _(addcmul_) _(addmm_) _(baddbmm_) _(bernoulli_) _(ceil_) _(clamp_) _(clamp_max_) \
    _(clamp_min_) _(copysign_) _(cos_) _(div_) _(dropout_) _(elu_) _(erf_) _(exp_) _(exponential_) _(floor_) _(gelu_) \
    _(index_add_) _(index_copy_) _(index_fill_) _(index_put_) _(leaky_relu_) _(lerp_) _(log_) _(masked_fill_) _(mul_) \
    _(neg_) _(normal_) _(pow_) _(random_) _(reciprocal_) _(relu_) _(resize_) _(round_) _(rsqrt_) _(scatter_) \
    _(scatter_add_) _(scatter_reduce_) _(sigmoid_) _(silu_) _(sin_) _(sqrt_) _(square_) _(sub_) _(tanh_) _(tril_) \
    _(triu_) _(uniform_)
#define ASSAY_INTO(_) \
    _(add_out) _(addmm_out) _(baddbmm_out) _(bmm_out) _(cat_out) _(div_out) _(exp_out) _(gelu_out) _(linear_out) \
    _(matmul_out) _(max_out) _(mean_out) _(mm_out) _(mul_out) _(mv_out) _(relu_out) _(sigmoid_out) _(softmax_out) \
    _(sub_out) _(sum_out) _(tanh_out) _(log_softmax_out)
#define ASSAY_CASTS(_) \
    _(to_sparse) _(to_dense) _(bfloat16) _(nan_to_num_) _(storage) _(sum_to_size) _(type_as)

#define ASSAY_METHODS ASSAY_BOTH(ASSAY_METHOD) ASSAY_IN_PLACE(ASSAY_METHOD) ASSAY_CASTS(ASSAY_METHOD)
#define ASSAY_FUNCTIONS ASSAY_BOTH(ASSAY_FUNCTION) ASSAY_IN_PLACE(ASSAY_FUNCTION) ASSAY_INTO(ASSAY_FUNCTION)
#define ASSAY_PAIR_METHODS ASSAY_PAIRS(ASSAY_PAIR_METHOD)
#define ASSAY_PAIR_FUNCTIONS ASSAY_PAIRS(ASSAY_PAIR_FUNCTION)
