#include "model/judge/post_mortem.h"

#include <signal.h>

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "model/facts/bad_end.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/judge/blame.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/start_methods.h"

namespace cowprof {
namespace {

bool IsFault(const SignalDelivered& delivered) { return delivered.code > 0; }  // other signals were sent by a process

// ---- SIGKILL ----

// "bash (pid 4242)"
std::string SendersName(const SignalSent& sent) {
  return absl::StrCat(sent.sender_comm.empty() ? "a process" : Printable(sent.sender_comm),
                      sent.sender == 0 ? " outside this container" : absl::StrCat(" (pid ", sent.sender, ")"));
}

// "from its parent", "from bash (pid 4242)"
std::string Sender(absl::Duration t, const SignalSent& sent, const ProcessModel& process, const RunModel& model) {
  if (sent.code == SI_KERNEL) return "from the kernel";
  if (sent.sender == process.id.pid) return "from itself";
  for (const ProcessModel& other : model.processes) {
    const bool lived = other.started <= t && (!other.ended || *other.ended >= t);
    if (other.id.pid != sent.sender || !lived) continue;
    if (other.index == process.parent) return "from its parent";
    const bool command = other.role == Role::kOther || other.role == Role::kHelper;  // its name says more
    if (command && !sent.sender_comm.empty()) break;
    return absl::StrCat("from ", NameOf(other, model));
  }
  return absl::StrCat("from ", SendersName(sent));
}

// Of a signal that PR_SET_PDEATHSIG asked for: "as its parent bash (pid 4242) ended". The kernel sends it as soon as
// the thread ends that started the process.
std::string ParentsEnd(absl::Duration t, const SignalSent& sent, const RunModel& model) {
  const bool lives = absl::c_any_of(model.processes, [&](const ProcessModel& other) {
    return other.id.pid == sent.sender && other.started <= t && (!other.ended || *other.ended > t + kLivesOn);
  });
  return absl::StrCat(lives ? "as the thread of " : "as its parent ", SendersName(sent),
                      lives ? " that started it" : "", " ended (PR_SET_PDEATHSIG)");
}

std::string FormatOom(const LimitSample& limit) {
  return limit.kind == LimitKind::kHost ? "the host's memory" : absl::StrCat("limit of ", FormatLimit(limit));
}

// Says what the process grew by: copies of shared pages, with their types and line, or new memory. Copied pages of
// files are new memory.
std::vector<std::string> ProcessLines(const ProcessModel& top_contributor, uint64_t grown_bytes,
                                      const RunModel& model) {
  const uint64_t copies = top_contributor.shared_copies(),
                 fresh = top_contributor.counts.zero_fills().value_or(0) + top_contributor.copies_of_files;
  std::vector<std::string> lines = {absl::StrCat(
      NameOf(top_contributor, model), " has copied ", HumanBytes(copies * model.info.page_bytes),
      " of shared pages and was given ", HumanBytes(fresh * model.info.page_bytes), " of new memory in all")};
  if (copies * model.info.page_bytes < grown_bytes / 4) return lines;
  const Blame blame = BlameOf(model, {.index = top_contributor.index});
  for (const BlameRow& row : ByType(model, blame)) {
    if (row.share < kNoticeableShare || row.type.empty() || lines.size() > 3) continue;
    lines.push_back(absl::StrCat(Percent(row.share), blame.estimated ? " (estimated)" : "",
                                 " of its copies: objects of type ", Printable(row.type)));
  }
  for (const BlameRow& row : ByLine(model, blame)) {
    const std::string line = LineText(row.frame);
    if (row.share < kNoticeableShare || line.empty()) continue;
    lines.push_back(
        absl::StrCat(Percent(row.share), blame.estimated ? " (estimated)" : "", " of its copies at ", line));
    break;
  }
  return lines;
}

// Who held and had grown how much at a kill.
std::vector<std::string> GrowthLines(const ProcessModel& process, const OomKill& kill, const RunModel& model) {
  std::vector<std::string> lines = {
      absl::StrCat(NameOf(process, model), " held ", HumanBytes(kill.victim_bytes), " of private memory")};
  if (kill.limit.kind != LimitKind::kHost && kill.recorded_bytes < kMostOfIt * kill.limit.used) {
    lines.push_back(absl::StrCat("the recorded processes held ", HumanBytes(kill.recorded_bytes),
                                 " of it: most belongs to others or to shared memory"));
  }
  const ProcessModel* const found = model.Find(kill.top_contributor);
  if (found == nullptr) return lines;
  const ProcessModel& top_contributor = *found;
  lines.push_back(absl::StrCat(top_contributor.index == process.index
                                   ? "it had itself grown most"
                                   : absl::StrCat(NameOf(top_contributor, model), " had grown most"),
                               ", by ", HumanBytes(kill.top_contributor_bytes)));
  if (kill.workers > 1) {
    lines.push_back(absl::StrCat("the ", Plural(kill.workers, "worker"), " together had grown by ",
                                 HumanBytes(kill.workers_grown_bytes)));
  }
  for (std::string& line : ProcessLines(top_contributor, kill.top_contributor_bytes, model))
    lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> OomEvidence(const ProcessModel& process, const RunModel& model) {
  const OomKill& kill = *process.oom;
  const bool host = kill.limit.kind == LimitKind::kHost;
  std::vector<std::string> lines = {absl::StrCat(
      "at ", HumanDuration(kill.t), " the OOM killer chose ", NameOf(process, model),
      host ? ": none of its cgroups had hit its limit; the host had no memory left, or the NUMA nodes that it may use"
           : absl::StrCat(": ", FormatLimit(kill.limit), " used ", HumanBytes(kill.limit.used), " of ",
                          HumanBytes(kill.limit.limit)))};
  if (model.info.exactness == Exactness::kPageMap)
    lines.push_back("no probe saw this: the cgroup's count of such kills rose as it was killed");
  for (std::string& line : GrowthLines(process, kill, model)) lines.push_back(std::move(line));
  return lines;
}

// The kernel sends SIGXCPU at the soft limit and each second beyond it, and SIGKILL at the hard one
// (check_process_timers(), kernel/time/posix-cpu-timers.c). Empty if neither was seen to be reached.
PostMortem OfCpuTime(const ProcessModel& process) {
  for (const Event& event : process.signals) {
    const auto* sent = event.As<SignalSent>();
    if (sent == nullptr || sent->code != SI_KERNEL) continue;
    const bool hard = sent->signal == SIGKILL && sent->cpu_limit_seconds > 0;
    if (!hard && sent->signal != SIGXCPU) continue;
    const std::string limit =
        hard ? absl::StrCat("hard limit of ", HumanCount(sent->cpu_limit_seconds), " s") : "soft limit";
    return {.text = ": it used up its CPU time (RLIMIT_CPU, ulimit -t)",
            .evidence = {absl::StrCat("at ", HumanDuration(event.t), " the kernel sent ", SignalName(sent->signal),
                                      ": the ", limit, " was reached")}};
  }
  return {};
}

// Empty if another process sent SIGXFSZ.
PostMortem OfFileSize(const ProcessModel& process) {
  const SignalSent* sent = KillingSignal(process).sent;
  if (sent == nullptr || sent->code != SI_KERNEL) return {};
  return {.text = ": a file that it wrote reached the limit of its size (RLIMIT_FSIZE, ulimit -f)"};
}

PostMortem OfKill(const ProcessModel& process, const RunModel& model) {
  if (process.oom) {
    return {.cause = process.oom->limit.kind == LimitKind::kHost ? "oom-host" : "oom-cgroup",
            .text = absl::StrCat(": the OOM killer, ", FormatOom(process.oom->limit)),
            .evidence = OomEvidence(process, model)};
  }
  if (process.oom_victim) return {.text = ": the OOM killer"};
  // By its own clock tick; the end of its container or cgroup.kill comes from another process.
  const SignalSent* sent = KillingSignal(process).sent;
  const bool by_itself = sent != nullptr && sent->code == SI_KERNEL && sent->sender == process.id.pid;
  return by_itself ? OfCpuTime(process) : PostMortem{};
}

// ---- SIGBUS ----

std::string FileWords(const FaultFile& file) {
  if (file.name.empty()) return file.on_dev_shm ? "a file in /dev/shm" : "a mapped file";  // lockdown may hide it
  return absl::StrCat(file.on_dev_shm ? "/dev/shm/" : "", Printable(file.name, 80));
}

PostMortem OfMappedFile(const SignalDelivered& fault, const RunModel& model) {
  const FaultFile& file = *fault.file;
  std::vector<std::string> evidence = {absl::StrCat(
      "address 0x", absl::Hex(fault.address), " is byte ", HumanCount(file.offset), " of ", FileWords(file),
      ", which is ", HumanCount(file.file_bytes), " bytes long (device ", file.device, ", inode ", file.inode, ")")};
  if (file.is_beyond_end(model.info.page_bytes))
    return {"sigbus-file", absl::StrCat(": ", FileWords(file), " was truncated while it was mapped"), evidence};
  if (!file.in_memory)
    return {"sigbus-file", absl::StrCat(": the disk of ", FileWords(file), " was full, or it failed"), evidence};
  if (!file.on_dev_shm && !file.capacity_bytes) return {"", absl::StrCat(": in ", FileWords(file)), evidence};
  const std::string size = file.capacity_bytes ? absl::StrCat(" (", HumanBytes(file.capacity_bytes), ")") : "";
  evidence.push_back(absl::StrCat("the page is within the file, and its file system", size, " had no room for it"));
  if (!file.on_dev_shm)
    return {"sigbus-file", absl::StrCat(": the tmpfs of ", FileWords(file), size, " is full"), evidence};
  for (const LimitModel& limit : model.limits) {
    if (limit.now.kind == LimitKind::kShm)
      evidence.push_back(absl::StrCat("at most ", HumanBytes(limit.peak), " of /dev/shm was seen in use"));
  }
  return {"shm-full", absl::StrCat(": /dev/shm", size, " is full"), evidence};
}

PostMortem OfBusError(const SignalDelivered& fault, const RunModel& model) {
  if (fault.code == BUS_MCEERR_AR || fault.code == BUS_MCEERR_AO) return {.text = ": a hardware memory error"};
  if (fault.code != BUS_ADRERR || !fault.file) return {};
  return OfMappedFile(fault, model);
}

// ---- Signals that a program causes itself ----

std::string CodeWords(const SignalDelivered& delivered) {
  if (delivered.symbol.empty()) return Printable(delivered.module);
  return absl::StrCat(Printable(delivered.symbol), " (", Printable(delivered.module), ")");
}

// A handler, such as torch's or faulthandler's, may have raised the signal again; the delivery of the fault itself
// shows where it happened.
const SignalDelivered* FatalDelivery(const ProcessModel& process) {
  const SignalDelivered *fault = nullptr, *last = nullptr;
  for (const Event& event : process.signals) {
    const auto* delivered = event.As<SignalDelivered>();
    if (delivered == nullptr || delivered->signal != process.exit->signal) continue;
    if (IsFault(*delivered)) fault = delivered;
    last = delivered;
  }
  const SignalSent* sent = KillingSignal(process).sent;
  const bool from_outside = sent != nullptr && sent->code <= 0 && sent->sender != process.id.pid;
  return from_outside ? nullptr : fault != nullptr ? fault : last;
}

PostMortem OfDelivery(const SignalDelivered& delivery, const RunModel& model) {
  PostMortem found = delivery.signal == SIGBUS ? OfBusError(delivery, model) : PostMortem{};
  const std::string code = CodeWords(delivery), at = delivery.frame ? LineText(*delivery.frame) : "";
  if (found.text.empty() && !code.empty()) found.text = absl::StrCat(" in ", code);
  if (!at.empty()) absl::StrAppend(&found.text, found.cause.empty() ? " at " : ", at ", at);
  if (IsFault(delivery) && !delivery.file)
    found.evidence.push_back(absl::StrCat("it touched address 0x", absl::Hex(delivery.address)));
  if (!code.empty()) found.evidence.push_back(absl::StrCat("native code: ", code));
  if (!at.empty()) found.evidence.push_back(absl::StrCat("Python: ", at));
  return found;
}

// Of a process that an OOM daemon ended: these watch the host, or a part of it.
void BlameOomDaemon(const ProcessModel& process, const RunModel& model, PostMortem* found) {
  if (!process.oom_daemon) return;
  found->cause = "oom-host";
  for (std::string& line : GrowthLines(process, *process.oom_daemon, model)) found->evidence.push_back(std::move(line));
}

PostMortem OfSignal(const ProcessModel& process, const RunModel& model) {
  PostMortem found;
  if (process.exit->signal == SIGKILL) {
    found = OfKill(process, model);
  } else if (process.exit->signal == SIGXCPU) {
    found = OfCpuTime(process);
  } else if (process.exit->signal == SIGXFSZ) {
    found = OfFileSize(process);
  } else if (const SignalDelivered* delivery = FatalDelivery(process)) {
    found = OfDelivery(*delivery, model);
  }
  const auto [t, sent] = KillingSignal(process);
  const bool by_parents_end = sent != nullptr && sent->sender_exiting;
  if (found.text.empty() && by_parents_end) {
    found.text = absl::StrCat(", ", ParentsEnd(t, *sent, model));
  } else if (found.text.empty() && sent != nullptr && sent->code != SI_KERNEL) {
    found.text = absl::StrCat(" ", Sender(t, *sent, process, model),
                              IsFromOomDaemon(*sent)               ? " as memory ran short"
                              : IsUvicornTimeout(process, model)   ? " (uvicorn's health check, not the OOM killer)"
                              : !IsGunicornTimeout(process, model) ? ""
                              : sent->signal == SIGKILL            ? " (gunicorn's timeout, not the OOM killer)"
                                                                   : " (gunicorn's timeout)");
  }
  if (sent != nullptr && found.cause.empty() && found.evidence.empty()) {
    found.evidence.push_back(
        by_parents_end ? absl::StrCat("the kernel sent ", SignalName(sent->signal), " ", ParentsEnd(t, *sent, model))
                       : absl::StrCat(SignalName(sent->signal), " came ", Sender(t, *sent, process, model)));
  }
  if (sent != nullptr && IsUvicornTimeout(process, model)) {
    found.evidence.push_back(
        "uvicorn kills a worker that does not answer within --timeout-worker-healthcheck (5 s unless set), as while C "
        "code holds the GIL to load a model");
  }
  found.text = absl::StrCat("killed by ", SignalName(process.exit->signal), found.text);
  if (sent != nullptr && !process.oom && !process.oom_victim && IsFromOomDaemon(*sent))
    BlameOomDaemon(process, model, &found);
  return found;
}

// " (AttributeError: Can't get attribute 'work' on ...)": of the message only the first line.
std::string ErrorText(absl::string_view type, absl::string_view message) {
  message = absl::StripAsciiWhitespace(message);
  message = absl::StripTrailingAsciiWhitespace(message.substr(0, message.find('\n')));
  return absl::StrCat(" (", Printable(type), message.empty() ? "" : ": ", Printable(message), ")");
}

// Of one that failed while it pickled what a process is sent; "": none, or "pickle-failure" tells it.
std::string StartErrorText(const ProcessModel& process) {
  const StartFailed* const error = FatalStartError(process);
  return error == nullptr || RefusesToPickle(*error) ? "" : ErrorText(error->type, error->message);
}

// "": the error is not known.
std::string ErrorText(const ProcessModel& process) {
  const LastErrorSeen* const error = FatalError(process);
  if (error == nullptr) return StartErrorText(process);
  if (error->importing_main) return " (it tried to start a process while it imported the main module)";
  return ErrorText(error->type, error->message);
}

PostMortem Explained(const ProcessModel& process, const RunModel& model) {
  if (process.exit->signaled) return OfSignal(process, model);
  PostMortem found = {.text = absl::StrCat(Failed(process) ? "exited unexpectedly with code " : "exit ",
                                           process.exit->code, ErrorText(process))};
  if (const auto [t, sent] = OomDaemonRequest(process); sent != nullptr) {
    absl::StrAppend(&found.text, " after ", SignalName(sent->signal), " ", Sender(t, *sent, process, model),
                    " as memory ran short");
    BlameOomDaemon(process, model, &found);
  } else if (IsGunicornTimeout(process, model)) {
    found.text += " after SIGABRT from its parent (gunicorn's timeout)";
  }
  return found;
}

}  // namespace

std::string NameOf(const ProcessModel& process) { return absl::StrCat(WordOf(process.role), " ", process.id.pid); }

std::string NameOf(const ProcessModel& process, const RunModel& model) {
  if (process.index == 0 && (model.target_is_rank || model.target_is_other_rank))
    return absl::StrCat("trainer ", process.id.pid);
  return LaunchersOf(model).contains(process.index) ? absl::StrCat("launcher ", process.id.pid) : NameOf(process);
}

PostMortem PostMortemOf(const ProcessModel& process, const RunModel& model) {
  if (!process.exit) return {.text = process.ended ? "ended, exit status unknown" : "running"};
  PostMortem found = Explained(process, model);
  found.badly = EndedBadly(process, model);
  if (const auto [t, sent] = KillingSignal(process); process.exit->signaled && sent && sent->code != SI_KERNEL)
    found.sent = {t, sent->signal, sent->sender};
  return found;
}

}  // namespace cowprof
