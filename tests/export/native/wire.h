// What a probe reads: protocol buffers, as far as they are needed, and files of records.
//
// Only the wire format is known here; field numbers are those of TensorFlow's meta_graph.proto
// and of TensorFlow Serving's prediction_log.proto and predict.proto.

#ifndef TESTS_EXPORT_NATIVE_WIRE_H_
#define TESTS_EXPORT_NATIVE_WIRE_H_

#include <cstdint>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using Bytes = std::string;

struct Field {
  uint32_t number = 0;
  uint64_t value = 0;  // of a varint
  Bytes bytes;         // of everything else
};

inline uint64_t ReadVarint(const Bytes& message, size_t* position) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = message.at((*position)++);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  throw std::runtime_error("a varint is longer than 64 bits");
}

inline std::vector<Field> Fields(const Bytes& message) {
  std::vector<Field> fields;
  for (size_t position = 0; position < message.size();) {
    const uint64_t key = ReadVarint(message, &position);
    Field field;
    field.number = static_cast<uint32_t>(key >> 3);
    size_t size = 0;
    switch (key & 7) {
      case 0: field.value = ReadVarint(message, &position); break;
      case 1: size = 8; break;
      case 2: size = ReadVarint(message, &position); break;
      case 5: size = 4; break;
      default: throw std::runtime_error("a message has a field of unknown type");
    }
    if (size > message.size() - position) throw std::runtime_error("a message is cut short");
    field.bytes = message.substr(position, size);
    position += size;
    fields.push_back(std::move(field));
  }
  return fields;
}

// The bytes of the last field with that number, as protocol buffers have it; empty without one.
inline Bytes Last(const Bytes& message, uint32_t number) {
  Bytes found;
  for (const Field& field : Fields(message)) {
    if (field.number == number) found = field.bytes;
  }
  return found;
}

// An entry of a map<string, Message>: the key and the message.
inline std::pair<Bytes, Bytes> Entry(const Bytes& message) { return {Last(message, 1), Last(message, 2)}; }

struct Signature {
  std::map<std::string, std::string> inputs, outputs;  // alias -> name in the graph
};

// MetaGraphDef.signature_def = 5; SignatureDef.inputs = 1, outputs = 2; TensorInfo.name = 1.
inline std::map<std::string, Signature> Signatures(const Bytes& meta_graph) {
  std::map<std::string, Signature> signatures;
  for (const Field& field : Fields(meta_graph)) {
    if (field.number != 5) continue;
    const auto [key, definition] = Entry(field.bytes);
    Signature& signature = signatures[key];
    for (const Field& side : Fields(definition)) {
      if (side.number != 1 && side.number != 2) continue;
      const auto [alias, info] = Entry(side.bytes);
      (side.number == 1 ? signature.inputs : signature.outputs)[alias] = Last(info, 1);
    }
  }
  return signatures;
}

struct Request {
  std::string signature = "serving_default";
  std::map<std::string, Bytes> inputs;  // alias -> TensorProto
  std::vector<std::string> output_filter;
};

// PredictionLog.predict_log = 6, PredictLog.request = 1, PredictRequest.model_spec = 1,
// ModelSpec.signature_name = 3, PredictRequest.inputs = 2, PredictRequest.output_filter = 3.
inline Request ParseRequest(const Bytes& prediction_log) {
  Request request;
  for (const Field& field : Fields(Last(Last(prediction_log, 6), 1))) {
    if (field.number == 1 && !Last(field.bytes, 3).empty()) request.signature = Last(field.bytes, 3);
    if (field.number == 2) request.inputs.insert(Entry(field.bytes));
    if (field.number == 3) request.output_filter.push_back(field.bytes);
  }
  return request;
}

// TFRecord: length (8 bytes), its checksum (4), the record, its checksum (4).
inline std::vector<Bytes> ReadRecords(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Bytes> records;
  uint64_t length = 0;
  while (file.read(reinterpret_cast<char*>(&length), sizeof length)) {
    file.ignore(4);
    if (length > (1u << 30)) throw std::runtime_error(path + " is damaged");
    Bytes record(length, '\0');
    if (!file.read(&record[0], static_cast<std::streamsize>(length)) || !file.ignore(4)) {
      throw std::runtime_error(path + " ends within a record");
    }
    records.push_back(std::move(record));
  }
  return records;
}

#endif  // TESTS_EXPORT_NATIVE_WIRE_H_
