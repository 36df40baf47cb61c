// Manifests of Kubernetes; see kubernetes.h.
#include "tools/import/kubernetes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "scenarios/scenario.h"
#include "scenarios/yaml.h"
#include "sim/error.h"
#include "tools/import/known_devices.h"

namespace orrery::tools {

using sim::Settings;

namespace {

constexpr std::int64_t kMostPods = 100'000;

/// The documents of a file, each at its own lines.
std::vector<Settings> documents_of(const std::string& text, const std::string& file) {
  std::vector<Settings> documents;
  std::string open;
  std::size_t at = 0, lines = 0;
  const auto close = [&] {
    if (open.find_first_not_of(" \t\r\n") == std::string::npos) return;
    Settings read = scenarios::parse_yaml_of_others(open, file);
    if (read.is_mapping() && !read.members().empty()) documents.push_back(std::move(read));
  };
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    ++lines;
    if (line.starts_with("---")) {
      close();
      open.assign(lines, '\n');
    } else {
      open += line + "\n";
    }
  }
  close();
  return documents;
}

const Settings* at_path(const Settings& node, const std::string& path) { return node.find_path(path); }

std::string word_at(const Settings& node, const std::string& path) {
  const Settings* found = at_path(node, path);
  return found != nullptr && found->is_scalar() ? found->text() : "";
}

std::int64_t count_at(const Settings& node, const std::string& path, std::int64_t fallback) {
  const Settings* found = at_path(node, path);
  return found != nullptr ? found->as_int(0, kMostPods) : fallback;
}

/// A group of pods of one template.
struct Pods {
  const Settings* spec = nullptr;  // of a pod, or of a trainer
  std::int64_t count = 1;
  std::string path;  // where the template stands
};
struct PodGroup {
  std::string name;
  std::vector<Pods> pods;
  std::int64_t replicas = 1;
  std::int64_t processes = 0;  // of a pod, where the kind says it
  std::set<std::string> read;  // members ahead of the templates that are
};

/// The pods of a document; none where its kind has none.
PodGroup group_of(const Settings& document) {
  const std::string kind = word_at(document, "kind");
  PodGroup group{kind + " " + word_at(document, "metadata.name"), {}, 1, 0, {}};
  const auto add = [&](const std::string& path, std::int64_t count) {
    if (const Settings* spec = at_path(document, path); spec != nullptr && spec->is_mapping() && count > 0)
      group.pods.push_back({spec, count, path});
  };
  if (kind == "Pod") {
    add("spec", 1);
  } else if (kind == "Deployment" || kind == "StatefulSet" || kind == "ReplicaSet") {
    group.replicas = count_at(document, "spec.replicas", 1);
    add("spec.template.spec", 1);
    group.read = {"replicas"};
  } else if (kind == "DaemonSet") {
    add("spec.template.spec", 1);
    group.read = {};
  } else if (kind == "Job") {
    add("spec.template.spec", count_at(document, "spec.parallelism", 1));
    group.read = {"parallelism"};
  } else if (kind == "LeaderWorkerSet") {
    const std::string at = "spec.leaderWorkerTemplate.";
    const std::int64_t size = count_at(document, at + "size", 1);
    const bool leader = at_path(document, at + "leaderTemplate.spec") != nullptr;
    group.replicas = count_at(document, "spec.replicas", 1);
    if (leader) add(at + "leaderTemplate.spec", 1);
    add(at + "workerTemplate.spec", size - (leader ? 1 : 0));
    group.read = {"replicas", "size"};
  } else if (kind == "PyTorchJob" || kind == "MPIJob") {
    const std::string at = kind == "MPIJob" ? "mpiReplicaSpecs" : "pytorchReplicaSpecs";
    for (const char* role : {"Launcher", "Master", "Worker"}) {
      const std::string path = fmt::format("spec.{}.{}.", at, role);
      add(path + "template.spec", count_at(document, path + "replicas", 1));
    }
    const std::string processes = word_at(document, kind == "MPIJob" ? "spec.slotsPerWorker" : "spec.nprocPerNode");
    if (!processes.empty() && processes.find_first_not_of("0123456789") == std::string::npos && processes.size() < 6)
      group.processes = std::stoll(processes);
    group.read = {"replicas", "slotsPerWorker", "nprocPerNode"};
  } else if (kind == "TrainJob") {
    add("spec.trainer", count_at(document, "spec.trainer.numNodes", 1));
    group.read = {"numNodes"};
  }
  return group;
}

std::vector<const Settings*> containers_of(const Pods& pods) {
  std::vector<const Settings*> containers;
  const Settings* list = pods.spec->find("containers");
  if (list == nullptr) {
    if (pods.spec->find("image") != nullptr || pods.spec->find("command") != nullptr) containers.push_back(pods.spec);
    return containers;
  }
  if (!list->is_sequence()) list->expected("a list of containers");
  for (const Settings& container : list->items()) {
    if (container.is_mapping()) containers.push_back(&container);
  }
  return containers;
}

/// GPUs that a container asks for, whoever made them.
std::int64_t gpus_of(const Settings& container) {
  for (const char* resources :
       {"resources.limits", "resources.requests", "resourcesPerNode.limits", "resourcesPerNode.requests"}) {
    const Settings* asked = at_path(container, resources);
    if (asked == nullptr || !asked->is_mapping()) continue;
    for (const auto& [name, value] : asked->members()) {
      if (name == "nvidia.com/gpu" || name == "amd.com/gpu") return value.as_int(0, 1024);
    }
  }
  return 0;
}

std::map<std::string, std::string> environment_of(const Settings& container) {
  std::map<std::string, std::string> environment;
  const Settings* list = container.find("env");
  if (list == nullptr || !list->is_sequence()) return environment;
  for (const Settings& each : list->items()) {
    if (!each.is_mapping()) continue;
    const Settings* value = each.find("value");
    if (value != nullptr && value->is_scalar()) environment[word_at(each, "name")] = value->text();
  }
  return environment;
}

/// "$(NAME)" is Kubernetes' own, in commands and arguments alike; of what the container's `env` does not say, the
/// shell's variable of that name.
std::string expanded(const std::string& text, const std::map<std::string, std::string>& environment) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = text.compare(i, 2, "$(") == 0 ? text.find(')', i) : std::string::npos;
    const std::string name = end == std::string::npos ? "" : text.substr(i + 2, end - i - 2);
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
    });
    if (!plain) {
      out += text[i++];
      continue;
    }
    const auto known = environment.find(name);
    out += known != environment.end() ? known->second : "${" + name + "}";
    i = end + 1;
  }
  return out;
}

