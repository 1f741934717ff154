// Names and figures that a target chose, from the probes' records through a sample into the file, the page, the report
// and the screen: always valid JSON, never a control character for the terminal, and read back unchanged from the file.
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cowprof.h"
#include "fuzz.h"
#include "model/facts/shm.h"
#include "model/format.h"
#include "sink/page/page.h"
#include "sink/report/report.h"
#include "sink/terminal/columns.h"
#include "sink/terminal/screen.h"
#include "source/bpf_events.h"
#include "timeline/json_timeline.h"

namespace cowprof {
namespace {

constexpr size_t kMostProcesses = 4;

bool IsPrintable(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 127; });
}

void FuzzWords(FuzzedDataProvider* input) {
  const size_t most = input->ConsumeIntegral<uint8_t>(), columns = input->ConsumeIntegral<uint8_t>();
  const std::string printable = Printable(input->ConsumeRemainingBytesAsString(), most);
  Require(IsPrintable(printable) && printable.size() <= most + 3, "printable, and no longer than requested");
  const nlohmann::json json = printable;
  json.dump();  // aborts if this is not UTF-8
  for (const Keep keep : {Keep::kStart, Keep::kEnd}) {
    Require(ColumnsOf(CutTo(printable, columns, keep)) <= columns, "cut to this many columns");
    Require(ColumnsOf(PadTo(printable, columns, keep)) == columns, "padded to exactly this many columns");
  }
  WrapTo(printable, columns);
}

void FuzzRecord(FuzzedDataProvider* input) {
  // Aligned, as in the ring buffer.
  std::vector<uint64_t> words(sizeof(cowprof_delivery) / 8 + 2);
  const size_t size = input->ConsumeData(words.data(), words.size() * 8);
  const auto seen = SeenEventOf(words.data(), size);
  if (!seen) return;
  const auto* execed = seen->event.As<ProcessExeced>();
  const auto* sent = seen->event.As<SignalSent>();
  Require(execed == nullptr || execed->comm.size() <= COWPROF_COMM_BYTES, "a name of a bounded size");
  Require(sent == nullptr || sent->sender_comm.size() <= COWPROF_COMM_BYTES, "a sender's name of a bounded size");
}

std::string Name(FuzzedDataProvider* input) { return input->ConsumeRandomLengthString(60); }
Count Figure(FuzzedDataProvider* input) {
  const int bits = input->ConsumeIntegralInRange(-1, 64);
  if (bits < 0) return std::nullopt;
  return bits == 64 ? input->ConsumeIntegral<uint64_t>()
                    : input->ConsumeIntegralInRange<uint64_t>(0, (uint64_t{1} << bits) - (bits > 0));
}
uint64_t Number(FuzzedDataProvider* input) { return Figure(input).value_or(0); }

ProcessSample Process(int index, FuzzedDataProvider* input) {
  ProcessSample process = {.index = index};
  for (Count* count : {&process.counts.copies, &process.counts.faults, &process.counts.write_protect_faults,
                       &process.counts.zero_fill_pages, &process.counts.file_copies, &process.proc.anon_pages,
                       &process.proc.file_pages, &process.proc.descriptors, &process.proc.swap_pages})
    *count = Figure(input);
  if (input->ConsumeBool()) process.causes = CauseCounts{Number(input), 1, Number(input)};
  if (input->ConsumeBool()) process.rollup = {.pss_bytes = Number(input), .private_bytes = Number(input)};
  if (input->ConsumeBool()) {
    process.sweep = {.begin = absl::Microseconds(Number(input) >> 24),
                     .full = input->ConsumeBool(),
                     .private_pages = Number(input),
                     .shared_pages = Number(input)};
  }
  return process;
}

SignalDelivered ADelivery(FuzzedDataProvider* input) {
  SignalDelivered delivered = {.signal = input->ConsumeIntegralInRange(-1, 70),
                               .address = Number(input),
                               .module = Name(input),
                               .symbol = Name(input)};
  if (input->ConsumeBool()) delivered.frame = Frame{Name(input), Name(input), input->ConsumeIntegral<int32_t>()};
  if (input->ConsumeBool()) delivered.file = FaultFile{.name = Name(input), .file_bytes = Number(input)};
  return delivered;
}

Event AnEvent(int* processes, FuzzedDataProvider* input) {
  const int index = input->ConsumeIntegralInRange<int>(0, *processes);
  switch (input->ConsumeIntegralInRange(0, 7)) {
    case 0:
      return {.index = std::exchange(*processes, std::min<int>(*processes + 1, kMostProcesses)),
              .what = ProcessStarted{.id = {*processes, 1},
                                     .parent = input->ConsumeIntegralInRange(-1, *processes),
                                     .origin = static_cast<Origin>(input->ConsumeIntegralInRange(0, 2)),
                                     .comm = Name(input),
                                     .command = Name(input)}};
    case 1:
      return {.index = index, .what = ProcessExeced{.comm = Name(input), .command = Name(input)}};
    case 2:
      return {.index = index, .what = ProcessExited{.status = input->ConsumeIntegral<uint16_t>()}};
    case 3:
      return {.index = index,
              .what = SignalSent{.signal = input->ConsumeIntegralInRange(-1, 70), .sender_comm = Name(input)}};
    case 4:
      return {.index = index, .what = ADelivery(input)};
    case 5: {
      OomVictim victim;
      if (input->ConsumeBool())
        victim.limit = LimitSample{LimitKind::kCgroupV2, Name(input), Figure(input), Number(input)};
      return {.index = index, .what = std::move(victim)};
    }
    case 6:
      return {.index = index, .what = Note{.text = Name(input)}};
    default:
      return {.index = index, .what = PythonFound{.version = Name(input), .problem = Name(input)}};
  }
}

