// See bpf_events.h.
#include "source/bpf_events.h"

#include <signal.h>
#include <sys/sysmacros.h>

#include <utility>

#include "source/bpf_handles.h"

namespace cowprof {
namespace {

constexpr uint64_t kPageBytes = 4096;  // others are refused: see probe_plan.cc

// Absent where the record is too short to be one.
template <typename Record>
const Record* As(const void* record, size_t size) {
  return size >= sizeof(Record) ? static_cast<const Record*>(record) : nullptr;
}

std::optional<FaultFile> FileOf(const cowprof_mapped_file& file) {
  if (file.kind == COWPROF_NO_FILE) return std::nullopt;
  // MINORBITS of include/linux/kdev_t.h is 20; stat(2) has another layout.
  const dev_t device = makedev(file.device >> 20, file.device & 0xfffff);
  FaultFile out = {.name = TextIn(file.name),
                   .file_bytes = file.bytes,
                   .offset = file.offset,
                   .in_memory = file.kind == COWPROF_MEMORY_FILE,
                   .device = device,
                   .inode = file.inode};
  if (file.capacity_pages != 0) out.capacity_bytes = file.capacity_pages * kPageBytes;
  return out;
}

void AddDelivery(const cowprof_delivery& delivery, SeenEvent* out) {
  out->event.address = delivery.event.address;
  // With the process gone, the kernel's word for the module is all there is.
  std::optional<FaultFile> file = FileOf(delivery.file);
  if (delivery.event.signal == SIGBUS) {
    out->event.file = std::move(file);
  } else if (file) {
    out->event.module = file->name;
  }
  out->ip = delivery.ip;
  for (const cowprof_frame& frame : delivery.frames) {
    if (frame.code == 0) break;
    out->frames.push_back(frame);
  }
}

// Which version of cgroups it is, and the whole name, are for the collector to find.
void AddLimit(const cowprof_oom& oom, SeenEvent* out) {
  if (!oom.looked) return;  // not to be taken for the host's
  out->cgroup = oom.cgroup;
  out->event.limit = LimitSample{};
  if (oom.cgroup == 0) return;
  out->event.limit = LimitSample{.kind = LimitKind::kCgroupV2,
                                 .name = TextIn(oom.name),
                                 .limit = oom.limit_pages * kPageBytes,
                                 .used = oom.used_pages * kPageBytes};
}

}  // namespace

std::optional<SeenEvent> SeenEventOf(const void* record, size_t size) {
  const auto* event = As<cowprof_event>(record, size);
  if (event == nullptr) return std::nullopt;
  SeenEvent out = {.process = IdOf(event->process), .time_ns = event->time_ns};
  out.event.signal = event->signal;
  out.event.code = event->code;
  switch (event->kind) {
    case COWPROF_EXEC:
      out.event.kind = EventKind::kExec;
      out.event.comm = TextIn(event->comm);
      return out;
    case COWPROF_SIGNAL_SENT:
      out.event.kind = EventKind::kSignalSent;
      out.event.sender = event->sender;
      out.event.sender_comm = TextIn(event->comm);
      return out;
    case COWPROF_SIGNAL_DELIVERED:
      out.event.kind = EventKind::kSignalDelivered;
      if (const auto* delivery = As<cowprof_delivery>(record, size)) AddDelivery(*delivery, &out);
      return out;
    case COWPROF_OOM_VICTIM:
      out.event.kind = EventKind::kOomVictim;
      if (const auto* oom = As<cowprof_oom>(record, size)) AddLimit(*oom, &out);
      return out;
  }
  return std::nullopt;
}

}  // namespace cowprof
