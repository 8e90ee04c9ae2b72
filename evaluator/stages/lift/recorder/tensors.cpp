// Tensors of extensions: sizes, strides and a made-up address; those of the host have real memory.

#include "assay_cuda.h"
#include "assay_tensor.h"
#include "recorder.h"

#include <sys/mman.h>

namespace assay {

struct TensorFacts {
    unsigned long long base = 0;
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0, numel = 1;
    c10::ScalarType type = c10::kFloat;
    bool on_device = true;
};

void operator_called(const char *name) { refuse("operator", name); }
void host_reads(const char *name) { refuse("host_reads", name); }
void check_failed(const std::string &text) { throw c10::Error(text); }

} // namespace assay

namespace {

using assay::check_failed;
using assay::said;
using assay::TensorFacts;

int64_t product(c10::IntArrayRef sizes) {
    int64_t made = 1;
    for (int64_t one : sizes) {
        if (one < 0) check_failed(said("Trying to create tensor with negative dimension ", one, ": ", sizes));
        if (__builtin_mul_overflow(made, one, &made) || made > (1ll << 48)) check_failed(said("a tensor of sizes ", sizes, " is too large"));
    }
    return made;
}

std::vector<int64_t> dense(c10::IntArrayRef sizes) {
    std::vector<int64_t> strides(sizes.size());
    int64_t step = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
        strides[i] = step;
        step *= sizes[i] > 1 ? sizes[i] : 1;
    }
    return strides;
}

// Strides of what lies as a memory format says: its dimensions from the innermost outwards. False where it has another number of them.
bool strides_in(c10::MemoryFormat format, c10::IntArrayRef sizes, std::vector<int64_t> &strides) {
    size_t dims = sizes.size();
    if (format == c10::MemoryFormat::Contiguous) {
        strides = dense(sizes);
        return true;
    }
    if (dims != (format == c10::MemoryFormat::ChannelsLast ? 4u : 5u)) return false;
    strides.assign(dims, 1);
    int64_t step = 1;
    for (size_t i = 0; i < dims; i++) {
        size_t dim = i == 0 ? 1 : i == dims - 1 ? 0 : dims - i;
        strides[dim] = step;
        step *= sizes[dim] > 1 ? sizes[dim] : 1;
    }
    return true;
}

// The dimensions from the innermost outwards, as PyTorch sorts them where it keeps a layout (infer_dense_strides).
std::vector<size_t> innermost_first(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
    std::vector<size_t> order;
    for (size_t i = sizes.size(); i-- > 0;) order.push_back(i);
    auto comes_later = [&](size_t one, size_t other) {
        if (!strides[one] || !strides[other]) return 0;
        if (strides[one] != strides[other]) return strides[one] < strides[other] ? -1 : 1;
        return sizes[one] > sizes[other] ? 1 : 0;
    };
    for (size_t i = 1; i < order.size(); i++) {
        size_t at = i;
        for (size_t j = i; j-- > 0;) {
            int later = comes_later(order[j], order[at]);
            if (later < 0) break;
            if (later > 0) std::swap(order[j], order[at]), at = j;
        }
    }
    return order;
}

std::vector<int64_t> dense_in_the_order_of(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
    std::vector<int64_t> made(sizes.size(), 1);
    int64_t step = 1;
    for (size_t dim : innermost_first(sizes, strides)) {
        made[dim] = step;
        step *= sizes[dim] > 1 ? sizes[dim] : 1;
    }
    return made;
}

// Where elements lie is the same, though dimensions of one element have other strides.
bool same_places(c10::IntArrayRef sizes, c10::IntArrayRef one, c10::IntArrayRef other) {
    for (size_t i = 0; i < sizes.size(); i++)
        if (sizes[i] != 1 && one[i] != other[i]) return false;
    return true;
}