bool is_shell_word(const std::string& word) {
  const std::string name = word.substr(word.rfind('/') + 1);
  return name == "sh" || name == "bash" || name == "dash" || name == "ash";
}

/// What images run whose manifest says arguments alone.
std::string entry_of(const std::string& image) {
  if (image.find("vllm-openai") != std::string::npos) return "vllm serve";
  return "";
}

/// The command and the arguments of a container as a shell's script.
std::string script_of(const Settings& container, const std::map<std::string, std::string>& environment) {
  std::vector<const Settings*> words;
  for (const char* key : {"command", "args"}) {
    const Settings* list = container.find(key);
    if (list == nullptr) continue;
    if (list->is_scalar()) words.push_back(list);
    if (!list->is_sequence()) continue;
    for (const Settings& word : list->items()) {
      if (!word.is_scalar()) word.expected("a word of a command");
      words.push_back(&word);
    }
  }
  if (words.empty()) return "";
  const auto line = [](const Settings& word) {
    return static_cast<std::size_t>(std::max(1, static_cast<int>(word.place().line)));
  };
  // `bash -c TEXT`, `bash -lc TEXT`.
  for (std::size_t i = 1; i + 1 < words.size() && i < 3; ++i) {
    const std::string& flag = words[i]->text();
    if (!is_shell_word(words[0]->text()) || !flag.starts_with("-") || flag.find('c') == std::string::npos) continue;
    const Settings& text = *words[i + 1];
    const bool block = text.text().find('\n') != std::string::npos;
    return std::string(line(text) - (block ? 0 : 1), '\n') + expanded(text.text(), environment);
  }
  std::string script(line(*words[0]) - 1, '\n');
  if (container.find("command") == nullptr) script += entry_of(word_at(container, "image")) + " ";
  for (const Settings* word : words) {
    std::string quoted = "'";
    const std::string text = expanded(word->text(), environment);
    const bool open = text.find("${") != std::string::npos;
    for (const char c : text) quoted += c == '\'' && !open ? "'\\''" : std::string(1, c);
    script += open ? "\"" + text + "\" " : quoted + "' ";
  }
  return script;
}

