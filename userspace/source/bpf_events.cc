// One function per kind of record; copies only what fits the record's size.
#include "source/bpf_events.h"

#include <signal.h>
#include <sys/sysmacros.h>

#include <utility>

#include "source/bpf_handles.h"
#include "source/probe_plan.h"

namespace cowprof {
namespace {

// Null if the record is too short.
template <typename Record>
const Record* As(const void* record, size_t size) {
  return size >= sizeof(Record) ? static_cast<const Record*>(record) : nullptr;
}

std::optional<FaultFile> FileOf(const cowprof_mapped_file& file) {
  if (file.kind == COWPROF_NO_FILE) return std::nullopt;
  // The kernel's dev_t has 20 minor bits (MINORBITS, include/linux/kdev_t.h); stat(2) uses another layout.
  const dev_t device = makedev(file.device >> 20, file.device & 0xfffff);
  FaultFile out = {.name = TextIn(file.name),
                   .file_bytes = file.bytes,
                   .offset = file.offset,
                   .in_memory = file.kind == COWPROF_MEMORY_FILE,
                   .device = device,
                   .inode = file.inode};
  if (file.capacity_pages != 0) out.capacity_bytes = file.capacity_pages * kProbedPageBytes;
  return out;
}

void AddDelivery(const cowprof_delivery& delivery, SignalDelivered* delivered, SeenEvent* out) {
  delivered->address = delivery.event.address;
  // With the process gone, the kernel's word for the module is all there is.
  std::optional<FaultFile> file = FileOf(delivery.file);
  if (delivery.event.signal == SIGBUS) {
    delivered->file = std::move(file);
  } else if (file) {
    delivered->module = file->name;
  }
  out->ip = delivery.ip;
  for (const cowprof_frame& frame : delivery.frames) {
    if (frame.code == 0) break;
    out->frames.push_back(frame);
  }
}

// The collector finds out the cgroup version and the full name.
void AddLimit(const cowprof_oom& oom, OomVictim* victim, SeenEvent* out) {
  if (!oom.looked) return;  // not to be taken for the host's
  out->cgroup = oom.cgroup;
  victim->limit = LimitSample{};
  if (oom.cgroup == 0) return;
  victim->limit = LimitSample{.kind = LimitKind::kCgroupV2,
                              .name = TextIn(oom.name),
                              .limit = oom.limit_pages * kProbedPageBytes,
                              .used = oom.used_pages * kProbedPageBytes};
}

}  // namespace

RowState StateAt(uint64_t now, const cowprof_process_row& row) {
  if (row.serial == 0 || row.forked_ns >= now) return RowState::kNotYet;
  return row.exited_ns != 0 && row.exited_ns < now ? RowState::kEnded : RowState::kLiving;
}

std::optional<SeenEvent> SeenEventOf(const void* record, size_t size) {
  const auto* event = As<cowprof_event>(record, size);
  if (event == nullptr) return std::nullopt;
  SeenEvent out = {.process = IdOf(event->process), .time_ns = event->time_ns};
  switch (event->kind) {
    case COWPROF_EXEC: {
      ProcessExeced execed = {.comm = TextIn(event->comm)};
      if (const auto* exec = As<cowprof_exec>(record, size)) execed.executable = TextIn(exec->program);
      out.event.what = std::move(execed);
      return out;
    }
    case COWPROF_SIGNAL_SENT: {
      SignalSent sent = {event->signal, event->code, event->sender, TextIn(event->comm)};
      if (const auto* signal = As<cowprof_signal>(record, size)) {
        sent.cpu_limit_seconds = signal->cpu_limit;
        sent.sender_exiting = signal->sender_exiting != 0;
      }
      out.event.what = std::move(sent);
      return out;
    }
    case COWPROF_SIGNAL_DELIVERED: {
      SignalDelivered delivered = {.signal = event->signal, .code = event->code};
      if (const auto* delivery = As<cowprof_delivery>(record, size)) AddDelivery(*delivery, &delivered, &out);
      out.event.what = std::move(delivered);
      return out;
    }
    case COWPROF_OOM_VICTIM: {
      OomVictim victim;
      if (const auto* oom = As<cowprof_oom>(record, size)) AddLimit(*oom, &victim, &out);
      out.event.what = std::move(victim);
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace cowprof
