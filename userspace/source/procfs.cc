// Reads /proc as cheaply as possible: one buffer, a few system calls, nothing that walks the target's memory.
#include "source/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "posix/fd.h"

namespace cowprof {
namespace {

// Large enough for stat, status, smaps_rollup and meminfo: one read, and one that finds the end.
constexpr size_t kFirstBufferBytes = 4096;
// Two million mappings. Anything larger is not a file of /proc, but for example a device below a test's root.
constexpr size_t kMaxFileBytes = 256 << 20;

// From errno: ENOENT and ESRCH become NotFound, EACCES and EPERM PermissionDenied.
absl::Status Failure(absl::string_view verb, absl::string_view path) {
  const int error = errno;
  absl::Status status = absl::ErrnoToStatus(error, absl::StrCat(verb, " ", path));
  if (!absl::IsPermissionDenied(status)) return status;
  return absl::PermissionDeniedError(
      absl::StrCat(status.message(), "; run cowprof as root or as the owner of the process"));
}

// Reads the file into *buffer, which grows by doubling and never shrinks, and returns the part that holds it. The end
// is a read of 0 bytes: the kernel returns maps and mountinfo a page at a time, so a short read means nothing. `shown`
// is the path to use in messages.
absl::StatusOr<absl::string_view> ReadInto(std::string* buffer, int directory, const char* path,
                                           absl::string_view shown) {
  // O_NONBLOCK: the target may have mounted a FIFO over the file.
  const Fd file(openat(directory, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.ok()) return Failure("open", shown);
  size_t filled = 0;
  while (true) {
    if (filled == buffer->size()) {
      if (filled >= kMaxFileBytes) {
        return absl::ResourceExhaustedError(absl::StrCat("read ", shown, ": more than ", kMaxFileBytes, " bytes"));
      }
      buffer->resize(std::max(kFirstBufferBytes, filled * 2));
    }
    const ssize_t got = read(file.fd(), buffer->data() + filled, buffer->size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failure("read", shown);
    if (got == 0) return absl::string_view(*buffer).substr(0, filled);
    filled += static_cast<size_t>(got);
  }
}

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

Directory OpenDirectory(int at, const char* path) {
  const int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* directory = fd < 0 ? nullptr : fdopendir(fd);
  if (fd >= 0 && directory == nullptr) close(fd);
  return Directory(directory, closedir);
}

// A descriptor of /proc/PID refers to that process for good: once it is gone, every lookup through it fails, even if
// the pid was reused. So figures never mix two processes.
absl::StatusOr<Fd> OpenProcess(const std::string& path) {
  Fd directory(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.ok()) return Failure("open", path);
  return directory;
}

absl::StatusOr<uint64_t> CountDescriptorsIn(const Fd& process, absl::string_view shown) {
  struct stat info;
  struct statfs filesystem;
  if (fstatat(process.fd(), "fd", &info, 0) != 0) return Failure("stat", shown);
  // Since Linux 6.2 the size is the count, and needs no permission to list. Before, it was 0; on another file system,
  // as below a test's root, it means something else.
  if (info.st_size > 0 && fstatfs(process.fd(), &filesystem) == 0 && filesystem.f_type == PROC_SUPER_MAGIC) {
    return static_cast<uint64_t>(info.st_size);
  }
  const Directory entries = OpenDirectory(process.fd(), "fd");
  if (entries == nullptr) return Failure("list", shown);
  uint64_t count = 0;
  while (const dirent* entry = readdir(entries.get())) count += entry->d_name[0] != '.';
  return count;
}

Count ToPages(Count bytes, uint64_t page_bytes) { return bytes ? Count(*bytes / page_bytes) : std::nullopt; }

}  // namespace

std::string ProcFs::PathOf(pid_t pid, absl::string_view file) const { return absl::StrCat(root_, "/", pid, "/", file); }

absl::StatusOr<std::string> ProcFs::ReadFile(pid_t pid, absl::string_view file) const {
  return ReadSmallFile(PathOf(pid, file));
}

std::string ProcFs::ReadHead(pid_t pid, absl::string_view file, size_t most) const {
  const Fd head(open(PathOf(pid, file).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  char piece[4096];
  while (head.ok() && text.size() < most) {
    const ssize_t got = read(head.fd(), piece, std::min(sizeof(piece), most - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece, got);
  }
  return text;
}

absl::StatusOr<ProcStat> ProcFs::ReadStat(pid_t pid) const {
  const absl::StatusOr<std::string> text = ReadFile(pid, "stat");
  if (!text.ok()) return text.status();
  return ParseStat(*text);
}

absl::StatusOr<ProcFigures> ProcFs::ReadFigures(const ProcessId& id, uint64_t page_bytes, uint64_t* faults) const {
  const std::string path = PathOf(id.pid, "");
  const absl::StatusOr<Fd> process = OpenProcess(path);
  if (!process.ok()) return process.status();
  std::string buffer;
  const auto status_text = ReadInto(&buffer, process->fd(), "status", path);
  if (!status_text.ok()) return status_text.status();
  const ProcStatus status = ParseStatus(*status_text);
  // Read stat second: if the process is not exiting then, it was not while status was read.
  const auto stat_text = ReadInto(&buffer, process->fd(), "stat", path);
  if (!stat_text.ok()) return stat_text.status();
  const absl::StatusOr<ProcStat> stat = ParseStat(*stat_text);
  if (!stat.ok()) return stat.status();
  if (stat->start_ticks != id.start_ticks()) {
    return absl::NotFoundError(absl::StrCat("process ", id.pid, " is gone: its pid was reused"));
  }
  if (stat->is_exiting() || stat->state == 'Z') {
    return absl::NotFoundError(absl::StrCat("process ", id.pid, " is exiting"));
  }
  ProcFigures figures;
  figures.anon_pages = ToPages(status.anon_bytes, page_bytes);
  figures.file_pages = ToPages(status.file_bytes, page_bytes);
  figures.shmem_pages = ToPages(status.shmem_bytes, page_bytes);
  figures.swap_pages = ToPages(status.swap_bytes, page_bytes);
  figures.virtual_pages = stat->virtual_bytes / page_bytes;
  figures.cpu_ms = (stat->user_ticks + stat->system_ticks) * (kNsPerTick / 1'000'000);
  figures.threads = stat->threads;
  if (faults != nullptr) *faults = stat->faults;
  // Before 6.2 only the owner may count them: the count is then absent, the other figures remain valid.
  const absl::StatusOr<uint64_t> descriptors = CountDescriptorsIn(*process, path);
  if (descriptors.ok()) figures.descriptors = *descriptors;
  return figures;
}

absl::StatusOr<std::vector<Mapping>> ProcFs::ReadMaps(pid_t pid) const {
  const absl::StatusOr<std::string> text = ReadFile(pid, "maps");
  if (!text.ok()) return text.status();
  std::vector<Mapping> mappings = ParseMaps(*text);
  // The kernel shows an empty file where there is no memory any more. Any that there is has a stack.
  if (mappings.empty()) return absl::NotFoundError(absl::StrCat("process ", pid, " has no memory"));
  return mappings;
}

absl::StatusOr<RollupFigures> ProcFs::ReadRollup(pid_t pid) const {
  const absl::StatusOr<std::string> text = ReadFile(pid, "smaps_rollup");
  if (!text.ok()) return text.status();
  return ParseRollup(*text);
}

std::string ProcFs::ReadCommandLine(pid_t pid) const {
  return JoinCommandLine(ReadHead(pid, "cmdline", kMaxCommandBytes));
}

pid_t ProcFs::PidInside(pid_t pid) const {
  const absl::StatusOr<std::string> status = ReadFile(pid, "status");
  const std::vector<pid_t> pids = status.ok() ? ParseStatus(*status).namespace_pids : std::vector<pid_t>();
  return pids.empty() ? 0 : pids.back();
}

std::string ProcFs::ReadExecutable(pid_t pid) const {
  char path[PATH_MAX];
  const ssize_t bytes = readlink(PathOf(pid, "exe").c_str(), path, sizeof(path));
  return bytes > 0 ? std::string(path, bytes) : "";
}

absl::StatusOr<uint64_t> ProcFs::CountDescriptors(pid_t pid) const {
  const absl::StatusOr<Fd> process = OpenProcess(PathOf(pid, ""));
  if (!process.ok()) return process.status();
  return CountDescriptorsIn(*process, PathOf(pid, "fd"));
}

std::vector<pid_t> ProcFs::ListPids() const {
  std::vector<pid_t> pids;
  const Directory entries = OpenDirectory(AT_FDCWD, root_.c_str());
  while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries.get())) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(entry->d_name, &pid) && pid > 0) pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  std::string buffer;
  const auto text = ReadInto(&buffer, AT_FDCWD, path.c_str(), path);
  if (!text.ok()) return text.status();
  buffer.resize(text->size());
  return buffer;
}

}  // namespace cowprof
