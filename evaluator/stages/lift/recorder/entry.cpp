// One entry function, which gets pointers to the tensors on the device, and numbers.

#include "recorder.h"

#include <exception>

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
// Of each call: arrays whose bytes are known, and which of its values is the address of one.
static std::vector<std::vector<std::pair<size_t, std::string>>> *arrays;

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
    arrays = new std::vector<std::vector<std::pair<size_t, std::string>>>;
    for (long long count = in.number(); count > 0; count--) {
        char kind = in.next()[0];
        if (kind == 'b') {
            calls->emplace_back();
            arrays->emplace_back();
            continue;
        }
        const char *text = in.next();
        assay_caller::Value value = {0, 0};
        if (kind == 'p') {
            value.bits = recorder().buffers.at((size_t)atoll(text)).base;
        } else if (kind == 'a') {
            std::string bytes;
            for (const char *at = text; at[0] && at[1]; at += 2) bytes += (char)strtol(std::string(at, 2).c_str(), nullptr, 16);
            arrays->back().emplace_back(calls->back().size(), bytes);
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
    for (size_t i = 0; i < calls->size(); i++) {
        auto &values = (*calls)[i];
        begin_call();
        for (const auto &one : (*arrays)[i]) values[one.first].bits = recorder().buffers[new_known_buffer(one.second)].base;
        try {
            assay_call(values.data());
        } catch (const std::exception &error) {
            refuse("threw", "", 0, error.what());
        } catch (...) {
            refuse("threw", "", 0, "an exception of an unknown type");
        }
    }
}

} // namespace assay
