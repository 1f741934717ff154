#include "python/last_error.h"

#include <catch2/catch.hpp>

namespace cowprof {

TEST_CASE("last error: the path by pickle's notes") {
  const std::vector<std::string> notes = {"when serializing dict_keys object",
                                          "when serializing dict item 'names'",
                                          "when serializing train.Catalogue state",
                                          "when serializing train.Catalogue object",
                                          "when serializing list item 3",
                                          "when serializing dict item 'test'",
                                          "when serializing dict item '_parts'",
                                          "when serializing tuple item 1",
                                          "when serializing train.Slotted state",
                                          "when serializing train.Slotted object",
                                          "when serializing tuple item 0",
                                          "when serializing dict item '_args'",
                                          "when serializing multiprocessing.context.SpawnProcess state",
                                          "when serializing multiprocessing.context.SpawnProcess object"};
  CHECK(PathOfNotes(notes) == "Process._args[0]._parts['test'][3].names");
  std::vector<std::string> other = notes;
  other[3] = "when serializing train.Catalogue reconstructor arguments";
  CHECK(PathOfNotes(other).empty());
  other[3] = "a note of the program";
  CHECK(PathOfNotes(other).empty());
  // The state of a functools.partial is a tuple.
  CHECK(PathOfNotes({"when serializing tuple item 1", "when serializing functools.partial state"}).empty());
  CHECK(PathOfNotes({"when serializing X object", "when serializing Y state"}).empty());
  CHECK(PathOfNotes({}).empty());
}

}  // namespace cowprof
