// Tensors of the C API: from a TensorProto, to JSON, and owned.

#ifndef TESTS_EXPORT_NATIVE_TENSORS_H_
#define TESTS_EXPORT_NATIVE_TENSORS_H_

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"
#include "wire.h"

struct Delete {
  void operator()(TF_Tensor* tensor) const { TF_DeleteTensor(tensor); }
  void operator()(TF_Status* status) const { TF_DeleteStatus(status); }
  void operator()(TF_Graph* graph) const { TF_DeleteGraph(graph); }
  void operator()(TF_Buffer* buffer) const { TF_DeleteBuffer(buffer); }
  void operator()(TF_SessionOptions* options) const { TF_DeleteSessionOptions(options); }
};
template <typename Type>
using Owned = std::unique_ptr<Type, Delete>;

inline void Check(const Owned<TF_Status>& status, const std::string& what) {
  if (TF_GetCode(status.get()) != TF_OK) {
    throw std::runtime_error(what + ": " + TF_Message(status.get()));
  }
}

inline int64_t Count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

inline std::vector<int64_t> Shape(const Bytes& shape_proto) {  // TensorShapeProto.dim = 2, Dim.size = 1
  std::vector<int64_t> shape;
  for (const Field& dim : Fields(shape_proto)) {
    if (dim.number != 2) continue;
    int64_t size = 0;
    for (const Field& field : Fields(dim.bytes)) {
      if (field.number == 1) size = static_cast<int64_t>(field.value);
    }
    shape.push_back(size);
  }
  return shape;
}

// TensorProto: dtype = 1, tensor_shape = 2, tensor_content = 4, float_val = 5, int_val = 7,
// string_val = 8. A list that is shorter than the tensor goes on with its last value.
inline Owned<TF_Tensor> ParseTensor(const Bytes& proto) {
  int dtype = 0;
  Bytes content, floats;
  std::vector<int64_t> shape;
  std::vector<int32_t> integers;
  std::vector<Bytes> strings;
  for (const Field& field : Fields(proto)) {
    if (field.number == 1) dtype = static_cast<int>(field.value);
    if (field.number == 2) shape = Shape(field.bytes);
    if (field.number == 4) content = field.bytes;
    if (field.number == 5) floats += field.bytes;  // packed, or four bytes a field: all the same
    if (field.number == 7 && field.bytes.empty()) integers.push_back(static_cast<int32_t>(field.value));
    for (size_t at = 0; field.number == 7 && at < field.bytes.size();) {
      integers.push_back(static_cast<int32_t>(ReadVarint(field.bytes, &at)));
    }
    if (field.number == 8) strings.push_back(field.bytes);
  }
  const int64_t count = Count(shape);
  const auto allocate = [&](size_t size) {
    return Owned<TF_Tensor>(TF_AllocateTensor(static_cast<TF_DataType>(dtype), shape.data(),
                                              static_cast<int>(shape.size()), count * size));
  };
  if (dtype == TF_STRING) {
    Owned<TF_Tensor> tensor = allocate(sizeof(TF_TString));
    auto* data = static_cast<TF_TString*>(TF_TensorData(tensor.get()));
    for (int64_t i = 0; i < count; ++i) {
      const Bytes value = strings.empty() ? "" : strings[std::min<size_t>(i, strings.size() - 1)];
      TF_StringInit(data + i);
      TF_StringCopy(data + i, value.data(), value.size());
    }
    return tensor;
  }
  if (dtype != TF_FLOAT && dtype != TF_INT32) {
    throw std::runtime_error("a request has a tensor of dtype " + std::to_string(dtype));
  }
  Owned<TF_Tensor> tensor = allocate(4);
  auto* data = static_cast<char*>(TF_TensorData(tensor.get()));
  if (content.empty()) {
    content = dtype == TF_FLOAT ? floats
                                : Bytes(reinterpret_cast<const char*>(integers.data()),
                                        integers.size() * sizeof(int32_t));
  }
  for (int64_t i = 0; i < count && content.size() >= 4; ++i) {
    memcpy(data + 4 * i, &content[std::min<size_t>(4 * i, content.size() - 4)], 4);
  }
  return tensor;
}

inline std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const unsigned char letter : text) {
    char code[8];
    snprintf(code, sizeof code, "\\u%04x", letter);
    const bool plain = letter >= ' ' && letter < 0x7f && letter != '"' && letter != '\\';
    quoted += plain ? std::string(1, static_cast<char>(letter)) : code;
  }
  return quoted + "\"";
}

inline std::string Value(const TF_Tensor* tensor, int64_t index) {
  char text[64];
  const void* data = TF_TensorData(tensor);
  switch (TF_TensorType(tensor)) {
    case TF_FLOAT: {
      const float value = static_cast<const float*>(data)[index];
      if (std::isnan(value)) return "NaN";
      if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
      snprintf(text, sizeof text, "%.9g", value);
      return text;
    }
    case TF_INT32:
      snprintf(text, sizeof text, "%" PRId32, static_cast<const int32_t*>(data)[index]);
      return text;
    case TF_STRING: {
      const TF_TString* value = static_cast<const TF_TString*>(data) + index;
      std::string hex;
      for (size_t i = 0; i < TF_StringGetSize(value); ++i) {
        snprintf(text, sizeof text, "%02x", static_cast<uint8_t>(TF_StringGetDataPointer(value)[i]));
        hex += text;
      }
      return Quoted(hex);
    }
    default: throw std::runtime_error("an output has an unexpected dtype");
  }
}

inline std::string Json(const TF_Tensor* tensor) {
  std::ostringstream json;
  std::vector<int64_t> shape;
  for (int i = 0; i < TF_NumDims(tensor); ++i) shape.push_back(TF_Dim(tensor, i));
  json << "{\"dtype\": " << TF_TensorType(tensor) << ", \"shape\": [";
  for (size_t i = 0; i < shape.size(); ++i) json << (i ? ", " : "") << shape[i];
  json << "], \"values\": [";
  for (int64_t i = 0; i < Count(shape); ++i) json << (i ? ", " : "") << Value(tensor, i);
  json << "]}";
  return json.str();
}

#endif  // TESTS_EXPORT_NATIVE_TENSORS_H_
