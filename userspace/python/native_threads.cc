// struct pthread begins with tcbhead_t, whose fields tcb and self are its own address; tid and the list follow at fixed
// places. start_routine is at 0x638 in 2.36, elsewhere in others: it is the first word of its end that points to code.
#include "python/native_threads.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "model/base_name.h"
#include "python/locks.h"

namespace cowprof {
namespace {

constexpr uint64_t kAlignment = 64;              // of struct pthread, TLS_INIT_TCB_ALIGN
constexpr uint64_t kSelf = 0x10, kList = 0x2c0;  // tcbhead_t.self, pthread.list
constexpr uint64_t kBehindValues = 0x600;        // those of pthread_setspecific(), which may be any pointers
constexpr uint64_t kPthreadBytes = 0x900;
constexpr uint64_t kNearBytes = 16 << 10, kTopBytes = 64 << 10;  // of a stack: static TLS lies above it
constexpr size_t kMostThreads = 4096;

uint64_t WordAt(const std::vector<char>& bytes, size_t offset) {
  uint64_t word;
  memcpy(&word, bytes.data() + offset, sizeof(word));
  return word;
}

std::string NameOf(const Mapping& mapping) {
  return std::string(BaseName(absl::StripSuffix(mapping.name, " (deleted)")));
}

}  // namespace

const Mapping* NativeThreads::Find(uint64_t address) const {
  const auto found = std::partition_point(mappings_.begin(), mappings_.end(),
                                          [address](const Mapping& mapping) { return mapping.end <= address; });
  return found != mappings_.end() && found->begin <= address ? &*found : nullptr;
}

bool NativeThreads::IsThread(uint64_t ident) const {
  return IsUserAddress(ident) && ident % kAlignment == 0 && ReadValue<uint64_t>(memory_, ident) == ident &&
         ReadValue<uint64_t>(memory_, ident + kSelf) == ident;
}

uint64_t NativeThreads::FindByStack(uint64_t stack_pointer, pid_t tid) const {
  const Mapping* stack = Find(stack_pointer);
  if (stack == nullptr || !stack->writable) return 0;
  const auto search = [&](uint64_t begin, uint64_t end) -> uint64_t {
    begin = (begin + kAlignment - 1) / kAlignment * kAlignment;
    if (begin >= end) return 0;
    std::vector<char> bytes(end - begin);
    ReadOrZero(memory_, begin, absl::MakeSpan(bytes.data(), bytes.size()));
    for (uint64_t at = 0; at + kSelf + 8 <= bytes.size(); at += kAlignment) {
      const uint64_t ident = begin + at;
      if (WordAt(bytes, at) == ident && WordAt(bytes, at + kSelf) == ident && TidOf(memory_, ident) == tid)
        return ident;
    }
    return 0;
  };
  const uint64_t near_end = std::min(stack->end, stack_pointer + kNearBytes);
  if (const uint64_t ident = search(stack_pointer, near_end); ident != 0) return ident;
  return search(std::max(near_end, stack->end - std::min(kTopBytes, stack->end - stack->begin)), stack->end);
}

absl::flat_hash_map<pid_t, uint64_t> NativeThreads::ListFrom(uint64_t ident) const {
  absl::flat_hash_map<pid_t, uint64_t> found;
  uint64_t node = ident + kList;
  for (size_t steps = 0; steps < kMostThreads && IsUserPointer(node); ++steps) {
    // One of the nodes is the list's head, in ld.so or libpthread.
    if (IsThread(node - kList)) {
      const pid_t tid = TidOf(memory_, node - kList);
      if (tid > 0) found.emplace(tid, node - kList);
    }
    node = ReadValue<uint64_t>(memory_, node).value_or(0);
    if (node == ident + kList) break;
  }
  return found;
}

std::string NativeThreads::ModuleOf(uint64_t ident) const {
  if (!IsThread(ident)) return "";
  std::vector<char> bytes(kPthreadBytes - kBehindValues);
  ReadOrZero(memory_, ident + kBehindValues, absl::MakeSpan(bytes.data(), bytes.size()));
  for (size_t at = 0; at + 16 <= bytes.size(); at += 8) {
    const uint64_t word = WordAt(bytes, at);
    const Mapping* code = IsUserAddress(word) ? Find(word) : nullptr;
    if (code == nullptr || !code->executable || !absl::StartsWith(code->name, "/")) continue;
    if (!absl::StartsWith(NameOf(*code), "libstdc++")) return NameOf(*code);
    // execute_native_thread_routine(_State*): the object's table of virtual functions is of who made the thread.
    const uint64_t state = WordAt(bytes, at + 8);
    const Mapping* maker = IsUserPointer(state) ? Find(ReadValue<uint64_t>(memory_, state).value_or(0)) : nullptr;
    return maker != nullptr && absl::StartsWith(maker->name, "/") ? NameOf(*maker) : NameOf(*code);
  }
  return "";
}

}  // namespace cowprof
