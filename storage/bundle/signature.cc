#include "storage/bundle/signature.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using BioPointer = std::unique_ptr<BIO, FreeBio>;

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using DigestPointer = std::unique_ptr<EVP_MD_CTX, FreeDigest>;

// The text must outlive it.
BioPointer BioOf(const std::string& text) {
  return BioPointer(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

bool IsEd25519(const KeyPointer& key) {
  return key != nullptr && EVP_PKEY_get_id(key.get()) == EVP_PKEY_ED25519;
}

std::string HowToTrust(const std::string& path) {
  return fmt::format(
      "put the public key of whoever makes your bundles there: openssl pkey -pubout -in "
      "builder.pem >>{}",
      path);
}

// What may be checked of an open file stays true of what is read from it.
absl::StatusOr<std::string> ReadTrusted(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    return FailedPrecondition("{}; {}", Message(ErrnoStatus(errno, "no key is trusted: " + path)),
                              HowToTrust(path));
  }
  if (!S_ISREG(status.st_mode) || (status.st_uid != 0 && status.st_uid != ::geteuid()) ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return FailedPrecondition(
        "no key is trusted: {} may be written by others than root and the daemon's user; chown and "
        "chmod it",
        path);
  }
  std::string text(limits::kTrustedKeysBytesMax, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return ErrnoStatus(errno, path);
  text.resize(static_cast<size_t>(got));
  return text;
}

}  // namespace

void FreeKey::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }

absl::StatusOr<SigningKey> SigningKey::Read(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const std::string text,
                        OsFilesystem().Read(path, limits::kTrustedKeysBytesMax));
  // No password is asked for.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  KeyPointer key(PEM_read_bio_PrivateKey(BioOf(text).get(), nullptr, no_password, nullptr));
  if (!IsEd25519(key)) {
    return InvalidArgument(
        "{} is no Ed25519 private key without a password: 'openssl genpkey -algorithm ed25519 -out "
        "NEW.pem' makes one",
        path);
  }
  return SigningKey(std::move(key));
}

absl::StatusOr<std::string> SigningKey::Sign(std::string_view bytes) const {
  const DigestPointer context(EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) != 1) {
    return Internal("OpenSSL could not sign");
  }
  return signature;
}

absl::StatusOr<TrustedKeys> TrustedKeys::Read(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const std::string text, ReadTrusted(path));
  constexpr std::string_view kBegin = "-----BEGIN";
  TrustedKeys trusted;
  // Each block by itself: a damaged one hides none behind it.
  for (size_t begin = text.find(kBegin); begin != std::string::npos;) {
    const size_t next = text.find(kBegin, begin + 1);
    const std::string block = text.substr(begin, next - begin);
    KeyPointer key(PEM_read_bio_PUBKEY(BioOf(block).get(), nullptr, nullptr, nullptr));
    if (IsEd25519(key)) {
      trusted.keys_.push_back(std::move(key));
    } else {
      const auto lines_before =
          std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(begin), '\n');
      trusted.bad_lines_ +=
          fmt::format("{}line {}", trusted.bad_lines_.empty() ? "" : ", ", lines_before + 1);
    }
    begin = next;
  }
  if (trusted.keys_.empty()) {
    return FailedPrecondition("no key is trusted: {} has no Ed25519 public key in PEM form; {}",
                              path, HowToTrust(path));
  }
  return trusted;
}

bool TrustedKeys::HaveSigned(std::string_view bytes, std::string_view signature) const {
  for (const KeyPointer& key : keys_) {
    const DigestPointer context(EVP_MD_CTX_new());
    if (EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
        EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                         signature.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                         bytes.size()) == 1) {
      return true;
    }
  }
  return false;
}

}  // namespace kiln
