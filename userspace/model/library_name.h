// Tells the files of a program from those of the libraries that it uses. Pure.
#ifndef COWPROF_MODEL_LIBRARY_NAME_H_
#define COWPROF_MODEL_LIBRARY_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace cowprof {

// The package that a file of Python code belongs to, by the folders that every CPython installs into (sysconfig's
// schemes): "pandas" of .../site-packages/pandas/core/series.py, "random" of .../lib/python3.11/random.py. "": part of
// the program.
std::string LibraryOf(absl::string_view file);

}  // namespace cowprof

#endif  // COWPROF_MODEL_LIBRARY_NAME_H_
