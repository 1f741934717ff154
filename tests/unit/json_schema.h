// Validates a JSON value against the part of JSON Schema that schema/*.schema.json uses, so that tests check the tool
// against the schemas themselves. An unknown keyword is an error: a check must not vanish silently.
#ifndef COWPROF_TESTS_UNIT_JSON_SCHEMA_H_
#define COWPROF_TESTS_UNIT_JSON_SCHEMA_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace cowprof {

inline std::string ReadWhole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline std::filesystem::path RepositoryRoot() {
  return std::filesystem::path(COWPROF_FIXTURES).parent_path().parent_path();
}

class JsonSchema {
 public:
  using Json = nlohmann::json;

  // "report" or "timeline".
  explicit JsonSchema(const std::string& name)
      : root_(Json::parse(ReadWhole(RepositoryRoot() / "schema" / (name + ".schema.json")), nullptr, false)) {
    if (!root_.is_object()) abort();  // no test can work without it
  }

  // One sentence per violation.
  std::vector<std::string> Errors(const Json& value) const {
    std::vector<std::string> errors;
    Check(value, root_, "$", &errors);
    return errors;
  }

 private:
  static bool IsA(const Json& value, const std::string& type) {
    return type == "object"    ? value.is_object()
           : type == "array"   ? value.is_array()
           : type == "string"  ? value.is_string()
           : type == "boolean" ? value.is_boolean()
           : type == "null"    ? value.is_null()
           : type == "integer" ? value.is_number_integer()
                               : type == "number" && value.is_number();
  }

  bool Holds(const Json& value, const Json& schema) const {
    std::vector<std::string> errors;
    Check(value, schema, "", &errors);
    return errors.empty();
  }

  void Check(const Json& value, const Json& schema, const std::string& at, std::vector<std::string>* errors) const {
    const auto wrong = [&](const std::string& what) { errors->push_back(absl::StrCat(at, ": ", what)); };
    for (const auto& [keyword, rule] : schema.items()) {
      if (keyword == "$ref") {
        Check(value, root_[Json::json_pointer(rule.get<std::string>().substr(1))], at, errors);
      } else if (keyword == "type") {
        const Json types = rule.is_array() ? rule : Json::array({rule});
        const auto is_a = [&](const Json& type) { return IsA(value, type.get<std::string>()); };
        if (!std::any_of(types.begin(), types.end(), is_a)) wrong("not of type " + rule.dump());
      } else if (keyword == "const") {
        if (value != rule) wrong("not " + rule.dump());
      } else if (keyword == "enum") {
        if (std::find(rule.begin(), rule.end(), value) == rule.end()) wrong("none of " + rule.dump());
      } else if (keyword == "minimum" || keyword == "exclusiveMinimum") {
        const bool low = keyword == "minimum" ? value < rule : value <= rule;
        if (value.is_number() && low) wrong(value.dump() + " is below " + rule.dump());
      } else if (keyword == "maximum") {
        if (value.is_number() && value > rule) wrong(value.dump() + " is above " + rule.dump());
      } else if (keyword == "pattern") {
        const bool matches =
            value.is_string() && std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>()));
        if (!matches) wrong("does not match " + rule.dump());
      } else if (keyword == "allOf") {
        for (const Json& part : rule) Check(value, part, at, errors);
      } else if (keyword == "if") {
        if (schema.contains("then") && Holds(value, rule)) Check(value, schema["then"], at, errors);
      } else if (!CheckParts(value, keyword, rule, schema, at, errors)) {
        wrong("json_schema.h does not know the keyword " + keyword);
      }
    }
  }

  // Checks keywords about members and elements; false for any other keyword.
  bool CheckParts(const Json& value, const std::string& keyword, const Json& rule, const Json& schema,
                  const std::string& at, std::vector<std::string>* errors) const {
    if (keyword == "required") {
      for (const Json& key : rule) {
        const std::string name = key.get<std::string>();
        if (value.is_object() && !value.contains(name)) errors->push_back(absl::StrCat(at, ": no ", name));
      }
    } else if (keyword == "properties" || keyword == "additionalProperties") {
      if (!value.is_object()) return true;
      for (const auto& [name, member] : value.items()) {
        const bool named = schema.contains("properties") && schema["properties"].contains(name);
        if (named != (keyword == "properties")) continue;
        Check(member, named ? rule[name] : rule, at + "." + name, errors);
      }
    } else if (keyword == "prefixItems") {
      for (size_t i = 0; value.is_array() && i < std::min(value.size(), rule.size()); ++i) {
        Check(value[i], rule[i], absl::StrCat(at, "[", i, "]"), errors);
      }
    } else if (keyword == "items") {
      const size_t first = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
      for (size_t i = first; value.is_array() && i < value.size(); ++i) {
        Check(value[i], rule, absl::StrCat(at, "[", i, "]"), errors);
      }
    } else if (keyword == "minItems" || keyword == "maxItems") {
      const bool fits = keyword == "minItems" ? value.size() >= rule : value.size() <= rule;
      if (value.is_array() && !fits) errors->push_back(absl::StrCat(at, ": ", keyword, " is ", rule.dump()));
    } else {
      constexpr const char* kSilent[] = {"$schema", "title", "$defs", "then", "description"};
      return std::find(std::begin(kSilent), std::end(kSilent), keyword) != std::end(kSilent);
    }
    return true;
  }

  Json root_;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_JSON_SCHEMA_H_