// The memory of the host's tensors is in a place of its own: no kernel can follow an address there.
unsigned long long host_memory(size_t bytes) {
    constexpr unsigned long long first = 3ull << 45;
    static unsigned long long next = first;
    size_t whole = (bytes + 4096) & ~(size_t)4095;
    void *made = mmap((void *)next, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (made == MAP_FAILED) check_failed("the host has no memory left");
    next += whole + 4096;
    recorder().host_tensors = first, recorder().host_tensors_end = next;
    return (unsigned long long)made;
}

at::Tensor made(c10::IntArrayRef sizes, c10::TensorOptions options) {
    TensorFacts *facts = new TensorFacts;
    facts->sizes = sizes.vec();
    c10::MemoryFormat format = options.memory_format_opt().value_or(c10::MemoryFormat::Contiguous);
    if (format == c10::MemoryFormat::Preserve) format = c10::MemoryFormat::Contiguous;
    if (!strides_in(format, sizes, facts->strides)) check_failed(said("required rank ", format == c10::MemoryFormat::ChannelsLast ? 4 : 5, " tensor to use channels_last format"));
    facts->numel = product(sizes);
    facts->type = options.dtype().type;
    facts->on_device = options.device().is_cuda();
    size_t bytes = (size_t)facts->numel * c10::elementSize(facts->type);
    if (!facts->on_device) {
        facts->base = host_memory(bytes);
    } else if (bytes) {
        void *address = nullptr;
        if (cudaMalloc(&address, bytes) != cudaSuccess) refuse("too_large_buffer", "", (long long)(bytes >> 20));
        facts->base = (unsigned long long)address;
    }
    return at::Tensor(facts);
}

TensorFacts *facts_of(const at::Tensor &tensor, const char *what) {
    if (!tensor.defined()) check_failed(said("Expected a proper Tensor but got None (or an undefined Tensor in C++): ", what));
    return tensor.facts();
}

at::Tensor viewed(const at::Tensor &of, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset) {
    TensorFacts *facts = new TensorFacts(*facts_of(of, "a view"));
    facts->numel = product(sizes);
    facts->sizes = std::move(sizes);
    facts->strides = std::move(strides);
    facts->offset = offset;
    return at::Tensor(facts);
}

size_t wrapped(int64_t dim, int64_t dims) {
    int64_t most = dims ? dims : 1;
    if (dim < -most || dim >= most) check_failed(said("Dimension out of range (expected to be in range of [", -most, ", ", most - 1, "], but got ", dim, ")"));
    return (size_t)(dim < 0 ? dim + most : dim);
}

std::vector<int64_t> inferred(c10::IntArrayRef sizes, int64_t numel) {
    std::vector<int64_t> made = sizes.vec();
    int64_t known = 1, open = -1;
    for (size_t i = 0; i < made.size(); i++) {
        if (made[i] == -1 && open < 0) open = (int64_t)i;
        else if (made[i] < 0) check_failed(said("invalid shape dimension ", made[i]));
        else known *= made[i];
    }
    if (open >= 0 && known > 0 && numel % known == 0) made[(size_t)open] = numel / known, known = numel;
    if (known != numel) check_failed(said("shape '", sizes, "' is invalid for input of size ", numel));
    return made;
}

// Strides of the same elements in other sizes; false where there are none. After what torch.Tensor.view documents.
bool strides_of_view(const TensorFacts &of, const std::vector<int64_t> &sizes, std::vector<int64_t> &strides) {
    strides.assign(sizes.size(), 1);
    if (!of.numel) {
        strides = dense(sizes);
        return true;
    }
    int64_t at = (int64_t)sizes.size() - 1, base = of.sizes.empty() ? 1 : of.strides.back(), elements = 1, viewed_elements = 1;
    for (int64_t d = (int64_t)of.sizes.size() - 1; d >= 0; d--) {
        elements *= of.sizes[(size_t)d];
        if (d == 0 || (of.sizes[(size_t)d - 1] != 1 && of.strides[(size_t)d - 1] != elements * base)) {
            while (at >= 0 && (viewed_elements < elements || sizes[(size_t)at] == 1)) {
                strides[(size_t)at] = viewed_elements * base;
                viewed_elements *= sizes[(size_t)at--];
            }
            if (viewed_elements != elements) return false;
            if (d > 0) base = of.strides[(size_t)d - 1], elements = viewed_elements = 1;
        }
    }
    for (; at >= 0; at--) strides[(size_t)at] = base;
    return true;
}

unsigned short half_of(float value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    unsigned sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 255, mantissa = bits & 0x7fffff;
    if (exponent == 255) return (unsigned short)(sign | 0x7c00 | (mantissa ? 0x200 : 0));
    int e = (int)exponent - 112;
    if (e >= 31) return (unsigned short)(sign | 0x7c00);
    if (e < -10) return (unsigned short)sign;
    mantissa |= 0x800000;
    int shift = e <= 0 ? 14 - e : 13;
    unsigned kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
    kept += rest > middle || (rest == middle && (kept & 1));
    if (e > 0) kept += (unsigned)(e - 1) << 10;
    return (unsigned short)(sign | kept);
}

unsigned short bfloat16_of(float value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return (unsigned short)(bits >> 16 | 0x40);
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The bytes of one element.
std::string bytes_of(const c10::Scalar &value, c10::ScalarType type) {
    auto raw = [](auto held) { return std::string((const char *)&held, sizeof held); };
    switch (type) {
    case c10::kFloat: return raw(value.toFloat());
    case c10::kDouble: return raw(value.toDouble());
    case c10::kHalf: return raw(half_of(value.toFloat()));
    case c10::kBFloat16: return raw(bfloat16_of(value.toFloat()));
    case c10::kBool: return raw((char)value.toBool());
    case c10::kByte: return raw(value.to<uint8_t>());
    case c10::kChar: return raw(value.to<int8_t>());
    case c10::kShort: return raw(value.to<int16_t>());
    case c10::kUInt16: return raw(value.to<uint16_t>());
    case c10::kInt: return raw(value.to<int32_t>());
    case c10::kUInt32: return raw(value.to<uint32_t>());
    case c10::kLong: return raw(value.to<int64_t>());
    case c10::kUInt64: return raw(value.to<uint64_t>());
    default: check_failed(said("a tensor of type ", type, " cannot be filled"));
    }
}

void fill(const at::Tensor &tensor, const c10::Scalar &value, const char *call) {
    TensorFacts *facts = facts_of(tensor, call);
    if (!facts->numel) return;
    if (!tensor.is_non_overlapping_and_dense()) assay::operator_called(call);
    std::string element = bytes_of(value, facts->type);
    if (facts->on_device) {
        record_fill(tensor.data_ptr(), in_hex(element.data(), element.size()), tensor.nbytes(), recorder().current_stream, call);
        return;
    }
    for (int64_t i = 0; i < facts->numel; i++) memcpy((char *)tensor.data_ptr() + (size_t)i * element.size(), element.data(), element.size());
}

} // namespace

namespace c10 {

const char *toString(ScalarType type) {
    switch (type) {
#define ASSAY_NAME(_, name) \
    case ScalarType::name: return #name;
        ASSAY_ELEMENTS(ASSAY_NAME)
#undef ASSAY_NAME
    default: return "UNKNOWN_SCALAR";
    }
}

size_t elementSize(ScalarType type) {
    switch (type) {
    case kDouble: case kLong: case kUInt64: case ScalarType::ComplexFloat: return 8;
    case kFloat: case kInt: case kUInt32: case ScalarType::ComplexHalf: case ScalarType::QInt32: return 4;
    case kHalf: case kBFloat16: case kShort: case kUInt16: return 2;
    case ScalarType::ComplexDouble: return 16;
    default: return 1;
    }
}

} // namespace c10

namespace at {

int64_t Tensor::dim() const { return (int64_t)facts_of(*this, "dim")->sizes.size(); }
int64_t Tensor::size(int64_t dim) const {
    TensorFacts *f = facts_of(*this, "size");
    size_t at = wrapped(dim, (int64_t)f->sizes.size());
    if (f->sizes.empty()) check_failed("Dimension specified as 0 but tensor has no dimensions");
    return f->sizes[at];
}
int64_t Tensor::stride(int64_t dim) const {
    TensorFacts *f = facts_of(*this, "stride");
    size_t at = wrapped(dim, (int64_t)f->sizes.size());
    if (f->sizes.empty()) check_failed("Dimension specified as 0 but tensor has no dimensions");
    return f->strides[at];
}
IntArrayRef Tensor::sizes() const { return facts_of(*this, "sizes")->sizes; }
IntArrayRef Tensor::strides() const { return facts_of(*this, "strides")->strides; }
int64_t Tensor::numel() const { return facts_ ? facts_->numel : 0; }
int64_t Tensor::storage_offset() const { return facts_of(*this, "storage_offset")->offset; }
ScalarType Tensor::scalar_type() const { return facts_of(*this, "scalar_type")->type; }
Device Tensor::device() const { return facts_of(*this, "device")->on_device ? Device(kCUDA, 0) : Device(kCPU); }
bool Tensor::is_contiguous(MemoryFormat format) const {
    TensorFacts *f = facts_of(*this, "is_contiguous");
    if (format == MemoryFormat::Preserve) check_failed("is_contiguous does not support preserve memory format");
    std::vector<int64_t> strides;
    if (!strides_in(format, f->sizes, strides)) return false;
    return !f->numel || same_places(f->sizes, f->strides, strides);
}
bool Tensor::is_non_overlapping_and_dense() const {
    TensorFacts *f = facts_of(*this, "is_non_overlapping_and_dense");
    return !f->numel || same_places(f->sizes, f->strides, dense_in_the_order_of(f->sizes, f->strides));
}
// That of the strides alone, dimensions of one element counted: as PyTorch's is_channels_last_strides_2d.
MemoryFormat Tensor::suggest_memory_format(bool) const {
    TensorFacts *f = facts_of(*this, "suggest_memory_format");
    size_t dims = f->sizes.size();
    if ((dims != 4 && dims != 5) || !f->strides[1]) return MemoryFormat::Contiguous;
    int64_t least = 0;
    for (size_t i = 0; i < dims; i++) {
        size_t dim = i == 0 ? 1 : i == dims - 1 ? 0 : dims - i;
        if (!f->sizes[dim] || f->strides[dim] < least || (!dim && least == f->strides[1])) return MemoryFormat::Contiguous;
        least = f->strides[dim] * (f->sizes[dim] > 1 ? f->sizes[dim] : 1);
    }
    return dims == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
}

void *Tensor::data_ptr() const {
    TensorFacts *f = facts_of(*this, "data_ptr");
    return f->numel ? (void *)(f->base + (unsigned long long)f->offset * elementSize(f->type)) : nullptr;
}
void *Tensor::checked_data(ScalarType type) const {
    TensorFacts *f = facts_of(*this, "data_ptr");
    if (f->type != type) check_failed(said("expected scalar type ", type, " but found ", f->type));
    return data_ptr();
}

Tensor Tensor::view(IntArrayRef sizes) const {
    TensorFacts *f = facts_of(*this, "view");
    std::vector<int64_t> wanted = inferred(sizes, f->numel), strides;
    if (!strides_of_view(*f, wanted, strides))
        check_failed("view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
    return viewed(*this, wanted, strides, f->offset);
}
Tensor Tensor::view(ScalarType type) const {
    TensorFacts *f = facts_of(*this, "view");
    if (elementSize(type) != elementSize(f->type)) assay::operator_called("view");
    Tensor made = viewed(*this, f->sizes, f->strides, f->offset);
    made.facts_->type = type;
    return made;
}
Tensor Tensor::reshape(IntArrayRef sizes) const {
    TensorFacts *f = facts_of(*this, "reshape");
    std::vector<int64_t> wanted = inferred(sizes, f->numel), strides;
    if (!strides_of_view(*f, wanted, strides)) assay::operator_called("reshape");
    return viewed(*this, wanted, strides, f->offset);
}
Tensor Tensor::flatten(int64_t from, int64_t to) const {
    if (!dim()) return reshape(IntArrayRef(1));
    size_t first = wrapped(from, dim()), last = wrapped(to, dim());
    std::vector<int64_t> made;
    for (size_t i = 0; i < (size_t)dim(); i++) {
        if (i > first && i <= last) made.back() *= size((int64_t)i);
        else made.push_back(size((int64_t)i));
    }
    return reshape(made);
}
Tensor Tensor::squeeze() const {
    TensorFacts *f = facts_of(*this, "squeeze");
    std::vector<int64_t> sizes, strides;
    for (size_t i = 0; i < f->sizes.size(); i++)
        if (f->sizes[i] != 1) sizes.push_back(f->sizes[i]), strides.push_back(f->strides[i]);
    return viewed(*this, sizes, strides, f->offset);
}
Tensor Tensor::squeeze(int64_t dim) const {
    TensorFacts *f = facts_of(*this, "squeeze");
    size_t at = wrapped(dim, this->dim());
    std::vector<int64_t> sizes = f->sizes, strides = f->strides;
    if (at < sizes.size() && sizes[at] == 1) sizes.erase(sizes.begin() + (long)at), strides.erase(strides.begin() + (long)at);
    return viewed(*this, sizes, strides, f->offset);
}
Tensor Tensor::unsqueeze(int64_t dim) const {
    TensorFacts *f = facts_of(*this, "unsqueeze");
    size_t at = wrapped(dim, this->dim() + 1);
    std::vector<int64_t> sizes = f->sizes, strides = f->strides;
    strides.insert(strides.begin() + (long)at, at < sizes.size() ? sizes[at] * strides[at] : 1);
    sizes.insert(sizes.begin() + (long)at, 1);
    return viewed(*this, sizes, strides, f->offset);
}
Tensor Tensor::transpose(int64_t a, int64_t b) const {
    TensorFacts *f = facts_of(*this, "transpose");
    size_t one = wrapped(a, dim()), other = wrapped(b, dim());
    std::vector<int64_t> sizes = f->sizes, strides = f->strides;
    if (!sizes.empty()) std::swap(sizes[one], sizes[other]), std::swap(strides[one], strides[other]);
    return viewed(*this, sizes, strides, f->offset);
}
Tensor Tensor::t() const {
    if (dim() > 2) check_failed(said("t() expects a tensor with <= 2 dimensions, but self is ", dim(), "D"));
    return dim() < 2 ? *this : transpose(0, 1);
}
Tensor Tensor::permute(IntArrayRef dims) const {
    TensorFacts *f = facts_of(*this, "permute");
    if (dims.size() != f->sizes.size()) check_failed("permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions");
    std::vector<int64_t> sizes, strides;
    std::vector<bool> seen(dims.size());
    for (int64_t one : dims) {
        size_t at = wrapped(one, dim());
        if (seen[at]) check_failed("permute(): duplicate dims are not allowed.");
        seen[at] = true;
        sizes.push_back(f->sizes[at]);
        strides.push_back(f->strides[at]);
    }
    return viewed(*this, sizes, strides, f->offset);
}
Tensor Tensor::expand(IntArrayRef wanted, bool) const {
    TensorFacts *f = facts_of(*this, "expand");
    std::vector<int64_t> sizes = wanted.vec(), strides(wanted.size(), 0);
    size_t more = wanted.size() - f->sizes.size();
    if (wanted.size() < f->sizes.size()) check_failed(said("expand: the number of sizes provided (", wanted.size(), ") must be greater or equal to the number of dimensions in the tensor (", f->sizes.size(), ")"));
    for (size_t i = 0; i < wanted.size(); i++) {
        int64_t has = i < more ? 1 : f->sizes[i - more];
        if (sizes[i] == -1) sizes[i] = has;
        if (has != sizes[i] && has != 1) check_failed(said("The expanded size of the tensor (", sizes[i], ") must match the existing size (", has, ") at non-singleton dimension ", i));
        strides[i] = has == sizes[i] && i >= more ? f->strides[i - more] : 0;
    }
    return viewed(*this, sizes, strides, f->offset);
}
Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const {
    TensorFacts *f = facts_of(*this, "narrow");
    size_t at = wrapped(dim, this->dim());
    std::vector<int64_t> sizes = f->sizes;
    if (start < 0) start += size(dim);
    if (start < 0 || length < 0 || start + length > size(dim)) check_failed(said("start (", start, ") + length (", length, ") exceeds dimension size (", size(dim), ")."));
    sizes[at] = length;
    return viewed(*this, sizes, f->strides, f->offset + start * f->strides[at]);
}
Tensor Tensor::select(int64_t dim, int64_t index) const {
    TensorFacts *f = facts_of(*this, "select");
    if (f->sizes.empty()) check_failed("select() cannot be applied to a 0-dim tensor.");
    size_t at = wrapped(dim, this->dim());
    if (index < -f->sizes[at] || index >= f->sizes[at]) check_failed(said("select(): index ", index, " out of range for tensor of size ", this->sizes(), " at dimension ", dim));
    if (index < 0) index += f->sizes[at];
    std::vector<int64_t> sizes = f->sizes, strides = f->strides;
    int64_t offset = f->offset + index * strides[at];
    sizes.erase(sizes.begin() + (long)at);
    strides.erase(strides.begin() + (long)at);
    return viewed(*this, sizes, strides, offset);
}
Tensor Tensor::slice(int64_t dim, optional<int64_t> start, optional<int64_t> end, int64_t step) const {
    TensorFacts *f = facts_of(*this, "slice");
    if (step <= 0) check_failed("slice step must be positive");
    size_t at = wrapped(dim, this->dim());
    int64_t most = size(dim), from = start.value_or(0), to = end.value_or(most);
    auto within = [&](int64_t x) { return x < 0 ? (x + most < 0 ? 0 : x + most) : (x > most ? most : x); };
    from = within(from);
    to = within(to) < from ? from : within(to);
    std::vector<int64_t> sizes = f->sizes, strides = f->strides;
    int64_t offset = f->offset + from * strides[at];
    sizes[at] = (to - from + step - 1) / step;
    strides[at] *= step;
    return viewed(*this, sizes, strides, offset);
}
Tensor Tensor::as_strided(IntArrayRef sizes, IntArrayRef strides, optional<int64_t> offset) const {
    return viewed(*this, sizes.vec(), strides.vec(), offset.value_or(storage_offset()));
}
std::vector<Tensor> Tensor::split(int64_t many, int64_t dim) const {
    if (many <= 0) check_failed("split expects split_size be positive");
    std::vector<Tensor> made;
    for (int64_t at = 0; at < size(dim); at += many) made.push_back(narrow(dim, at, size(dim) - at < many ? size(dim) - at : many));
    return made;
}
std::vector<Tensor> Tensor::split_with_sizes(IntArrayRef sizes, int64_t dim) const {
    std::vector<Tensor> made;
    int64_t at = 0;
    for (int64_t one : sizes) {
        made.push_back(narrow(dim, at, one));
        at += one;
    }
    if (at != size(dim)) check_failed(said("split_with_sizes expects split_sizes to sum exactly to ", size(dim), ", but got split_sizes=", sizes));
    return made;
}
std::vector<Tensor> Tensor::chunk(int64_t many, int64_t dim) const {
    if (many <= 0) check_failed("chunk expects `chunks` to be greater than 0");
    int64_t each = (size(dim) + many - 1) / many;
    return split(each ? each : 1, dim);
}
std::vector<Tensor> Tensor::unbind(int64_t dim) const {
    std::vector<Tensor> made;
    for (int64_t i = 0; i < size(dim); i++) made.push_back(select(dim, i));
    return made;
}

Tensor Tensor::contiguous(MemoryFormat format) const {
    if (is_contiguous(format)) return *this;
    assay::operator_called("contiguous");
}
Tensor Tensor::clone(optional<MemoryFormat> format) const {
    // A copy of the memory as it lies, and nothing that moves elements.
    Tensor copy = empty_like(*this, {}, format);
    if (!is_non_overlapping_and_dense() || (numel() && !same_places(sizes(), strides(), copy.strides()))) assay::operator_called("clone");
    copy.copy_(*this);
    return copy;
}
const Tensor &Tensor::copy_(const Tensor &from, bool) const {
    TensorFacts *to_facts = facts_of(*this, "copy_"), *from_facts = facts_of(from, "copy_");
    if (!from_facts->on_device && !to_facts->on_device && from.scalar_type() != scalar_type()) assay::operator_called("copy_");
    if (sizes() != from.sizes() || scalar_type() != from.scalar_type()) assay::operator_called("copy_");
    if (numel() && (!is_non_overlapping_and_dense() || !same_places(sizes(), strides(), from.strides()))) assay::operator_called("copy_");
    if (from_facts->on_device && !to_facts->on_device) assay::host_reads("copy_");
    cudaMemcpyAsync(data_ptr(), from.data_ptr(), nbytes(), cudaMemcpyDefault, recorder().current_stream);
    return *this;
}
const Tensor &Tensor::zero_() const {
    fill(*this, 0, "zero_");
    return *this;
}
const Tensor &Tensor::fill_(const Scalar &value) const {
    fill(*this, value, "fill_");
    return *this;
}
Tensor Tensor::to(const TensorOptions &wanted, bool, bool copy) const {
    if (wanted.has_dtype() && wanted.dtype().type != scalar_type()) assay::operator_called("to");
    if (wanted.has_device() && wanted.device().kind != device().kind) {
        if (is_cuda()) assay::host_reads("to");
        Tensor there = empty_like(*this, TensorOptions(kCUDA));
        there.copy_(*this);
        return there;
    }
    return copy ? clone() : *this;
}
Tensor Tensor::to(const TensorOptions &wanted, bool non_blocking, bool copy, optional<MemoryFormat> format) const {
    if (format && *format != MemoryFormat::Preserve && !is_contiguous(*format)) assay::operator_called("to");
    return to(wanted, non_blocking, copy);
}
Tensor Tensor::to(ScalarType type, bool, bool copy) const { return to(TensorOptions(type), false, copy); }
Tensor Tensor::to(Device its_device, ScalarType type, bool, bool copy) const { return to(TensorOptions(type).device(its_device), false, copy); }
Tensor Tensor::cpu() const {
    if (is_cuda()) assay::host_reads("cpu");
    return *this;
}
Tensor Tensor::new_empty(IntArrayRef sizes, TensorOptions wanted) const { return made(sizes, options().merge_in(wanted)); }
Tensor Tensor::new_zeros(IntArrayRef sizes, TensorOptions wanted) const { return full(sizes, 0, options().merge_in(wanted)); }
Tensor Tensor::new_full(IntArrayRef sizes, const Scalar &value, TensorOptions wanted) const { return full(sizes, value, options().merge_in(wanted)); }

Tensor empty(IntArrayRef sizes, TensorOptions options, optional<MemoryFormat> format) {
    return made(sizes, format ? options.memory_format(format) : options);
}
Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, TensorOptions options) {
    Tensor whole = made(sizes, options);
    if (dense(sizes) == strides.vec()) return whole;
    std::vector<int64_t> last = {1};
    for (size_t i = 0; i < sizes.size() && i < strides.size(); i++) last[0] += (sizes[i] - 1) * strides[i];
    return viewed(made(last, options), sizes.vec(), strides.vec(), 0);
}
Tensor full(IntArrayRef sizes, const Scalar &value, TensorOptions options) {
    Tensor whole = made(sizes, options);
    fill(whole, value, "full");
    return whole;
}
Tensor zeros(IntArrayRef sizes, TensorOptions options) { return full(sizes, 0, options); }
Tensor ones(IntArrayRef sizes, TensorOptions options) { return full(sizes, 1, options); }
Tensor empty_like(const Tensor &like, TensorOptions options, optional<MemoryFormat> format) {
    TensorOptions its = like.options().merge_in(options);
    if (!format) format = options.memory_format_opt();
    if (format && *format != MemoryFormat::Preserve) return made(like.sizes(), its.memory_format(format));
    // The same order in memory.
    return empty_strided(like.sizes(), dense_in_the_order_of(like.sizes(), like.strides()), its.memory_format(nullopt));
}
Tensor full_like(const Tensor &like, const Scalar &value, TensorOptions options, optional<MemoryFormat> format) {
    Tensor whole = empty_like(like, options, format);
    fill(whole, value, "full_like");
    return whole;
}
Tensor zeros_like(const Tensor &like, TensorOptions options, optional<MemoryFormat> format) { return full_like(like, 0, options, format); }
Tensor ones_like(const Tensor &like, TensorOptions options, optional<MemoryFormat> format) { return full_like(like, 1, options, format); }
Tensor from_blob(void *data, IntArrayRef sizes, TensorOptions options) {
    TensorFacts *facts = new TensorFacts;
    facts->base = (unsigned long long)data;
    facts->sizes = sizes.vec();
    facts->strides = dense(sizes);
    facts->numel = product(sizes);
    facts->type = options.dtype().type;
    facts->on_device = is_made_up(data);
    return Tensor(facts);
}
Tensor from_blob(void *data, IntArrayRef sizes, IntArrayRef strides, TensorOptions options) {
    return from_blob(data, sizes, options).as_strided(sizes, strides);
}
Tensor filled_on_host(const double *values, size_t many, bool scalar, TensorOptions options) {
    std::vector<int64_t> sizes;
    if (!scalar) sizes.push_back((int64_t)many);
    Tensor here = made(sizes, options.device(Device(kCPU)));
    std::string all;
    for (size_t i = 0; i < many; i++) all += bytes_of(isFloatingType(here.scalar_type()) ? Scalar(values[i]) : Scalar((long long)values[i]), here.scalar_type());
    memcpy(here.data_ptr(), all.data(), all.size());
    return options.device().is_cuda() ? here.to(TensorOptions(kCUDA)) : here;
}

namespace cuda {
cudaDeviceProp *getCurrentDeviceProperties() {
    static cudaDeviceProp *held = nullptr;
    if (!held) cudaGetDeviceProperties(held = new cudaDeviceProp, 0);
    return held;
}
} // namespace cuda

} // namespace at

namespace c10 {
namespace cuda {

CUDAStream getCurrentCUDAStream(DeviceIndex) { return CUDAStream(recorder().current_stream); }
void setCurrentCUDAStream(CUDAStream stream) { recorder().current_stream = stream.stream(); }
CUDAStream getStreamFromPool(bool, DeviceIndex) {
    cudaStream_t made;
    cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    return CUDAStream(made);
}
void check(cudaError_t error, const char *, int) {
    if (error == cudaSuccess) return;
    cudaGetLastError();
    assay::check_failed(said("CUDA error: ", cudaGetErrorString(error)));
}

} // namespace cuda
} // namespace c10
