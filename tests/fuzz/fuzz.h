// Shared by the fuzz targets: promises that must hold for any input, and a file in memory for code that reads files.
#ifndef COWPROF_TESTS_FUZZ_FUZZ_H_
#define COWPROF_TESTS_FUZZ_FUZZ_H_

#include <fuzzer/FuzzedDataProvider.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cowprof {

// Aborts, which is a finding, if the promise does not hold.
inline void Require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  abort();
}

class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)), path_(absl::StrCat("/proc/self/fd/", fd_)) {}
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }

  void Set(absl::string_view bytes) {
    Clear();
    Write(bytes, 0);
  }
  void Clear() { Require(ftruncate(fd_, 0) == 0, "truncate a memfd"); }
  void Write(absl::string_view bytes, off_t offset) {
    Require(pwrite(fd_, bytes.data(), bytes.size(), offset) == static_cast<ssize_t>(bytes.size()), "write a memfd");
  }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

// Picks one of `count` by the last byte of the input, so that the rest of a seed can be plain text.
inline size_t PickOne(FuzzedDataProvider* input, size_t count) { return input->ConsumeIntegral<uint8_t>() % count; }

}  // namespace cowprof

#endif  // COWPROF_TESTS_FUZZ_FUZZ_H_
