// Owning handles for libbpf objects, libbpf's warnings as part of status messages, and reading a whole hash map. For
// bpf_*.cc only.
#ifndef COWPROF_SOURCE_BPF_HANDLES_H_
#define COWPROF_SOURCE_BPF_HANDLES_H_

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cowprof.h"
#include "cowprof.skel.h"
#include "model/facts/sample.h"
#include "posix/fd.h"

namespace cowprof {

struct SkeletonDeleter {
  void operator()(cowprof_probes* skeleton) const { cowprof_probes::destroy(skeleton); }
};
struct RingDeleter {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};
using Skeleton = std::unique_ptr<cowprof_probes, SkeletonDeleter>;
using Ring = std::unique_ptr<ring_buffer, RingDeleter>;

// Readable when the probes have woken user space for one of some rings, by edge: what waits for the next tick does not
// make it readable again. Not libbpf's own epoll: after a wake-up that stays readable for as long as the ring holds
// anything, so that a target which forks all the time made every tick come at once.
class RingWatch {
 public:
  absl::Status Watch(std::initializer_list<const bpf_map*> rings);
  int fd() const { return epoll_.fd(); }
  void Take() const;  // call before the rings are read

 private:
  Fd epoll_;
};

// From now on keeps libbpf's last warning for BpfStatus() and prints none.
void KeepWarnings();
// "attempted: errno text (libbpf's warning)".
absl::Status BpfStatus(int error, absl::string_view attempted);

// Runs an iterator program to its end and returns what it wrote.
absl::StatusOr<std::string> RunIterator(bpf_program* program);

inline ProcessId IdOf(const cowprof_process_id& id) { return {static_cast<pid_t>(id.pid), id.start_ns}; }

template <size_t kBytes>
std::string TextIn(const char (&text)[kBytes]) {
  return std::string(text, strnlen(text, kBytes));
}

// All rows of a hash map. Rows that are added or removed meanwhile may be included or not; all others appear once.
// `read` may also be bpf_map_lookup_and_delete_batch().
template <typename Key, typename Value>
absl::StatusOr<std::vector<std::pair<Key, Value>>> ReadHash(
    int map, absl::string_view name, decltype(bpf_map_lookup_batch)* read = bpf_map_lookup_batch) {
  std::vector<std::pair<Key, Value>> rows;
  constexpr uint32_t kMostAtOnce = 1024;
  const auto keys = std::make_unique_for_overwrite<Key[]>(kMostAtOnce);
  const auto values = std::make_unique_for_overwrite<Value[]>(kMostAtOnce);
  uint32_t position = 0;  // the kernel's cursor into a hash map is 4 bytes
  for (bool first = true;; first = false) {
    uint32_t count = kMostAtOnce;
    const int error = read(map, first ? nullptr : &position, &position, keys.get(), values.get(), &count, nullptr);
    if (error != 0 && error != -ENOENT) return BpfStatus(-error, absl::StrCat("read the table of ", name));
    for (uint32_t i = 0; i < count; ++i) rows.emplace_back(keys[i], values[i]);
    if (error == -ENOENT) return rows;
  }
}

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_HANDLES_H_
