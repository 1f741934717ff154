// Spells google/pprof's profile.proto.
#include <cstdint>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "sink/export/copies.h"
#include "sink/export/export.h"
#include "sink/gzip.h"

namespace cowprof {
namespace {

using protozero::pbf_writer;

// Field numbers.
namespace profile {
enum { kSampleType = 1, kSample, kMapping, kLocation, kFunction, kStringTable };
enum { kTimeNanos = 9, kDurationNanos = 10, kComment = 13, kDefaultSampleType = 14 };
}  // namespace profile
namespace value_type {
enum { kType = 1, kUnit };
}
namespace sample {
enum { kLocationId = 1, kValue, kLabel };
}
namespace label {
enum { kKey = 1, kString };
}
namespace mapping {
enum { kId = 1, kFilename = 5, kHasFunctions = 7, kHasFilenames, kHasLineNumbers };
}
namespace location {
enum { kId = 1, kMappingId = 2, kLine = 4 };
}
namespace line {
enum { kFunctionId = 1, kLine };
}
namespace function {
enum { kId = 1, kName = 2, kFilename = 4 };
}

constexpr int kFast = 1;  // level of gzip

class Profile {
 public:
  explicit Profile(const RunModel& model) : model_(model) { StringNumber(""); }

  std::string Write() {
    WriteValueType("copies", "count");
    WriteValueType("copied_space", "bytes");
    for (const ExportedCopies& row : CopiesOf(model_)) WriteSample(row);
    {
      // Says that every location has its names: nothing is looked up in a binary.
      pbf_writer written(writer_, profile::kMapping);
      written.add_uint64(mapping::kId, 1);
      written.add_int64(mapping::kFilename, StringNumber(Readable(model_.info.command)));
      for (const int has : {mapping::kHasFunctions, mapping::kHasFilenames, mapping::kHasLineNumbers})
        written.add_bool(has, true);
    }
    for (const auto& [frame, id] : locations_) WriteLocation(frame, id);
    for (const auto& [names, id] : functions_) {
      pbf_writer written(writer_, profile::kFunction);
      written.add_uint64(function::kId, id);
      written.add_int64(function::kName, StringNumber(names.first));
      written.add_int64(function::kFilename, StringNumber(names.second));
    }
    writer_.add_int64(profile::kTimeNanos, absl::ToUnixNanos(model_.info.started));
    writer_.add_int64(profile::kDurationNanos, absl::ToInt64Nanoseconds(model_.t));
    writer_.add_int64(profile::kComment, StringNumber(absl::StrCat("cowprof ", Readable(model_.info.version))));
    writer_.add_int64(profile::kDefaultSampleType, StringNumber("copied_space"));
    for (const std::string& text : string_table_) writer_.add_string(profile::kStringTable, text);
    return std::move(out_);
  }

 private:
  using Names = std::pair<std::string, std::string>;  // function and file

  int64_t StringNumber(const std::string& text) {
    const auto [found, added] = strings_.emplace(text, strings_.size());
    if (added) string_table_.push_back(text);
    return found->second;
  }

  template <typename Key>
  static uint64_t IdOf(const Key& key, std::map<Key, uint64_t>* ids) {
    return ids->emplace(key, ids->size() + 1).first->second;
  }

  void WriteValueType(const char* type, const char* unit) {
    pbf_writer written(writer_, profile::kSampleType);
    written.add_int64(value_type::kType, StringNumber(type));
    written.add_int64(value_type::kUnit, StringNumber(unit));
  }

  void WriteLabel(const char* key, const std::string& value, pbf_writer* out) {
    if (value.empty()) return;
    pbf_writer written(*out, sample::kLabel);
    written.add_int64(label::kKey, StringNumber(key));
    written.add_int64(label::kString, StringNumber(value));
  }

  void WriteSample(const ExportedCopies& row) {
    std::vector<uint64_t> stack;
    for (const NamedFrame& frame : StackOf(row, model_)) stack.push_back(IdOf(frame, &locations_));
    const std::vector<int64_t> values = {static_cast<int64_t>(std::min<uint64_t>(row.copies, INT64_MAX)),
                                         CopiedBytes(row.copies, model_.info)};
    pbf_writer written(writer_, profile::kSample);
    written.add_packed_uint64(sample::kLocationId, stack.begin(), stack.end());
    written.add_packed_int64(sample::kValue, values.begin(), values.end());
    WriteLabel("cause", NameOf(row.cause), &written);
    if (row.copy_site >= 0) {
      const CopySite& site = model_.copy_sites[row.copy_site];
      WriteLabel("type", Readable(site.type), &written);
      WriteLabel("native", Readable(site.symbol.empty() ? site.module : site.symbol), &written);
    }
    WriteLabel("process", ProcessLabel(*row.process, model_), &written);
    WriteLabel("worker", WorkerNumber(*row.process), &written);
    WriteLabel("rank", RankNumber(*row.process, model_), &written);
  }

  void WriteLocation(const NamedFrame& frame, uint64_t id) {
    pbf_writer written(writer_, profile::kLocation);
    written.add_uint64(location::kId, id);
    written.add_uint64(location::kMappingId, 1);
    pbf_writer written_line(written, location::kLine);
    written_line.add_uint64(line::kFunctionId, IdOf(Names(frame.name, frame.file), &functions_));
    written_line.add_int64(line::kLine, frame.line);
  }

  const RunModel& model_;
  std::string out_;
  pbf_writer writer_{out_};
  std::map<std::string, int64_t> strings_;
  std::vector<std::string> string_table_;  // in order of their numbers
  std::map<NamedFrame, uint64_t> locations_;
  std::map<Names, uint64_t> functions_;
};

}  // namespace

std::string PprofProfile(const RunModel& model) { return Gzip({Profile(model).Write()}, kFast); }

}  // namespace cowprof
