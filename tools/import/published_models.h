// The model that ships for the name under which somebody publishes or keeps one.
#pragma once

#include <string>
#include <vector>

namespace orrery::tools {

struct PublishedModel {
  std::string ships;     // empty: none
  std::string beside;    // an encoder whose language model alone ships
  std::string inferred;  // the part of the name that says so, where it is no more than a part
};

/// Of "NousResearch/Llama-2-70b-chat-hf", "Qwen/Qwen3-4B-Instruct-2507" or "saves/qwen3-4b/full/sft", which is trained
/// on as its base is: what a name says of a tuning, a date or the type of its weights changes no size.
PublishedModel published_model(const std::string& name);

}  // namespace orrery::tools
