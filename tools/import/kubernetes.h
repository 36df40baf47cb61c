// What a manifest of Kubernetes starts: the command of its container that a test of the caller's takes, with the GPUs
// of its pods, how many there are of them, the device that they ask for, and files that a ConfigMap holds. Kinds: Pod,
// Deployment, StatefulSet, ReplicaSet, DaemonSet and Job (k8s.io/api), LeaderWorkerSet (lws.sigs.k8s.io v1), PyTorchJob
// and MPIJob (kubeflow.org v1 and v2beta1), TrainJob (trainer.kubeflow.org v1alpha1). Left out: templates of Helm,
// overlays of Kustomize, what an operator adds by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/import/import.h"

namespace orrery::tools {

struct ManifestJob {
  std::string name;    // "Deployment vllm"
  std::string script;  // what the container runs, as a shell reads it, at its lines of the manifest
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> files;               // of ConfigMaps, by name
  std::int64_t replicas = 1;                              // that work apart from each other
  std::int64_t pods = 1;                                  // of a replica, which work together
  std::int64_t gpus_per_pod = 0;                          // 0: it asks for none
  std::string device;                                     // a shipped one; empty: it names none
  std::vector<std::pair<std::string, std::string>> told;  // of the manifest, and why it is not taken
};

/// The first job of the manifest whose command `is_meant` takes. Throws sim::UserError where none is, which names what
/// there is.
ManifestJob read_manifest(const std::string& text, const std::string& file,
                          const std::function<bool(const std::string& script)>& is_meant);

/// A manifest of Kubernetes around a server or a training of Megatron-LM's.
Draft import_kubernetes(const std::string& file, const std::vector<std::string>& sets, const ShellGiven& given);

}  // namespace orrery::tools
