// Where a number of a scenario is written: which of the documents that it refers to decides a key. For what changes
// documents and asks who is affected: fits and sensitivities.
#pragma once

#include <string>

#include "calibration/framework/generation.h"
#include "sim/settings.h"

namespace orrery::scenarios {

/// A key of a device profile, a fabric or a software generation, as scenarios name it: "cluster.device.sustained.
/// matmul" is the key "sustained.matmul" on the shelf of devices, and "software.kernel_issue" is "host.kernel_issue".
struct DocumentKey {
  std::string kind;  // "devices", "fabrics" or "software"
  std::string key;   // within the document
};
/// Throws UserError at `path` for keys that belong to no such document, and for those that the language does not have.
DocumentKey document_key(const sim::Settings& path);

/// The file that a name or path of that kind of document means. Throws UserError.
std::string document_file(const std::string& kind, const sim::Settings& reference);
/// The document in `file` with all that it inherits. Throws UserError.
sim::Settings whole_document(const std::string& kind, const std::string& file);

/// The document of that kind that a scenario refers to, with all that it inherits; a mapping without members where the
/// scenario refers to none. Throws UserError.
sim::Settings referred_document(const sim::Settings& scenario, const std::string& kind);

/// The software generation that a scenario refers to, or the default one. Throws UserError.
calibration::Generation referred_software(const sim::Settings& scenario);

/// `scenario` with a feature of its software taken away, as `without` takes it.
sim::Settings without_feature(const sim::Settings& scenario, const std::string& feature);

/// Whether `scenario` would see another value of `key` if it were set in `file`: the document that it refers to is
/// `file` or inherits it, and nothing nearer sets the key. Throws UserError where the reference does not resolve.
bool reads_from(const sim::Settings& scenario, const DocumentKey& key, const std::string& file);

}  // namespace orrery::scenarios
