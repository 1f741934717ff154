// What a worker would be sent, by kind: what pickling it costs follows from that. Counted by a walk of the objects.
#ifndef COWPROF_MODEL_FACTS_PICKLE_MIX_H_
#define COWPROF_MODEL_FACTS_PICKLE_MIX_H_

#include <cstdint>
#include <string>

namespace cowprof {

struct PickleMix {
  uint64_t numbers = 0, floats = 0;                     // each reference; pickle shares none
  uint64_t texts = 0, text_bytes = 0, wide_texts = 0;   // str, bytes; wide: str that is not ASCII
  uint64_t again = 0;                                   // references to what was sent before, and None, True, False
  uint64_t lists = 0, tuples = 0, dicts = 0, sets = 0;  // and their subclasses
  uint64_t instances = 0;                               // with attributes
  uint64_t reduced = 0;                                 // through a function of their type: dates, enums
  uint64_t arrays = 0, array_bytes = 0;                 // numpy's
  uint64_t tensors = 0;                                 // torch's: their memory is shared, and not counted here
  double scale = 1;  // of a walk that ended at its limit: what is sent is this many times as much
  bool operator==(const PickleMix&) const = default;

  uint64_t objects() const {
    return numbers + floats + texts + again + lists + tuples + dicts + sets + instances + reduced + arrays + tensors;
  }
  uint64_t bytes() const { return text_bytes + array_bytes; }
};

// The items of a container, as a sample of them: each as it is pickled by itself, so names and keys count in each.
struct PickleItems {
  std::string path, type;  // of the container, as the target spells them: "loader.dataset.records", "list"
  uint64_t count = 0;      // its length; of a dict, its values
  uint64_t sampled = 0;    // items that were read
  PickleMix mix;           // of these together
  uint64_t classes = 0;    // that they look up by name
  uint64_t bytes = 0;      // that pickle writes for these, each by itself; 0: not known
  bool operator==(const PickleItems&) const = default;
};

// One run with a sample of a mix: CPU time.
struct PickleRun {
  double pickle_seconds = 0, unpickle_seconds = 0;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_PICKLE_MIX_H_
