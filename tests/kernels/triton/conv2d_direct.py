# problem: conv2d
# style: static_range over the filter, divisions of a flat index
import triton
import triton.language as tl


@triton.jit
def conv2d_kernel(x_ptr, w_ptr, y_ptr, channels, filters, height, width, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column, row = i % width, i // width % height
    filter, image = i // (width * height) % filters, i // (width * height * filters)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for channel in range(channels):
        for dy in tl.static_range(3):
            for dx in tl.static_range(3):
                r, c = row + dy - 1, column + dx - 1
                inside = (i < count) & (r >= 0) & (r < height) & (c >= 0) & (c < width)
                x = tl.load(x_ptr + ((image * channels + channel) * height + r) * width + c, mask=inside, other=0.0)
                w = tl.load(w_ptr + ((filter * channels + channel) * 3 + dy) * 3 + dx, mask=i < count, other=0.0)
                acc += x * w
    tl.store(y_ptr + i, acc, mask=i < count)


def run(x, weight, y):
    _, channels, height, width = x.size()
    count = y.numel()
    grid = (triton.cdiv(count, 256),)
    conv2d_kernel[grid](x, weight, y, channels, weight.size(0), height, width, count, BLOCK=256)
