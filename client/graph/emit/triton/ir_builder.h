// Writes one kernel in Triton IR, without MLIR: a function of typed values and regions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/emit/triton/ir_type.h"

namespace kiln::graph::triton {

// A value of one builder.
struct Value {
  int id = -1;
};

// Every method checks the types, and that its values are visible, before it writes a line. The
// first error stays: later calls give values that mean nothing, and Finish returns the error. So a
// caller writes its operations down without looking at a status after each.
// The text is what Triton 3.6 to 3.9 parse. Not thread-safe.
class IrBuilder {
 public:
  using Values = std::vector<Value>;

  explicit IrBuilder(std::string name);

  // Before any other operation. A divisibility of 0 says nothing.
  Value Argument(std::string_view name, const Type& type, int64_t divisibility = 0);

  // A copy: the types of values that come later may move.
  Type TypeOf(Value value) const;

  // Every element is the number. Integers take its low bits; an i1 is true where it is not 0.
  Value Float(const Type& type, double number);
  Value Integer(const Type& type, int64_t number);

  // `operation` by its name in Triton IR, such as "math.exp" or "arith.addf": those with operands
  // and a result of one type. The names that are known are in ir_operations.cc.
  Value Unary(std::string_view operation, Value operand);
  Value Binary(std::string_view operation, Value left, Value right);
  // "slt" for integers, "olt" for floats.
  Value Compare(std::string_view predicate, Value left, Value right);
  // The condition is an i1, or a tensor of i1 with the shape of the others.
  Value Select(Value condition, Value yes, Value no);
  Value MultiplyAdd(Value left, Value right, Value addend);  // math.fma
  // "arith.extsi", "tt.bitcast", "tt.fp_to_fp" and the like: to another scalar, in the same shape.
  Value Cast(std::string_view operation, Value operand, Scalar to);
  Value BitCastPointer(Value pointer, Scalar to);
  // A function of the target's library, element by element, such as "__nv_tanhf".
  Value External(std::string_view symbol, const Values& operands, const Type& type);

  Value ProgramId(int axis);  // an i32
  Value MakeRange(int64_t start, int64_t end);
  Value Splat(Value scalar, const std::vector<int64_t>& shape);
  Value ExpandDims(Value tensor, int axis);
  Value Broadcast(Value tensor, const std::vector<int64_t>& shape);
  Value Reshape(Value tensor, const std::vector<int64_t>& shape);
  Value Transpose(Value tensor, const std::vector<int>& order);
  // `uses_tf32`: factors of f32 lose their last 13 bits.
  Value Dot(Value left, Value right, Value accumulator, bool uses_tf32 = false);

  Value AddPointer(Value pointer, Value offset);
  // Where the mask is false, `other` is the result.
  Value Load(Value pointer);
  Value Load(Value pointer, Value mask, Value other);
  void Store(Value pointer, Value value, std::optional<Value> mask = std::nullopt);
  // `operation`: "fadd", "add", "max", "min", "umax", "umin", "and", "or", "xor", "exch".
  Value AtomicRmw(std::string_view operation, Value pointer, Value value,
                  std::optional<Value> mask = std::nullopt);

  // Bodies are called at once, and return what they yield.
  using CombineBody = std::function<Values(const Values& left, const Values& right)>;
  Values Reduce(const Values& tensors, int axis, const CombineBody& combine);
  using ForBody = std::function<Values(Value index, const Values& carried)>;
  // `stages`: how many turns of the loop are under way at once; 0: Triton's choice.
  Values For(Value lower, Value upper, Value step, const Values& initial, const ForBody& body,
             int stages = 0);
  using IfBody = std::function<Values()>;
  Values If(Value condition, const std::vector<Type>& types, const IfBody& then,
            const IfBody& otherwise);
  struct WhileCondition {
    Value condition;
    Values forwarded;
  };
  Values While(const Values& initial,
               const std::function<WhileCondition(const Values& carried)>& before,
               const std::function<Values(const Values& forwarded)>& body);

  const absl::Status& status() const { return status_; }
  absl::StatusOr<std::string> Finish();

 private:
  struct ValueFacts {
    std::string name;
    Type type;
    int region;
  };

  // Keeps the first error. Gives a value that means nothing.
  Value Fail(std::string_view operation, std::string_view what);
  // False after an error, and where a value is unknown or out of sight.
  bool CanUse(std::string_view operation, const Values& values);
  bool IsWellFormed(std::string_view operation, const Type& type);
  Value Declare(std::string name, const Type& type);
  Values DeclareMany(const std::vector<Type>& types, std::string* text);
  // Writes "%N = operation rest" and declares %N.
  Value Write(std::string_view operation, std::string_view rest, const Type& type);
  // Writes "%N = operation operand how : from -> type".
  Value Convert(std::string_view operation, Value operand, const Type& type,
                std::string_view how = "");
  void Line(std::string_view text);
  void Enter(std::string_view header);
  void Leave(std::string_view footer);
  Values DeclareBlock(const std::vector<Type>& types, std::string* text);
  bool Yields(std::string_view operation, const Values& values, const std::vector<Type>& types);
  bool FitsMask(std::string_view operation, const Type& mask, const Type& type);

  std::string Name(Value value) const;
  std::string Names(const Values& values) const;
  std::vector<Type> TypesOf(const Values& values) const;

  std::string name_;
  std::vector<std::string> arguments_;
  std::string body_;
  std::vector<ValueFacts> values_;
  std::vector<int> open_regions_ = {0};
  int regions_ = 1;
  int names_ = 0;
  absl::Status status_;
};

}  // namespace kiln::graph::triton
