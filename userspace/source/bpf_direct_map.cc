// Puts a page of its own into a pipe.
#include "source/bpf_direct_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>

#include <cstring>

#include "source/pagemap_entry.h"

namespace cowprof {
namespace {

constexpr size_t kPageBytes = 4096;  // x86

// 0: unknown.
uint64_t FrameOf(const void* page) {
  const Fd pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  uint64_t entry = 0;
  const off_t offset = reinterpret_cast<uintptr_t>(page) / kPageBytes * sizeof(entry);
  if (!pagemap.ok() || pread(pagemap.fd(), &entry, sizeof(entry), offset) != sizeof(entry)) return 0;
  return PfnOf(entry);
}

}  // namespace

DirectMapHint::DirectMapHint(const cowprof_probes& skeleton) {
  void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  page_ = page;
  int ends[2];
  if (getrandom(page, kPageBytes, 0) != static_cast<ssize_t>(kPageBytes) || pipe2(ends, O_CLOEXEC) != 0) return;
  pipe_[0] = Fd(ends[0]);
  pipe_[1] = Fd(ends[1]);
  const iovec whole = {page, kPageBytes};
  if (vmsplice(pipe_[1].fd(), &whole, 1, SPLICE_F_NONBLOCK) != static_cast<ssize_t>(kPageBytes)) return;
  auto& hint = skeleton.bss->direct_map;
  hint.pipe = pipe_[0].fd();
  hint.address = reinterpret_cast<uintptr_t>(page);
  memcpy(&hint.word, page, sizeof(hint.word));
  hint.frame = FrameOf(page);
}

DirectMapHint::~DirectMapHint() {
  if (page_ != nullptr) munmap(page_, kPageBytes);
}

}  // namespace cowprof