/// A device that a text below the node names.
std::string device_below(const Settings& node) {
  if (node.is_scalar()) {
    const KnownDevice* known = device_of_instance(node.text());
    return known != nullptr ? known->device : "";
  }
  std::string found;
  if (node.is_sequence()) {
    for (const Settings& item : node.items()) found = found.empty() ? device_below(item) : found;
  } else if (node.is_mapping()) {
    for (const auto& [key, member] : node.members()) found = found.empty() ? device_below(member) : found;
  }
  return found;
}

std::map<std::string, std::string> files_of(const std::vector<Settings>& documents) {
  std::map<std::string, std::string> files;
  for (const Settings& document : documents) {
    const Settings* data = word_at(document, "kind") == "ConfigMap" ? document.find("data") : nullptr;
    for (std::size_t i = 0; data != nullptr && data->is_mapping() && i < data->members().size(); ++i) {
      const auto& [name, value] = data->members()[i];
      if (value.is_scalar()) files[name] = value.text();
    }
  }
  return files;
}

/// How many pods work together, and what they run on. Those without a GPU, as the launcher of an MPIJob, do not count.
void take_pods(const PodGroup& group, ManifestJob& job) {
  job.name = group.name;
  job.replicas = std::max<std::int64_t>(1, group.replicas);
  std::int64_t with = 0, all = 0;
  for (const Pods& each : group.pods) {
    std::int64_t gpus = 0;
    for (const Settings* one : containers_of(each)) gpus += gpus_of(*one);
    all += each.count;
    if (gpus > 0) with += each.count;
    job.gpus_per_pod = std::max(job.gpus_per_pod, gpus);
    for (const char* where : {"nodeSelector", "affinity"}) {
      const Settings* chosen = each.spec->find(where);
      if (chosen != nullptr && job.device.empty()) job.device = device_below(*chosen);
    }
  }
  job.pods = std::max<std::int64_t>(1, with > 0 ? with : all);
  if (job.gpus_per_pod == 0) job.gpus_per_pod = group.processes;
}

/// Members of a mapping that nobody reads, by their paths.
void tell_members(const Settings* node, const std::string& path, const std::set<std::string>& read,
                  std::vector<std::string>& others) {
  if (node == nullptr || !node->is_mapping()) return;
  for (const auto& [key, value] : node->members()) {
    if (!read.contains(key)) others.push_back(path.empty() ? key : path + "." + key);
  }
}

/// Beside the way down to the templates of its pods.
void tell_beside_pods(const Settings& document, const PodGroup& group, std::vector<std::string>& others) {
  std::map<std::string, std::set<std::string>> on_way;  // what leads on, by where it stands
  on_way[""] = {"kind", "spec"};
  for (const Pods& pods : group.pods) {
    for (std::size_t dot = pods.path.find('.'); dot != std::string::npos; dot = pods.path.find('.', dot + 1))
      on_way[pods.path.substr(0, dot)].insert(pods.path.substr(dot + 1, pods.path.find('.', dot + 1) - dot - 1));
  }
  for (auto& [path, read] : on_way) {
    const Settings* node = path.empty() ? &document : at_path(document, path);
    read.insert(group.read.begin(), group.read.end());
    tell_members(node, path, read, others);
  }
  for (const Pods& pods : group.pods)
    tell_members(
        pods.spec, pods.path,
        {"containers", "nodeSelector", "affinity", "image", "command", "args", "env", "numNodes", "resourcesPerNode"},
        others);
}

