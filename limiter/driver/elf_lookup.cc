#include "limiter/driver/elf_lookup.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace krux::limiter {
namespace {

struct SymbolTables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* hash = nullptr;
};

const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// The loader relocates the addresses in the dynamic section of most objects, but not of the vDSO.
template <typename T>
const T* Located(ElfW(Addr) base, ElfW(Addr) value) {
  return reinterpret_cast<const T*>(value < base ? base + value : value);
}

SymbolTables TablesOf(const dl_phdr_info& object) {
  SymbolTables tables;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry =
        reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) value = entry->d_un.d_ptr;
      switch (entry->d_tag) {
        case DT_SYMTAB:
          tables.symbols = Located<ElfW(Sym)>(object.dlpi_addr, value);
          break;
        case DT_STRTAB:
          tables.strings = Located<char>(object.dlpi_addr, value);
          break;
        case DT_GNU_HASH:
          tables.gnu_hash = Located<uint32_t>(object.dlpi_addr, value);
          break;
        case DT_HASH:
          tables.hash = Located<uint32_t>(object.dlpi_addr, value);
          break;
        default:
          break;
      }
    }
  }
  return tables;
}

const ElfW(Sym) * Match(const SymbolTables& tables, uint32_t index, const char* name) {
  const ElfW(Sym)& symbol = tables.symbols[index];
  const bool defined = symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0;
  return defined && strcmp(tables.strings + symbol.st_name, name) == 0 ? &symbol : nullptr;
}

const ElfW(Sym) * FindByGnuHash(const SymbolTables& tables, const char* name) {
  uint32_t hash = 5381;
  for (const char* c = name; *c != '\0'; ++c) hash = hash * 33 + static_cast<uint8_t>(*c);
  const uint32_t bucket_count = tables.gnu_hash[0];
  const uint32_t first_symbol = tables.gnu_hash[1];
  const uint32_t bloom_words = tables.gnu_hash[2];
  const uint32_t* buckets = tables.gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
  const uint32_t* chain = buckets + bucket_count;
  if (bucket_count == 0) return nullptr;
  uint32_t i = buckets[hash % bucket_count];
  if (i < first_symbol) return nullptr;
  for (;; ++i) {
    const uint32_t entry = chain[i - first_symbol];
    if ((entry | 1) == (hash | 1)) {
      if (const ElfW(Sym)* found = Match(tables, i, name)) return found;
    }
    if ((entry & 1) != 0) return nullptr;
  }
}

const ElfW(Sym) * FindByHash(const SymbolTables& tables, const char* name) {
  const uint32_t symbol_count = tables.hash[1];
  for (uint32_t i = 1; i < symbol_count; ++i) {
    if (const ElfW(Sym)* found = Match(tables, i, name)) return found;
  }
  return nullptr;
}

struct SymbolQuery {
  const char* object_prefix;
  const char* symbol;
  void* found;
};

int VisitForSymbol(dl_phdr_info* object, size_t, void* context) {
  auto* query = static_cast<SymbolQuery*>(context);
  if (strncmp(BaseName(object->dlpi_name), query->object_prefix, strlen(query->object_prefix)) !=
      0) {
    return 0;
  }
  const SymbolTables tables = TablesOf(*object);
  if (tables.symbols == nullptr || tables.strings == nullptr) return 0;
  const ElfW(Sym)* symbol = nullptr;
  if (tables.gnu_hash != nullptr) {
    symbol = FindByGnuHash(tables, query->symbol);
  } else if (tables.hash != nullptr) {
    symbol = FindByHash(tables, query->symbol);
  }
  if (symbol == nullptr) return 0;
  query->found = reinterpret_cast<void*>(object->dlpi_addr + symbol->st_value);
  return 1;
}

struct AddressQuery {
  uintptr_t address;
  const char* name;
};

int VisitForAddress(dl_phdr_info* object, size_t, void* context) {
  auto* query = static_cast<AddressQuery*>(context);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD || query->address < begin ||
        query->address >= begin + part.p_memsz) {
      continue;
    }
    query->name = BaseName(object->dlpi_name);
    return 1;
  }
  return 0;
}

}  // namespace

void* FindInObject(const char* object_prefix, const char* symbol) {
  SymbolQuery query{object_prefix, symbol, nullptr};
  dl_iterate_phdr(VisitForSymbol, &query);
  return query.found;
}

const char* ObjectNameOf(const void* address) {
  AddressQuery query{reinterpret_cast<uintptr_t>(address), ""};
  dl_iterate_phdr(VisitForAddress, &query);
  return query.name;
}

}  // namespace krux::limiter
