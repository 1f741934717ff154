// Every enumeration that has names: each enumerator has one of its own, and comes back from it.
#include "model/facts/enum_names.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "model/facts/run_model.h"
#include "model/facts/shm.h"
#include "model/judge/alert.h"
#include "model/judge/forecast.h"
#include "python/page_diff.h"

namespace cowprof {
namespace {

enum class Fruit { kApple, kPear, kPlum };
template <auto kValue>
constexpr bool kIsOne = IsEnumerator<kValue>();
static_assert(kIsOne<Fruit::kApple> && kIsOne<Fruit::kPlum>);
static_assert(!kIsOne<static_cast<Fruit>(3)> && !kIsOne<static_cast<Fruit>(-1)>);

TEMPLATE_TEST_CASE("an enumerator has a name of its own and comes back from it", "", AlertRule, Cause, Exactness,
                   LimitKind, Outlook, Ownership, PageDiff, RegionKind, Role, SegmentKind, Shape) {
  std::set<std::string> names;
  for (const TestType value : kAll<TestType>) {
    const std::string name = NameOf(value);
    INFO(name);
    CHECK_FALSE(name.empty());
    CHECK(names.insert(name).second);
    for (const TestType otherwise : kAll<TestType>) CHECK(EnumNamed(name, otherwise) == value);
  }
  CHECK(names.size() == kCountOf<TestType>);
  for (const TestType otherwise : kAll<TestType>) {
    CHECK(EnumNamed("", otherwise) == otherwise);
    CHECK(EnumNamed(*names.begin() + "?", otherwise) == otherwise);
  }
}

}  // namespace
}  // namespace cowprof
