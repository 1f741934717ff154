// The replay of pickle over damaged memory of recorded interpreters, and expressions that name an object.
#include "hostile_memory.h"
#include "model/judge/start_methods.h"
#include "python/pickle_look.h"
#include "python/roots.h"
#include "sink/report/start_methods_format.h"
#include "timeline/json_start_methods.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cowprof;
  FuzzedDataProvider input(data, size);
  const RecordedPython& python = RecordedPythons()[PickOne(&input, RecordedPythons().size())];
  const HostileMemory memory(python.recording, &input);
  const std::string expression = input.ConsumeRandomLengthString(40);
  static_cast<void>(FindObject(python.interpreter, memory, expression));
  const bool by_itself = input.ConsumeBool();
  const auto find_root = [&](const MemoryReader& reader) {
    if (by_itself) return FindWhatWorkersGet(python.interpreter, reader, 0);
    return PickleRoot{.parts = {{"", memory.Address()}, {"part", memory.Address()}}, .expression = "x", .where = ""};
  };
  const PickleLimits limits = {.objects = 20'000, .time = absl::Milliseconds(500)};
  StartCostFacts facts;
  const PickleLook look = LookAtPickle(python.interpreter, memory, find_root, limits, &facts.mix);
  facts.sample = SampleOf(facts.mix);
  facts.runs = {{0.1, 0.2}};
  Require(facts.sample.objects() <= 500'000, "a bounded sample");
  Require(look.objects <= limits.objects + 2 && look.failures.size() <= 64 && look.unknowns.size() <= 64,
          "a bounded look");
  for (const PickleFailure& failure : look.failures) Require(failure.path.size() < 2000, "a bounded path");
  Require(!StartMethodsText(look, facts).empty() && !Dump(StartMethodsJson(look)).empty() &&
              !Dump(StartCostsJson(look, facts)).empty(),
          "words");
  return 0;
}
