// Tells the files of a program from those of the libraries that it uses. Pure.
#ifndef COWPROF_MODEL_LIBRARY_NAME_H_
#define COWPROF_MODEL_LIBRARY_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace cowprof {

// The package that a file of Python code belongs to, by the folders that every CPython installs into (sysconfig's
// schemes): "pandas" of .../site-packages/pandas/core/series.py, "random" of .../lib/python3.11/random.py. "": part of
// the program. Code that a library generates has no such folder: numpy (before 1.25), attrs and decorator name
// themselves in the file; methods of a dataclass are told by `function`, its qualified name (from Python 3.11 on).
std::string LibraryOf(absl::string_view file, absl::string_view function = "");

// Whether the path of a file of Python code ends in `end`. One that begins with "/multiprocessing/" stands for the
// packages that are copies of multiprocessing, too: multiprocess (pathos, Hugging Face's datasets), if it is installed,
// and billiard (Celery).
bool EndsInFile(absl::string_view file, absl::string_view end);

}  // namespace cowprof

#endif  // COWPROF_MODEL_LIBRARY_NAME_H_
