// The private tables that the CUDA runtime asks for at start: whether they are there, how large
// they say they are. Of their functions one is called, whose prototype several projects found: the
// check with which the runtime tells whether it speaks with the vendor's driver.
#include <cstdint>
#include <cstring>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

void Table(Answer& out, const unsigned char (&id)[16]) {
  const void* table = nullptr;
  CUuuid uuid;
  std::memcpy(&uuid, id, sizeof uuid);
  out("result", CU(cuGetExportTable, &table, &uuid));
  out("found", table != nullptr);
  uint64_t size = 0;
  if (table != nullptr) std::memcpy(&size, table, sizeof size);
  // A table that begins with a function has no size.
  out("size", size < 4096 ? std::to_string(size) : std::string("function"));
}

constexpr unsigned char kIntegrity[16] = {0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b,
                                          0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2};

using Check = CUresult (*)(uint32_t version, uint64_t seconds, uint64_t result[2]);

// The version's last digit chooses: 0 and 1 have a constant answer, the others a hash over process
// and cards.
void Integrity(Answer& out, uint32_t version) {
  const void* table = nullptr;
  CUuuid uuid;
  std::memcpy(&uuid, kIntegrity, sizeof uuid);
  if (CU(cuGetExportTable, &table, &uuid) != CUDA_SUCCESS) return out("table", "none");
  Check check = nullptr;
  std::memcpy(&check, static_cast<const char*>(table) + sizeof(void*), sizeof check);
  uint64_t first[2] = {};
  uint64_t second[2] = {};
  uint64_t later[2] = {};
  out("result", check(version, 1700000000, first));
  check(version, 1700000000, second);
  check(version, 1700000001, later);
  if (version % 10 < 2) {
    out("words", std::to_string(first[0]) + "," + std::to_string(first[1]));
  }
  out("repeats", std::memcmp(first, second, sizeof first) == 0);
  out("depends-on-time", std::memcmp(first, later, sizeof first) != 0);
}

const Case kCases[] = {
    {"table.contexts", kInit,
     [](Answer& out) {
       Table(out, {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12,
                   0xfd, 0x9d, 0xf9});
     }},
    {"table.runtime-callbacks", kInit,
     [](Answer& out) {
       Table(out, {0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20,
                   0x0c, 0x0a, 0x66});
     }},
    {"table.tools", kInit,
     [](Answer& out) {
       Table(out, {0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a,
                   0x3a, 0xec, 0xdc});
     }},
    {"table.context-storage", kInit,
     [](Answer& out) {
       Table(out, {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55,
                   0xd8, 0x95, 0x93});
     }},
    {"table.integrity", kInit, [](Answer& out) { Table(out, kIntegrity); }},
    {"table.context-checks", kInit,
     [](Answer& out) {
       Table(out, {0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00,
                   0x6d, 0xfa, 0x7e});
     }},
    {"table.bootstrap", kInit,
     [](Answer& out) {
       Table(out, {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e,
                   0x7c, 0x0d, 0xd9});
     }},
    {"table.stream-of-libraries", kInit,
     [](Answer& out) {
       Table(out, {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73,
                   0x24, 0xc8, 0xf2});
     }},
    {"table.thread-notify", kInit,
     [](Answer& out) {
       Table(out, {0x19, 0x5b, 0xcb, 0xf4, 0xd6, 0x7d, 0x02, 0x4a, 0xac, 0xc5, 0x1d, 0x29, 0xce,
                   0xa6, 0x31, 0xae});
     }},
    {"table.integrity.first", kContext, [](Answer& out) { Integrity(out, 12090); }, kOwnProcess},
    {"table.integrity.second", kContext, [](Answer& out) { Integrity(out, 12091); }, kOwnProcess},
    {"table.integrity.hash", kContext, [](Answer& out) { Integrity(out, 12092); }, kOwnProcess},
    {"table.zero-id", kInit, [](Answer& out) { Table(out, {}); }},
    {"table.null-table", kInit,
     [](Answer& out) {
       CUuuid id{};
       out(CU(cuGetExportTable, nullptr, &id));
     }},
    {"table.null-id", kInit,
     [](Answer& out) {
       const void* table = nullptr;
       out(CU(cuGetExportTable, &table, nullptr));
     }},
};

}  // namespace

std::span<const Case> TableCases() { return kCases; }

}  // namespace krux::sim::conformance
