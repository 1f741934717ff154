// Options of `cowprof export`.
#ifndef COWPROF_CLI_EXPORT_OPTIONS_H_
#define COWPROF_CLI_EXPORT_OPTIONS_H_

#include <string>

#include "sink/export/export.h"

namespace CLI {
class App;
}

namespace cowprof {

void AddExportCommand(CLI::App* app, ExportFormat* format, std::string* timeline, std::string* output);

}  // namespace cowprof

#endif  // COWPROF_CLI_EXPORT_OPTIONS_H_
