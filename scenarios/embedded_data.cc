// An archive that the linker puts into the program (ORRERY_EMBEDDED_DATA), and the few fields of tar that it takes to
// read it. Files, not streams in memory: documents are named in messages, inherit each other by path, and may be looked
// at. Left out: links, owners, long names of later forms of tar; removing what older versions of the program unpacked.
#include "scenarios/embedded_data.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "sim/error.h"

#ifdef ORRERY_EMBEDDED_DATA
__asm__(
    ".pushsection .rodata\n"
    ".global orrery_data_begin\n"
    ".global orrery_data_end\n"
    "orrery_data_begin:\n"
    ".incbin \"" ORRERY_EMBEDDED_DATA
    "\"\n"
    "orrery_data_end:\n"
    ".popsection\n");
extern "C" const char orrery_data_begin[];
extern "C" const char orrery_data_end[];
#endif

namespace orrery::scenarios {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBlock = 512;

std::string inflated(std::span<const char> archive) {
  z_stream zlib{};
  constexpr int kWindow = 15, kGzip = 16;
  SIM_CHECK(inflateInit2(&zlib, kWindow + kGzip) == Z_OK, "zlib does not begin");
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(archive.data()));
  zlib.avail_in = static_cast<uInt>(archive.size());
  std::string out;
  std::array<char, 65536> block{};
  int status = Z_OK;
  while (status == Z_OK) {
    zlib.next_out = reinterpret_cast<Bytef*>(block.data());
    zlib.avail_out = block.size();
    status = inflate(&zlib, Z_NO_FLUSH);
    out.append(block.data(), block.size() - zlib.avail_out);
  }
  inflateEnd(&zlib);
  SIM_CHECK(status == Z_STREAM_END, "the data inside the program end early: {}", status);
  return out;
}

/// A field that ends at its first zero.
std::string_view header_text(std::string_view header, std::size_t at, std::size_t size) {
  const std::string_view field = header.substr(at, size);
  return field.substr(0, field.find('\0'));
}

std::size_t header_size(std::string_view header) {
  const std::string_view digits = header_text(header, 124, 12);
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size, 8);
  SIM_CHECK(error == std::errc{} && end != digits.data(), "the data inside the program have a file without a size");
  return size;
}

/// Calls `each(path, contents)` for every regular file of a gzipped archive.
template <class Each>
void for_each_file(std::span<const char> archive, const Each& each) {
  const std::string tar = inflated(archive);
  for (std::size_t at = 0; at + kBlock <= tar.size() && tar[at] != '\0';) {
    const std::string_view header = std::string_view(tar).substr(at, kBlock);
    const std::string_view prefix = header_text(header, 345, 155), name = header_text(header, 0, 100);
    const std::size_t size = header_size(header), contents = at + kBlock;
    SIM_CHECK(size <= tar.size() - contents, "the data inside the program end within {}", name);
    const fs::path path = prefix.empty() ? fs::path(name) : fs::path(prefix) / name;
    const char kind = header[156];
    const bool inside = path.is_relative() && *path.lexically_normal().begin() != "..";
    SIM_CHECK(inside && (kind == '0' || kind == '5'), "the data inside the program have a file of kind {} at {}", kind,
              path.string());
    if (kind == '0') each(path, std::string_view(tar).substr(contents, size));
    at = contents + (size + kBlock - 1) / kBlock * kBlock;
  }
}

/// A folder of this process alone.
fs::path fresh_folder(const fs::path& place) {
  std::string name = (place / "data-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw fs::filesystem_error("cannot make a folder", place, std::error_code(errno, std::generic_category()));
  return name;
}

std::optional<fs::path> cache_folder() {
  for (const auto& [variable, below] : {std::pair("XDG_CACHE_HOME", ""), std::pair("HOME", ".cache")}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && fs::path(value).is_absolute()) return fs::path(value) / below / "orrery";
  }
  return {};
}

fs::path unpacked(std::span<const char> archive) {
  if (const auto cache = cache_folder()) {
    try {
      return unpacked_in(*cache, archive);
    } catch (const fs::filesystem_error&) {
      // No home that can be written to, as in a container or a job.
    }
  }
  try {
    static const fs::path temporary = fresh_folder(fs::temp_directory_path());
    unpack(archive, temporary);
    std::atexit([] {
      std::error_code ignored;
      fs::remove_all(temporary, ignored);
    });
    return temporary;
  } catch (const fs::filesystem_error& error) {
    throw sim::UserError(
        fmt::format("this program holds its data in itself and found no place to unpack them: {}; expected a home or "
                    "a temporary folder that can be written to, or ORRERY_HOME=DIR with calibration and scenarios",
                    error.what()));
  }
}

}  // namespace

void unpack(std::span<const char> archive, const fs::path& folder) {
  for_each_file(archive, [&](const fs::path& path, std::string_view contents) {
    fs::create_directories((folder / path).parent_path());
    std::ofstream out(folder / path, std::ios::binary);
    out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
    out.close();
    if (!out)
      throw fs::filesystem_error("cannot write", folder / path, std::make_error_code(std::errc::no_space_on_device));
  });
}

bool is_unpacked(std::span<const char> archive, const fs::path& folder) {
  bool all = true;
  for_each_file(archive, [&](const fs::path& path, std::string_view contents) {
    std::error_code error;
    all = all && fs::file_size(folder / path, error) == contents.size() && !error;
  });
  return all;
}

fs::path unpacked_in(const fs::path& cache, std::span<const char> archive) {
  const auto* bytes = reinterpret_cast<const Bytef*>(archive.data());
  const auto sum = crc32_z(0, bytes, archive.size());
  const fs::path folder = cache / fmt::format("data-{:08x}-{}", sum, archive.size());
  if (is_unpacked(archive, folder)) return folder;
  fs::create_directories(cache);
  const fs::path fresh = fresh_folder(cache);
  try {
    unpack(archive, fresh);
    fs::permissions(fresh, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                               fs::perms::others_read | fs::perms::others_exec);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
  std::error_code error;
  fs::remove_all(folder, error);  // with files missing
  fs::rename(fresh, folder, error);
  if (error) {  // another process was quicker
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    if (!is_unpacked(archive, folder)) throw fs::filesystem_error("cannot rename", fresh, folder, error);
  }
  return folder;
}

std::optional<fs::path> embedded_data() {
#ifdef ORRERY_EMBEDDED_DATA
  return unpacked({orrery_data_begin, orrery_data_end});
#else
  static_cast<void>(unpacked);
  return {};
#endif
}

}  // namespace orrery::scenarios
