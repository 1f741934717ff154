// Recordings in the formats of other tools. docs/export.md says how each is read. Pure.
#ifndef COWPROF_SINK_EXPORT_EXPORT_H_
#define COWPROF_SINK_EXPORT_EXPORT_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "model/facts/enum_names.h"
#include "model/judge/findings.h"

namespace cowprof {

enum class ExportFormat { kPprof, kPerfetto, kSpeedscope, kFolded, kCsv };
template <>
inline constexpr auto kNamesOf<ExportFormat> = NamesFor<ExportFormat>("pprof", "perfetto", "speedscope", "folded",
                                                                      "csv");
// What replaces ".json" in the name of the recording: ".pb.gz".
const char* ExtensionOf(ExportFormat format);

// Of a whole run: every copy with its stack, type and cause.
std::string PprofProfile(const RunModel& model);                             // profile.proto, gzipped
std::string SpeedscopeJson(const RunModel& model, const std::string& name);  // `name`: of the recording
std::string FoldedStacks(const RunModel& model);                             // bytes

// A row for each process at each sample in which its figures changed, and at its last one. Most do not change for hours
// where workers wait.
class CsvTable {
 public:
  void Add(const Sample& sample, const RunModel& model);  // `model` already includes it
  std::string text() const { return text_ + unchanged_; }

 private:
  std::string text_ = Header();
  std::string unchanged_;                      // rows of the last sample
  std::unordered_map<int, std::string> rows_;  // by index, of living processes: the last one, without its time
  static std::string Header();
};

}  // namespace cowprof

#endif  // COWPROF_SINK_EXPORT_EXPORT_H_
