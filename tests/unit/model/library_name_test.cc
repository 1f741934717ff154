// Which library a file of Python code is part of, and which are copies of multiprocessing.
#include "model/library_name.h"

#include <catch2/catch.hpp>
#include <string>

namespace cowprof {

TEST_CASE("a file of multiprocessing may be that of a copy of it") {
  const std::string site = "/venv/lib/python3.11/site-packages/", pool = "/multiprocessing/pool.py";
  CHECK(EndsInFile("/usr/lib/python3.11/multiprocessing/pool.py", pool));
  CHECK(EndsInFile(site + "multiprocess/pool.py", pool));
  CHECK(EndsInFile("/usr/lib/python3/dist-packages/multiprocess/pool.py", pool));
  CHECK(EndsInFile("/var/task/billiard/pool.py", pool));
  // Other files of theirs, and a program's own folder.
  CHECK_FALSE(EndsInFile(site + "multiprocess/queues.py", pool));
  CHECK_FALSE(EndsInFile(site + "multiprocess/tests/pool.py", pool));
  CHECK_FALSE(EndsInFile("/home/me/multiprocess/pool.py", pool));
  CHECK_FALSE(EndsInFile("/home/me/pool.py", pool));
  CHECK_FALSE(EndsInFile("", pool));
  // Only multiprocessing has copies.
  CHECK(EndsInFile(site + "torch/multiprocessing/spawn.py", "/torch/multiprocessing/spawn.py"));
  CHECK_FALSE(EndsInFile(site + "multiprocess/spawn.py", "/torch/multiprocessing/spawn.py"));
  CHECK_FALSE(EndsInFile(site + "multiprocess/process.py", "/concurrent/futures/process.py"));
}

TEST_CASE("code that a library generates is part of it") {
  CHECK(LibraryOf("<__array_function__ internals>") == "numpy");
  CHECK(LibraryOf("<attrs generated eq __main__.Row>") == "attrs");
  CHECK(LibraryOf("<decorator-gen-12>") == "decorator");
  CHECK(LibraryOf("<string>", "__create_fn__.<locals>.__eq__") == "dataclasses");
  // python -c, and a program's own exec().
  CHECK(LibraryOf("<string>", "<module>").empty());
  CHECK(LibraryOf("<string>", "load.<locals>.__create_fn__").empty());
  CHECK(LibraryOf("<stdin>", "<module>").empty());
}

}  // namespace cowprof
