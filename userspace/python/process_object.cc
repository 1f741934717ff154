#include "python/process_object.h"

#include <optional>

#include "model/library_name.h"
#include "python/frames.h"

namespace cowprof {

std::vector<uint64_t> ArgumentsOf(ObjectGraph& graph, uint64_t process, uint64_t first, uint64_t most) {
  std::vector<uint64_t> arguments;
  const uint64_t tuple = graph.Attribute(process, "_args");
  const std::optional<TypeShape> shape = graph.ReadShape(graph.TypeOf(tuple));
  if (!shape || !shape->is_tuple()) return arguments;
  Edges items = graph.TupleItems(tuple);
  items.SkipTo(first);
  Edge item;
  for (uint64_t i = 0; i < most && items.Next(graph.memory(), &item); ++i) {
    arguments.push_back(item.object);
    const std::optional<TypeShape> holder = graph.ReadShape(graph.TypeOf(item.object));
    if (!holder || !holder->is_list()) continue;
    Edges held = graph.Items(item.object, EdgeKind::kIndex);
    if (Edge one; held.size() == 1 && held.Next(graph.memory(), &one)) arguments.push_back(one.object);
  }
  return arguments;
}

ProcessWork WorkOf(ObjectGraph& graph, uint64_t process) {
  uint64_t target = graph.Attribute(process, "_target");
  if (target == 0 || target == graph.interpreter().none) return {.subjects = {graph.TypeOf(process)}};
  if (graph.TypeName(target) == "method") target = graph.Pointer(target + graph.state().method_function);
  if (graph.TypeName(target) != "function") return {.subjects = {target}};
  CodeReader codes(graph.interpreter(), graph.memory());
  const std::optional<CodeLocation> code = codes.Resolve(graph.Pointer(target + graph.state().function_code), 0);
  if (!code || !EndsInFile(code->file, "torch/utils/data/_utils/worker.py")) return {.subjects = {target}};
  return {.of_loader = true, .subjects = ArgumentsOf(graph, process, 1, 1)};  // behind the kind of data set
}

}  // namespace cowprof