void tell_container(const Settings& container, const ManifestJob& job, std::vector<std::string>& others,
                    std::set<std::string>& unknown) {
  tell_members(&container, "containers[]", {"command", "args", "env", "image", "resources", "resourcesPerNode"},
               others);
  for (const char* resources : {"resources", "resourcesPerNode"}) {
    const std::string path = fmt::format("containers[].{}", resources);
    tell_members(container.find(resources), path, {"limits", "requests"}, others);
    for (const char* kind : {"limits", "requests"})
      tell_members(at_path(container, fmt::format("{}.{}", resources, kind)), fmt::format("{}.{}", path, kind),
                   {"nvidia.com/gpu", "amd.com/gpu"}, others);
  }
  const Settings* list = container.find("env");
  for (std::size_t i = 0; list != nullptr && list->is_sequence() && i < list->items().size(); ++i) {
    const std::string name = word_at(list->items()[i], "name");
    tell_members(&list->items()[i], fmt::format("env {}", name), {"name", "value", "valueFrom"}, others);
    if (!job.environment.contains(name)) unknown.insert(name);
  }
}

/// What of the job's document is not read.
void tell_rest(const Settings& document, const PodGroup& group, ManifestJob& job) {
  std::vector<std::string> others;
  std::set<std::string> unknown;
  tell_beside_pods(document, group, others);
  for (const Pods& pods : group.pods) {
    for (const Settings* container : containers_of(pods)) {
      if (container != pods.spec) tell_container(*container, job, others, unknown);
    }
  }
  for (const auto& [name, text] : job.files)
    if (job.script.find(name) == std::string::npos) others.push_back(fmt::format("{} of a ConfigMap", name));
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  job.told.emplace_back(fmt::format("{}", fmt::join(others, ", ")), "of the manifest, and no key of a scenario");
  if (!unknown.empty())
    job.told.emplace_back(fmt::format("env {}", fmt::join(unknown, ", ")),
                          "its value stands elsewhere, and is not known");
}

}  // namespace

ManifestJob read_manifest(const std::string& text, const std::string& file,
                          const std::function<bool(const std::string& script)>& is_meant) {
  if (text.find("{{") != std::string::npos && text.find(".Values") != std::string::npos)
    throw sim::UserError({file, 1, 1}, "import", "got a template of Helm's, expected what `helm template` makes of it");
  const std::vector<Settings> documents = documents_of(text, file);
  ManifestJob job;
  job.files = files_of(documents);
  const auto means = [&](const std::string& script) {
    std::string whole = script;
    for (const auto& [name, held] : job.files)
      if (script.find(name) != std::string::npos) whole += "\n" + held;
    return is_meant(whole);
  };
  std::vector<std::string> others, started;
  for (const Settings& document : documents) {
    const PodGroup group = group_of(document);
    bool taken = false;
    for (const Pods& pods : group.pods) {
      for (const Settings* container : containers_of(pods)) {
        const std::map<std::string, std::string> environment = environment_of(*container);
        const std::string script = script_of(*container, environment);
        const std::string shown = fmt::format("{}: {}", group.name, word_at(*container, "image"));
        if (!job.script.empty() || script.empty() || !means(script)) {
          if (!taken || job.script != script) started.push_back(shown);
          continue;
        }
        job.script = script;
        job.environment = environment;
        take_pods(group, job);
        tell_rest(document, group, job);
        taken = true;
      }
    }
    if (!taken && word_at(document, "kind") != "ConfigMap") others.push_back(group.name);
  }
  if (job.script.empty()) {
    const std::string there =
        started.empty() ? fmt::format("{}", fmt::join(others, ", ")) : fmt::format("{}", fmt::join(started, ", "));
    throw sim::UserError({file, 1, 1}, "import",
                         fmt::format("got a manifest whose containers start no server or training that is known ({}), "
                                     "expected vllm serve, sglang.launch_server, trtllm-serve or a training of "
                                     "Megatron-LM's in a container's command",
                                     there.empty() ? "none" : there));
  }
  if (!others.empty())
    job.told.emplace_back(fmt::format("{}", fmt::join(others, ", ")),
                          "another document of the manifest, which is not read");
  if (!started.empty())
    job.told.emplace_back(fmt::format("{}", fmt::join(started, ", ")), "another container, which is not read");
  return job;
}

}  // namespace orrery::tools
