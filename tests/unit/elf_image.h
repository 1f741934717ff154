// Builds a small ELF file: one segment, symbols, a needed library, a section. Real enough for every reader, small
// enough to break each of its bytes.
#ifndef COWPROF_TESTS_UNIT_ELF_IMAGE_H_
#define COWPROF_TESTS_UNIT_ELF_IMAGE_H_

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace cowprof {

struct ElfImage {
  struct Symbol {
    std::string name;
    uint64_t value = 0, size = 0;
    int type = STT_FUNC, binding = STB_GLOBAL;
    uint16_t section = 1;
  };
  static constexpr uint64_t kAddress = 0x400000;  // of the file's first byte in memory
  uint16_t type = ET_DYN;
  std::vector<Symbol> dynamic_symbols, symbols;
  std::vector<std::string> needed;

  std::string Build() const {
    std::string file(sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), '\0');
    std::vector<Elf64_Shdr> headers(1, Elf64_Shdr{});
    std::string names(1, '\0');
    const auto add = [&](const char* name, uint32_t section_type, const std::string& bytes, uint32_t link,
                         uint64_t entry) {
      Elf64_Shdr header{};
      header.sh_name = static_cast<uint32_t>(names.size());
      header.sh_type = section_type;
      header.sh_offset = file.size();
      header.sh_addr = kAddress + file.size();
      header.sh_size = bytes.size();
      header.sh_link = link;
      header.sh_entsize = entry;
      header.sh_addralign = 8;
      names += std::string(name) + '\0';
      file += bytes;
      file.resize((file.size() + 7) & ~size_t{7});
      headers.push_back(header);
      return static_cast<uint32_t>(headers.size() - 1);
    };
    add(".text", SHT_PROGBITS, std::string(4096, '\x90'), 0, 0);
    add(".PyRuntime", SHT_PROGBITS, std::string(64, '\0'), 0, 0);
    std::string strings(1, '\0'), dynamic;
    const std::string dynamic_table = Table(dynamic_symbols, &strings);
    for (const std::string& library : needed) {
      Append(&dynamic, Elf64_Dyn{DT_NEEDED, {strings.size()}});
      strings += library + '\0';
    }
    Append(&dynamic, Elf64_Dyn{DT_NULL, {0}});
    const uint32_t dynamic_strings = add(".dynstr", SHT_STRTAB, strings, 0, 0);
    add(".dynsym", SHT_DYNSYM, dynamic_table, dynamic_strings, sizeof(Elf64_Sym));
    add(".dynamic", SHT_DYNAMIC, dynamic, dynamic_strings, sizeof(Elf64_Dyn));
    strings.assign(1, '\0');
    const std::string table = Table(symbols, &strings);
    const uint32_t symbol_strings = add(".strtab", SHT_STRTAB, strings, 0, 0);
    add(".symtab", SHT_SYMTAB, table, symbol_strings, sizeof(Elf64_Sym));
    const uint32_t names_index = add(".shstrtab", SHT_STRTAB, names + ".shstrtab" + '\0', 0, 0);

    const Elf64_Phdr segment{PT_LOAD, PF_R | PF_X | PF_W, 0, kAddress, kAddress, file.size(), file.size() + 4096, 4096};
    Elf64_Ehdr header{};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = type;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof(header);
    header.e_shoff = file.size();
    header.e_ehsize = sizeof(header);
    header.e_phentsize = sizeof(segment);
    header.e_phnum = 1;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(headers.size());
    header.e_shstrndx = static_cast<uint16_t>(names_index);
    memcpy(file.data(), &header, sizeof(header));
    memcpy(file.data() + sizeof(header), &segment, sizeof(segment));
    for (const Elf64_Shdr& section : headers) Append(&file, section);
    return file;
  }

 private:
  template <typename T>
  static void Append(std::string* bytes, const T& value) {
    bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static std::string Table(const std::vector<Symbol>& symbols, std::string* strings) {
    std::string table(sizeof(Elf64_Sym), '\0');
    for (const Symbol& symbol : symbols) {
      Elf64_Sym entry{};
      entry.st_name = static_cast<uint32_t>(strings->size());
      entry.st_info = ELF64_ST_INFO(symbol.binding, symbol.type);
      entry.st_shndx = symbol.section;
      entry.st_value = symbol.value;
      entry.st_size = symbol.size;
      *strings += symbol.name + '\0';
      Append(&table, entry);
    }
    return table;
  }
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_ELF_IMAGE_H_
