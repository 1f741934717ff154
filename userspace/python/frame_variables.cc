#include "python/frame_variables.h"

#include <algorithm>

namespace cowprof {
namespace {

constexpr uint64_t kMostLocals = 256;

}  // namespace

std::vector<Variable> LocalsOf(const ObjectGraph& graph, const RawFrame& frame) {
  const PythonLayout& layout = graph.layout();
  std::vector<Variable> found;
  const auto add = [&](uint64_t names, uint64_t first) {
    const uint64_t count = std::min(graph.Pointer(names + layout.object.var_size), kMostLocals);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string name = graph.Text(graph.Pointer(names + layout.container.tuple_items + 8 * i));
      uint64_t object = graph.Pointer(frame.frame + layout.frame.locals + 8 * (first + i));
      object &= ~uint64_t{layout.frame.code_tag_mask};
      if (!name.empty() && object != 0) found.push_back({name, object});
    }
    return count;
  };
  // Up to 3.10 co_varnames is followed by co_freevars and co_cellvars; frames have cells before free variables.
  const uint64_t names = graph.Pointer(frame.code + layout.code.locals);
  const uint64_t plain = add(names, 0);
  if (layout.minor < 11) {
    const uint64_t cells = graph.Pointer(frame.code + layout.code.locals + 16);
    const uint64_t free = graph.Pointer(frame.code + layout.code.locals + 8);
    const uint64_t count = add(cells, plain);
    add(free, plain + count);
  }
  return found;
}

// Measured on 3.8 to 3.14.
uint64_t NamesOf(const ObjectGraph& graph, const RawFrame& frame) {
  const uint32_t code = graph.layout().frame.code;
  const uint32_t locals = graph.layout().minor < 11 ? code + 24 : graph.layout().minor == 11 ? 24 : 40;
  const uint64_t names = graph.Pointer(frame.frame + locals);
  return names != 0 ? names : graph.Pointer(frame.frame + locals - (graph.layout().minor < 11 ? 8 : 16));
}

}  // namespace cowprof
