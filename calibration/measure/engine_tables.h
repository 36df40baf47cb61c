// Readers of the tables whose rows are no kernel of a fit (serving_samples.h), and what all readers of engines' tables
// share. Internal to serving_samples.cc.
#pragma once

#include <optional>
#include <string>

#include "calibration/measure/serving_samples.h"
#include "calibration/measure/table.h"

namespace orrery::calibration {

inline constexpr const char* kNoType = "types of weights without kernels of their own";
inline constexpr const char* kNoModel = "models whose widths are not known";

struct ServingTable {
  std::vector<std::string> columns;
  void (*read)(const TableLine&, ServingSamples&);
};

Engine engine_of(const TableLine& line);
/// Columns name types as collectors do; none: a type that has no model (int8 activations).
std::optional<WeightType> weight_type(const TableLine& line, const std::string& column);
/// Zero is a length too.
double zero_or_more(const TableLine& line, const std::string& column);
double measured_seconds(const TableLine& line, const char* column);
/// Exponent of power_law_<exponent> and what may follow; else 0.
double exponent_of(const TableLine& line);

void read_absorbed(const TableLine& line, ServingSamples& out);
void read_copied_experts(const TableLine& line, ServingSamples& out);
/// SGLang's experts behind DeepEP, in a table of the columns of other experts': of prompts, where the file's name says
/// `context`, which no column does. Also those that a fit learns from.
void read_dispatched(const TableLine& line, ServingSamples& out);
/// Of the shape alone: rows of one shape, by whatever engine, are held out together.
std::uint64_t shape_of(const TableLine& line);
void read_mixed_batch(const TableLine& line, ServingSamples& out);
void read_uneven(const TableLine& line, ServingSamples& out);
void read_engine_layer(const TableLine& line, ServingSamples& out);
void read_activated(const TableLine& line, ServingSamples& out);
void read_loaded(const TableLine& line, ServingSamples& out);

}  // namespace orrery::calibration