struct Numbers {
  int processes = 0, frames = 0, copy_sites = 0, regions = 0;
};

void AddCopySites(Numbers* numbers, FuzzedDataProvider* input, Sample* sample) {
  const auto any = [&](int count) { return input->ConsumeIntegralInRange(0, std::max(count - 1, 0)); };
  if (input->ConsumeBool()) {
    sample->new_frames.push_back({Name(input), Name(input), input->ConsumeIntegral<int32_t>()});
    ++numbers->frames;
  }
  if (input->ConsumeBool() && numbers->frames > 0) {
    sample->new_copy_sites.push_back(
        {static_cast<Cause>(any(kCauses)), Name(input), Name(input), Name(input), {any(numbers->frames)}});
    ++numbers->copy_sites;
  }
  if (numbers->copy_sites > 0 && input->ConsumeBool())
    sample->copy_sites.push_back(
        {any(numbers->processes), any(numbers->copy_sites), Number(input), Number(input), Number(input)});
  if (input->ConsumeBool()) {
    const uint64_t start = Number(input) / 4, bytes = Number(input) % (1ull << 57);
    sample->new_regions.push_back(
        {any(numbers->processes), {kAll<RegionKind>[any(kCountOf<RegionKind>)], Name(input), start, start + bytes}});
    ++numbers->regions;
  }
  if (numbers->regions > 0 && input->ConsumeBool())
    sample->regions.push_back({any(numbers->processes), any(numbers->regions), Number(input), Number(input)});
  if (input->ConsumeBool())
    sample->pages.push_back(
        {any(numbers->processes), Cause::kData, Number(input) % (1ull << 36), 1 + Number(input) % 4096});
}

void AddShm(FuzzedDataProvider* input, Sample* sample) {
  ShmSample shm = {.mount = "/dev/shm", .capacity_bytes = Figure(input), .used_bytes = Number(input), .whole = true};
  for (int i = input->ConsumeIntegralInRange(0, 3); i > 0; --i) {
    ShmSegment segment = {.name = Name(input), .inode = Number(input), .bytes = Number(input)};
    segment.kind = KindOfName(segment.name);
    segment.creator = CreatorInName(segment.name);
    segment.lost_name = input->ConsumeBool();
    segment.looks_unowned = input->ConsumeBool();
    shm.segments.push_back(std::move(segment));
  }
  if (sample->shm) CompareLooks(*sample->shm, {1, 2}, &shm);
  KeepLargest(2, &shm);
  sample->shm = std::move(shm);
}

Sample Next(Numbers* numbers, absl::Duration t, FuzzedDataProvider* input) {
  Sample sample = {.t = t};
  for (int i = input->ConsumeIntegralInRange(0, 2); i > 0; --i)
    sample.events.push_back(AnEvent(&numbers->processes, input));
  for (int i = 0; i < numbers->processes; ++i) sample.processes.push_back(Process(i, input));
  for (int i = input->ConsumeIntegralInRange(0, 2); i > 0; --i)
    sample.limits.push_back({static_cast<LimitKind>(i), i == 1 ? Name(input) : "x", Figure(input), Number(input)});
  AddCopySites(numbers, input, &sample);
  if (input->ConsumeBool()) AddShm(input, &sample);
  return sample;
}

// What the terminal shows is printable, whatever the names are.
void RequireReadable(const Run& run, const PageBuilder& builder) {
  const RunModel& model = run.model;
  const Findings findings = Judge(run);
  for (const absl::string_view line : absl::StrSplit(ReportText(model, findings, true), '\n'))
    Require(IsPrintable(line), "a report without control characters");
  for (const ScreenLine& line : Screen(model, findings, {.size = {.columns = 90, .rows = 30}})) {
    Require(IsPrintable(line.text), "a screen without control characters");
    Require(ColumnsOf(line.text) <= 90, "a line that fits");
  }
  const std::string data = absl::StrJoin(builder.Data(model, findings, {.complete = true}).parts(), "");
  const auto json = nlohmann::ordered_json::parse(data.substr(0, data.find('\n')), nullptr, false);
  Require(json.is_object(), "the page's data begins with JSON");
}

void FuzzSamples(FuzzedDataProvider* input) {
  RecordEncoder encoder;
  RecordDecoder decoder;
  Run run;
  run.model.info = {.command = Name(input)};
  const auto info = DecodeHeader(EncodeHeader(run.model.info));
  Require(info.ok(), "a header can be read back");
  PageBuilder builder;
  Numbers numbers;
  for (int i = 1; i < 9 && input->remaining_bytes() > 0; ++i) {
    const Sample sample = Next(&numbers, absl::Seconds(i), input);
    const std::string records = encoder.Encode(sample);
    encoder.Commit();
    for (absl::string_view record : absl::StrSplit(records, ",\n")) {
      const auto result = decoder.Decode(record);
      Require(result.ok(), "what was written is readable");
      if (*result == RecordDecoder::Result::kSample) {
        Require(decoder.sample().t == sample.t && decoder.sample().events.size() == sample.events.size(),
                "a sample is read back unchanged");
      }
    }
    Append(decoder.sample(), &run);
    builder.Add(decoder.sample(), {}, run);
  }
  RequireReadable(run, builder);
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cowprof;
  constexpr void (*kParsers[])(FuzzedDataProvider*) = {FuzzWords, FuzzRecord, FuzzSamples, FuzzSamples};
  FuzzedDataProvider input(data, size);
  kParsers[PickOne(&input, std::size(kParsers))](&input);
  return 0;
}
