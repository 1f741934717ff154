// See attribution.h.
#include "attribution.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "python/cause.h"

namespace cowprof {
namespace {

// An instruction is trusted once this many copies were looked at and all had one cause. One that adds 1 to an object's
// head needs fewer: it can be nothing else. One that takes 1 is never trusted: the value decides whether an object
// dies.
constexpr uint64_t kEnoughOfIncrement = 16, kEnough = 256;

constexpr uint64_t kPageBytes = 4096;  // the probes' page log is x86's
constexpr size_t kMostEarlier = 8;     // programs of one process

uint32_t Bit(Cause cause) { return 1u << static_cast<int>(cause); }

}  // namespace

void Attribution::Add(const FollowedProcess& process, int index, bool inherits) {
  const auto parent = serials_.find(process.parent);
  Member member = {.serial = process.serial, .index = index, .id = process.id};
  if (inherits && parent != serials_.end()) {
    member.program = members_[parent->second].program;
    // The probes hand an image on at a fork; one that was learned a moment later is not.
    member.taught = process.image == member.program->image();
    if (process.exited_ns == 0) member.program->memory().Add(member.id);
  } else {
    Start(&member, /*starting=*/false);
  }
  serials_[process.id] = process.serial;
  members_[process.serial] = std::move(member);
}

void Attribution::Exec(const ProcessId& id) {
  const auto serial = serials_.find(id);
  if (serial == serials_.end()) return;
  Member& member = members_[serial->second];
  member.program->memory().Remove(id);
  if (member.taught) member.earlier.push_back(member.program);
  if (member.earlier.size() > kMostEarlier) member.earlier.erase(member.earlier.begin());
  Start(&member, /*starting=*/true);
}

void Attribution::Start(Member* member, bool starting) {
  member->program = std::make_shared<Program>(++last_image_, proc_, &elf_cache_, starting);
  member->program->memory().Add(member->id);
  member->taught = false;
  member->collector_on.reset();
  member->first_collector_look.reset();
  member->persistent.reset();
  member->first_persistence_look.reset();
  programs_[last_image_] = member->program;
}

std::vector<Event> Attribution::Learn(const std::vector<FollowedProcess>& processes, absl::Duration now) {
  std::vector<Event> events;
  next_urgent_look_ = absl::InfiniteDuration();
  for (const FollowedProcess& process : processes) {
    const auto found = members_.find(process.serial);
    if (found == members_.end() || process.exited_ns != 0) continue;
    Member& member = found->second;
    Program& program = *member.program;
    if (program.Inspect(now)) {
      Event event = {.kind = EventKind::kPython, .index = member.index, .text = program.reason()};
      event.python = program.version();
      events.push_back(std::move(event));
    }
    next_urgent_look_ = std::min(next_urgent_look_, program.next_urgent_look());
    if (member.taught || program.python() != Program::Python::kReadable) continue;
    member.taught = faults_->LearnImage(member.serial, program.image(), program.ProbeImage()).ok();
  }
  return events;
}

void Attribution::End(const ProcessId& id) {
  const auto serial = serials_.find(id);
  if (serial == serials_.end()) return;
  Member& member = members_[serial->second];
  member.program->memory().Remove(id);
  member.living = false;
  ended_.insert(member.index);
  serials_.erase(serial);
}

std::shared_ptr<Program> Attribution::ProgramOf(const ProcessId& id) const {
  const auto serial = serials_.find(id);
  return serial == serials_.end() ? nullptr : members_.at(serial->second).program;
}

// A library that only a worker has loaded is known while the worker still is there.
void Attribution::Locate(const SeenEvent& seen, Event* event) {
  const auto serial = serials_.find(seen.process);
  if (serial == serials_.end()) return;
  const Member& member = members_[serial->second];
  Program& program = *member.program;
  NativeSymbol symbol = program.SymbolOf(seen.ip);
  if (symbol.module.empty()) {
    program.memory().Prefer(member.id);
    symbol = program.SymbolOf(seen.ip);
  }
  if (!symbol.module.empty()) {
    event->module = symbol.module;
    event->symbol = symbol.symbol;
  }
  for (const cowprof_frame& one : seen.frames) {
    const std::optional<Frame> frame = program.FrameOf(one);
    if (!frame) continue;  // the interpreter's own
    if (!frame->file.empty()) event->frame = *frame;
    return;
  }
}

// ---- Causes ----

Cause Attribution::CauseOfRow(Program& program, uint32_t image, cowprof_shape shape, uint64_t ip) {
  if (shape == COWPROF_SHAPE_UNREAD) return program.python() == Program::Python::kNone ? Cause::kData : Cause::kUnknown;
  const auto [judged, is_new] = judged_.try_emplace({image, shape, ip}, Cause::kUnknown);
  if (is_new) {
    const std::string symbol = NeedsSymbol(shape) ? program.SymbolOf(ip).symbol : "";
    judged->second = CauseOf(shape, program.KindOf(ip), symbol);
  }
  return judged->second;
}

Program* Attribution::ProgramOf(uint32_t image, const Member& member) {
  const auto other = programs_.find(image);
  return other == programs_.end() ? member.program.get() : other->second.get();
}

void Attribution::Judge(const Pull& pull, Sample* sample) {
  absl::flat_hash_map<uint32_t, CauseCounts> causes;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, Seen> seen;  // by image and instruction
  CauseEvidence now = ended_evidence_;
  causes_of_shapes_.clear();
  absl::flat_hash_set<uint32_t> ended;
  for (const FollowedProcess& process : pull.processes) {
    if (process.exited_ns != 0) ended.insert(process.serial);
  }
  for (const CauseRow& row : pull.causes) {
    const auto member = members_.find(row.serial);
    if (member == members_.end()) continue;
    const Cause cause = CauseOfRow(*ProgramOf(row.image, member->second), row.image, row.shape, row.ip);
    causes[row.serial][static_cast<int>(cause)] += row.copies;
    if (Most& most = causes_of_shapes_[{row.serial, row.shape}]; row.copies >= most.copies) most = {row.copies, cause};
    if (row.shape == COWPROF_SHAPE_UNREAD || row.shape == COWPROF_SHAPE_KERNEL) continue;
    if (faults_->counts_by_sweep()) continue;  // a sample of pages, which no instruction is known of
    (row.told ? now.told : now.looked) += row.copies;
    if (ended.contains(row.serial)) (row.told ? ended_evidence_.told : ended_evidence_.looked) += row.copies;
    if (row.told || row.ip == 0) continue;
    Seen& site = seen[{row.image, row.ip}];
    site.copies[static_cast<int>(cause)] += row.copies;
    if (row.copies > site.most) site = {site.copies, row.copies, row.shape, cause};
  }
  TrustSites(seen, &now);
  absl::flat_hash_map<int, ProcessSample*> rows;  // by index
  for (ProcessSample& row : sample->processes) rows[row.index] = &row;
  for (const FollowedProcess& process : pull.processes) {
    const auto member = members_.find(process.serial);
    if (member == members_.end()) continue;
    const auto found = rows.find(member->second.index);
    if (found == rows.end()) continue;
    ProcessSample* const row = found->second;
    CauseCounts counts = causes[process.serial];
    uint64_t sum = 0;
    for (const uint64_t copies : counts) sum += copies;
    // Copies for which the table had no room.
    counts[static_cast<int>(Cause::kUnknown)] += std::max(process.counts.copies.value_or(sum), sum) - sum;
    if (process.counts.copies) row->causes = counts;  // nobody has looked yet
  }
  if (!(now == evidence_)) sample->cause_evidence = evidence_ = now;
}

void Attribution::TrustSites(const absl::flat_hash_map<std::pair<uint32_t, uint64_t>, Seen>& seen, CauseEvidence* now) {
  std::vector<SiteVerdict> verdicts;
  now->audited = ended_evidence_.audited;
  now->contradicted = ended_evidence_.contradicted;
  for (const auto& [key, copies] : seen) {
    const auto [image, ip] = key;
    Site& site = sites_[key];
    uint64_t looked = 0;
    for (int cause = 0; cause < kCauses; ++cause) {
      looked += copies.copies[cause];
      if (copies.copies[cause] != 0) site.causes |= 1u << cause;
    }
    const bool one_cause = site.causes == Bit(copies.cause);
    if (site.trust == Trust::kGiven) {
      site.audited = std::max(site.audited, looked - std::min(looked, site.looked_before));
      if (!one_cause) {
        site.trust = Trust::kLost;
        site.contradicted = looked - copies.copies[static_cast<int>(site.cause)];
        verdicts.push_back({ip, image, COWPROF_SHAPE_UNREAD});
      }
    } else if (site.trust == Trust::kNone && one_cause && copies.cause != Cause::kFree) {
      const WriteKind kind = KindOf(image, ip);
      const uint64_t enough = kind == WriteKind::kIncrement ? kEnoughOfIncrement : kEnough;
      if (kind == WriteKind::kDecrement || looked < enough) continue;
      site = {site.causes, Trust::kGiven, copies.cause, looked};
      verdicts.push_back({ip, image, copies.shape});
    }
  }
  for (const auto& [key, site] : sites_) {
    now->audited += site.audited;
    now->contradicted += site.contradicted;
  }
  static_cast<void>(faults_->TrustSites(verdicts));  // where that fails, memory is read at each copy
}

WriteKind Attribution::KindOf(uint32_t image, uint64_t ip) {
  const auto program = programs_.find(image);
  return program == programs_.end() ? WriteKind::kOther : program->second->KindOf(ip);
}

// The log has no instruction: a page gets the cause that most copies onto that shape have in its process.
void Attribution::LogPages(const Pull& pull, PageLog* log) const {
  for (const CopiedPage& page : pull.pages) {
    const auto member = members_.find(page.serial);
    if (member == members_.end()) continue;
    const auto most = causes_of_shapes_.find({page.serial, page.shape});
    log->Add(member->second.index, most == causes_of_shapes_.end() ? Cause::kUnknown : most->second.cause,
             page.address / kPageBytes);
  }
}

// ---- The collector's own flag ----

void Attribution::ReadCollectors(const std::vector<FollowedProcess>& processes, absl::Duration now, Sample* sample) {
  absl::flat_hash_map<int, std::optional<bool>> read;  // by index
  for (const FollowedProcess& process : processes) {
    const auto found = members_.find(process.serial);
    if (found == members_.end()) continue;
    Member& member = found->second;
    const bool due = !member.first_collector_look || now >= member.next_collector_look;
    if (due && process.exited_ns == 0 && member.program->interpreter().ready) {
      member.collector_on = member.program->CollectorOn(member.id.pid);
      if (!member.first_collector_look) member.first_collector_look = now;
      const absl::Duration age = now - *member.first_collector_look;
      member.next_collector_look = now + std::clamp(age, absl::Seconds(1), absl::Seconds(10));
    }
    read[member.index] = member.collector_on;
  }
  for (ProcessSample& process : sample->processes) process.collector_on = read[process.index];
}

void Attribution::ReadPersistence(const std::vector<FollowedProcess>& processes, absl::Duration now, Sample* sample) {
  absl::flat_hash_map<int, std::optional<bool>> read;  // by index
  for (const FollowedProcess& process : processes) {
    const auto found = members_.find(process.serial);
    if (found == members_.end()) continue;
    Member& member = found->second;
    const bool due = !member.first_persistence_look || now >= member.next_persistence_look;
    if (due && !member.persistent && process.exited_ns == 0 && member.program->interpreter().ready) {
      member.persistent = member.program->PersistentWorkers(member.id.pid);
      if (!member.first_persistence_look) member.first_persistence_look = now;
      const absl::Duration age = now - *member.first_persistence_look;
      member.next_persistence_look = now + std::clamp(age, absl::Milliseconds(50), absl::Minutes(1));
    }
    read[member.index] = member.persistent;
  }
  for (ProcessSample& process : sample->processes) process.persistent = read[process.index];
}

// ---- Places ----

int Attribution::FrameNumber(const Frame& frame) {
  const auto [known, is_new] =
      frames_.try_emplace(std::make_tuple(frame.file, frame.function, frame.line), static_cast<int>(frames_.size()));
  if (is_new) new_frames_.push_back(frame);
  return known->second;
}

const std::vector<int>& Attribution::StackOf(uint64_t stack, Program& program) {
  const auto [known, is_new] = stacks_.try_emplace({program.image(), stack});
  if (!is_new || stack == 0) return known->second;
  for (const cowprof_frame& one : faults_->ReadStack(stack)) {
    // A frame that can't be read any more stays in the stack without a name: its caller did not do it.
    if (const std::optional<Frame> frame = program.FrameOf(one)) known->second.push_back(FrameNumber(*frame));
  }
  return known->second;
}

int Attribution::PlaceOf(const PlaceRow& row, const Member& member) {
  Program& program = *ProgramOf(row.image, member);
  const PlaceKey key = {row.image != 0 ? row.image : program.image(), row.shape, row.ip, row.type, row.stack};
  if (const auto known = known_places_.find(key); known != known_places_.end()) return known->second;
  program.memory().Prefer(member.id);
  const NativeSymbol symbol = row.ip != 0 ? program.SymbolOf(row.ip) : NativeSymbol{};
  Place place = {.cause = CauseOfRow(program, row.image, row.shape, row.ip),
                 .type = program.TypeName(row.type),
                 .module = symbol.module,
                 .symbol = symbol.symbol,
                 .frames = StackOf(row.stack, program)};
  const std::string text = absl::StrCat(static_cast<int>(place.cause), "\n", place.type, "\n", place.module, "\n",
                                        place.symbol, "\n", absl::StrJoin(place.frames, ","));
  const auto [known, is_new] = places_by_text_.try_emplace(text, static_cast<int>(places_by_text_.size()));
  if (is_new) new_places_.push_back(std::move(place));
  known_places_[key] = known->second;
  return known->second;
}

void Attribution::ReadPlaces() {
  const absl::StatusOr<std::vector<PlaceRow>> rows = faults_->PullPlaces();
  if (!rows.ok()) return;
  absl::flat_hash_map<std::pair<int, int>, PlaceCount> counts;  // by process and place
  for (const PlaceRow& row : *rows) {
    const auto member = members_.find(row.serial);
    if (member == members_.end()) continue;
    const int index = member->second.index, place = PlaceOf(row, member->second);
    PlaceCount& count = counts[{index, place}];
    count.index = index;
    count.place = place;
    count.copies += row.copies;
    count.samples += row.samples;
    count.squares += row.squares;
  }
  for (const auto& [key, count] : counts) {
    if (std::exchange(read_copies_[key], count.copies) != count.copies) changed_[key] = count;
  }
  ForgetEnded();
}

// What was kept of processes that have ended, and of programs that nobody runs any more: who starts a program a hundred
// times a second makes no table grow.
void Attribution::ForgetEnded() {
  if (std::exchange(ended_, {}).empty()) return;
  absl::flat_hash_set<int> indexes;
  absl::erase_if(members_, [&](const auto& entry) {
    if (!entry.second.living) indexes.insert(entry.second.index);
    return !entry.second.living;
  });
  absl::erase_if(read_copies_, [&](const auto& entry) { return indexes.contains(entry.first.first); });
  absl::flat_hash_set<uint32_t> images;
  absl::erase_if(programs_, [&](const auto& entry) {
    const bool unused = entry.second.use_count() == 1;
    if (unused) faults_->ForgetImage(entry.first);
    if (unused) images.insert(entry.first);
    return unused;
  });
  if (images.empty()) return;
  absl::erase_if(judged_, [&](const auto& entry) { return images.contains(std::get<0>(entry.first)); });
  absl::erase_if(known_places_, [&](const auto& entry) { return images.contains(std::get<0>(entry.first)); });
  absl::erase_if(stacks_, [&](const auto& entry) { return images.contains(entry.first.first); });
  absl::erase_if(sites_, [&](const auto& entry) {
    if (!images.contains(entry.first.first)) return false;
    ended_evidence_.audited += entry.second.audited;
    ended_evidence_.contradicted += entry.second.contradicted;
    return true;
  });
}

void Attribution::TellPlaces(const absl::flat_hash_set<int>* only, Sample* sample) {
  sample->new_frames = std::exchange(new_frames_, {});
  sample->new_places = std::exchange(new_places_, {});
  std::erase_if(changed_, [&](const auto& entry) {
    const bool told = only == nullptr || only->contains(entry.first.first);
    if (told) sample->places.push_back(entry.second);
    return told;
  });
}

}  // namespace cowprof
