// Names of enumerators, written once beside the enumeration, as
//   template <> inline constexpr auto kNamesOf<Fruit> = NamesFor<Fruit>("apple", "pear");
// Everything else follows from that line: the count, the list of all values, the name of a value and the value of a
// name. It does not compile if names and enumerators differ in number. Enumerators count up from 0.
#ifndef COWPROF_MODEL_FACTS_ENUM_NAMES_H_
#define COWPROF_MODEL_FACTS_ENUM_NAMES_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/strings/string_view.h"

namespace cowprof {

// GCC and clang spell an enumerator by its name, "cowprof::Fruit::kPear", and any other value as a cast,
// "(cowprof::Fruit)2".
template <auto kValue>
consteval bool IsEnumerator() {
  const std::string_view function = __PRETTY_FUNCTION__;
  return function[function.find_last_of(":)")] == ':';
}

template <typename Enum, typename... Names>
consteval std::array<const char*, sizeof...(Names)> NamesFor(Names... names) {
  static_assert(IsEnumerator<static_cast<Enum>(sizeof...(Names) - 1)>(), "more names than enumerators");
  static_assert(!IsEnumerator<static_cast<Enum>(sizeof...(Names))>(), "fewer names than enumerators");
  return {names...};
}

template <typename Enum>
inline constexpr std::array<const char*, 0> kNamesOf = {};

template <typename Enum>
concept NamedEnum = kNamesOf<Enum>
.size() > 0;

template <NamedEnum Enum>
inline constexpr size_t kCountOf = kNamesOf<Enum>.size();

// Every enumerator, in order.
template <NamedEnum Enum>
inline constexpr std::array<Enum, kCountOf<Enum>> kAll = [] {
  std::array<Enum, kCountOf<Enum>> all = {};
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Enum>(i);
  return all;
}();

template <NamedEnum Enum>
constexpr const char* NameOf(Enum value) {
  return kNamesOf<Enum>[static_cast<size_t>(value)];
}

// nullopt: no enumerator has this name. A later version may have written the recording.
template <NamedEnum Enum>
std::optional<Enum> EnumNamed(absl::string_view name) {
  for (const Enum value : kAll<Enum>) {
    if (name == NameOf(value)) return value;
  }
  return std::nullopt;
}
template <NamedEnum Enum>
Enum EnumNamed(absl::string_view name, Enum otherwise) {
  return EnumNamed<Enum>(name).value_or(otherwise);
}

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_ENUM_NAMES_H_
