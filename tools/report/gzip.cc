// A stream buffer over zlib's deflate. Left out: reading; levels other than zlib's own default.
#include "tools/report/gzip.h"

#include <zlib.h>

#include <array>
#include <ostream>
#include <streambuf>

#include "sim/error.h"

namespace orrery::tools {

namespace {

class Deflating : public std::streambuf {
 public:
  explicit Deflating(std::ostream& out) : out_(out) {
    constexpr int kWindow = 15, kGzip = 16, kMemory = 8;
    const int status =
        deflateInit2(&zlib_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindow + kGzip, kMemory, Z_DEFAULT_STRATEGY);
    SIM_CHECK(status == Z_OK, "zlib does not begin: {}", status);
    setp(plain_.data(), plain_.data() + plain_.size());
  }
  ~Deflating() override { deflateEnd(&zlib_); }
  Deflating(const Deflating&) = delete;
  Deflating& operator=(const Deflating&) = delete;

  void finish() { pass_on(Z_FINISH); }

 protected:
  int_type overflow(int_type c) override {
    if (!pass_on(Z_NO_FLUSH)) return traits_type::eof();
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    *pptr() = traits_type::to_char_type(c);
    pbump(1);
    return c;
  }

 private:
  /// Compresses what is held; false where `out` has failed.
  bool pass_on(int flush) {
    zlib_.next_in = reinterpret_cast<Bytef*>(pbase());
    zlib_.avail_in = static_cast<uInt>(pptr() - pbase());
    do {
      zlib_.next_out = reinterpret_cast<Bytef*>(packed_.data());
      zlib_.avail_out = static_cast<uInt>(packed_.size());
      deflate(&zlib_, flush);
      out_.write(packed_.data(), static_cast<std::streamsize>(packed_.size() - zlib_.avail_out));
    } while (zlib_.avail_out == 0);
    setp(plain_.data(), plain_.data() + plain_.size());
    return static_cast<bool>(out_);
  }

  std::ostream& out_;
  z_stream zlib_{};
  std::array<char, 65536> plain_, packed_;
};

}  // namespace

void write_gzip(std::ostream& out, const std::function<void(std::ostream&)>& body) {
  Deflating deflating(out);
  std::ostream plain(&deflating);
  body(plain);
  deflating.finish();
}

std::function<void(std::ostream&)> compressed_by_name(const std::string& path,
                                                      std::function<void(std::ostream&)> body) {
  if (!path.ends_with(".gz")) return body;
  return [body = std::move(body)](std::ostream& out) { write_gzip(out, body); };
}

}  // namespace orrery::tools
