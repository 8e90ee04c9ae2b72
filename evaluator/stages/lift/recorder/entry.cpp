// One entry function, which gets pointers to the tensors on the device, and numbers.

#include "recorder.h"

namespace assay_caller {
struct Value {
    unsigned long long bits;
    double number;
};
struct Parameter {
    char letter;
    int bytes;
    char behind;
    int bytes_behind;
    bool reads;
};
} // namespace assay_caller

extern "C" void assay_call(const assay_caller::Value *values);
extern "C" int assay_parameters(assay_caller::Parameter *found, int room);

// Made when it is read, before this file's own initialisers would run.
static std::vector<std::vector<assay_caller::Value>> *calls;

namespace assay {

extern const bool described_without_initialisers;
const bool described_without_initialisers = true;

std::string description() {
    assay_caller::Parameter found[64];
    int count = assay_parameters(found, 64);
    std::string made = "{\"parameters\": [";
    for (int i = 0; i < count && i < 64; i++) {
        const assay_caller::Parameter &p = found[i];
        made += (i ? ", " : "") + std::string("{\"kind\": \"") + p.letter + "\", \"bytes\": " + std::to_string(p.bytes) +
                ", \"behind\": \"" + p.behind + "\", \"bytes_behind\": " + std::to_string(p.bytes_behind) +
                ", \"reads\": " + (p.reads ? "true" : "false") + "}";
    }
    return made + "], \"count\": " + std::to_string(count) + "}\n";
}

void read_call(Words &in) {
    calls = new std::vector<std::vector<assay_caller::Value>>;
    for (long long count = in.number(); count > 0; count--) {
        char kind = in.next()[0];
        if (kind == 'b') {
            calls->emplace_back();
            continue;
        }
        const char *text = in.next();
        assay_caller::Value value = {0, 0};
        if (kind == 'p') {
            value.bits = recorder().buffers.at((size_t)atoll(text)).base;
        } else if (kind == 'f') {
            value.number = strtod(text, nullptr);
        } else {
            value.bits = kind == 'u' ? strtoull(text, nullptr, 10) : (unsigned long long)strtoll(text, nullptr, 10);
            value.number = (double)(long long)value.bits;
        }
        calls->back().push_back(value);
    }
}

void call() {
    for (const auto &values : *calls) {
        begin_call();
        assay_call(values.data());
    }
}

} // namespace assay
