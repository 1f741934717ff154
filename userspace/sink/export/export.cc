#include "sink/export/export.h"

namespace cowprof {

const char* ExtensionOf(ExportFormat format) {
  switch (format) {
    case ExportFormat::kPprof:
      return ".pb.gz";
    case ExportFormat::kPerfetto:
      return ".pftrace";
    case ExportFormat::kSpeedscope:
      return ".speedscope.json";
    case ExportFormat::kFolded:
      return ".folded";
    case ExportFormat::kCsv:
      return ".csv";
  }
  return "";
}

}  // namespace cowprof
