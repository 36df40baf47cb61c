// `orrery man`: manual pages in roff (man(7)) from the table of commands, so that they say what --help says. One page
// for the program, one for every command, and one of the scenario language.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "scenarios/schema.h"
#include "sim/settings.h"
#include "tools/columns.h"
#include "tools/command_options.h"
#include "tools/command_tree.h"
#include "tools/commands/commands.h"
#include "tools/report/output.h"

namespace orrery::tools {

namespace {

/// Text that roff prints as it is: backslashes and dashes escaped, no line that begins as a request.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

std::string header(const std::string& title, int section, const std::string& name, const std::string& what) {
  return fmt::format(".TH \"{}\" {} \"\" \"orrery {}\" \"orrery\"\n.SH NAME\n{} \\- {}\n", title, section,
                     ORRERY_VERSION, roff(name), roff(what));
}

std::string item(const std::string& head, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", head, roff(text));
}

std::string head_of(const OptionDoc& option) {
  std::string head;
  for (const std::string& name : option.names)
    head += fmt::format("{}\\fB{}\\fR", head.empty() ? "" : ", ", roff(name));
  if (!option.positional.empty()) head = fmt::format("\\fI{}\\fR", roff(option.positional));
  if (!option.names.empty() && !option.value.empty()) head += fmt::format(" \\fI{}\\fR", roff(option.value));
  return head;
}

std::string synopsis(const CommandDoc& doc) {
  std::string line = fmt::format("\\fB{}\\fR", roff(doc.name()));
  if (!doc.subcommands.empty()) line += " \\fICOMMAND\\fR";
  line += " [\\fIOPTION\\fR]...";
  for (const OptionDoc& option : doc.options) {
    if (option.positional.empty()) {
      if (option.required) line += " " + head_of(option);
      continue;
    }
    const std::string word = head_of(option) + (option.repeats ? "..." : "");
    line += option.required ? " " + word : " [" + word + "]";
  }
  return ".SH SYNOPSIS\n" + line + "\n";
}

std::string options_of(const CommandDoc& doc) {
  std::string out = ".SH OPTIONS\n";
  for (const OptionDoc& option : doc.options) {
    std::string text = option.meaning;
    if (!option.choices.empty()) text += fmt::format(" (one of: {})", fmt::join(option.choices, ", "));
    out += item(head_of(option), text);
  }
  return out;
}

std::string dashed(const CommandDoc& doc) {
  std::string name = "orrery";
  for (const std::string& part : doc.path) name += "-" + part;
  return name;
}

std::string endings() {
  return ".SH EXIT STATUS\n" + item("\\fB0\\fR", "done") +
         item("\\fB2\\fR",
              "the input is wrong; one line on standard error says where, what was got and what was expected") +
         item("\\fB130\\fR", "stopped by Ctrl-C; what was finished is kept") + item("\\fB1\\fR", "a bug of orrery") +
         ".SH ENVIRONMENT\n" +
         item("\\fBORRERY_HOME\\fR",
              "folder that holds calibration/ and scenarios/; without it they are looked for beside and above the "
              "program") +
         item("\\fBORRERY_GPU_LIBRARY_PATH\\fR", "further folders in which calibrate looks for the vendor's libraries");
}

std::string columns_of(const std::string& command) {
  std::string out;
  for (const ColumnDoc& column : columns()) {
    if (std::find(column.commands.begin(), column.commands.end(), command) == column.commands.end()) continue;
    const std::string unit = column.unit.empty() ? "" : fmt::format(" ({})", column.unit);
    out += item(fmt::format("\\fB{}\\fR", roff(std::string(column.name))), fmt::format("{}{}", column.meaning, unit));
  }
  return out.empty() ? "" : ".SH COLUMNS\n" + out;
}

std::string page_of(const CommandDoc& doc, const std::vector<CommandDoc>& all) {
  std::string out = header(dashed(doc), 1, dashed(doc), doc.summary) + synopsis(doc);
  if (!doc.subcommands.empty()) {
    out += ".SH COMMANDS\n";
    for (const CommandDoc& below : all) {
      const bool direct =
          below.path.size() == doc.path.size() + 1 && std::equal(doc.path.begin(), doc.path.end(), below.path.begin());
      if (direct) out += item(fmt::format("\\fB{}\\fR(1)", roff(dashed(below))), below.summary);
    }
  }
  out += options_of(doc);
  if (!doc.path.empty()) out += columns_of(doc.path.front());
  out += endings();
  out += doc.path.empty() ? ".SH SEE ALSO\n\\fBorrery\\-scenario\\fR(5)\n"
                          : ".SH SEE ALSO\n\\fBorrery\\fR(1), \\fBorrery\\-scenario\\fR(5)\n";
  return out;
}

std::string language_page() {
  std::string out = header("orrery-scenario", 5, "orrery-scenario", "the scenario language of orrery");
  out +=
      ".SH DESCRIPTION\nA scenario is a YAML document. Every key, with its unit, its bounds and its default:\n.SH "
      "KEYS\n.na\n";
  for (const scenarios::Key& key : scenarios::schema()) {
    std::string text = key.meaning;
    if (!key.unit.empty()) text += fmt::format(" Unit: {}.", key.unit);
    if (key.bounds.given()) text += fmt::format(" Bounds: {}.", sim::text(key.bounds));
    if (!key.choices.empty()) text += fmt::format(" One of: {}.", fmt::join(key.choices, ", "));
    if (key.fallback.empty()) text += " Required.";
    if (!key.fallback.empty() && key.fallback != "-") text += fmt::format(" Default: {}.", key.fallback);
    out += item(fmt::format("\\fB{}\\fR (\\fI{}\\fR)", roff(key.path), roff(key.type)), text);
  }
  return out + ".SH SEE ALSO\n\\fBorrery\\fR(1)\n";
}

struct Page {
  std::string file, text;
};
std::vector<Page> pages() {
  const std::vector<CommandDoc> docs = command_docs();
  std::vector<Page> all;
  for (const CommandDoc& doc : docs) all.push_back({"man1/" + dashed(doc) + ".1", page_of(doc, docs)});
  all.push_back({"man5/orrery-scenario.5", language_page()});
  return all;
}

int man(const std::string& page, const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  for (const Page& known : pages()) {
    names.push_back(fs::path(known.file).stem().string());
    if (!folder.empty()) {
      const fs::path path = fs::path(folder) / known.file;
      std::error_code error;
      fs::create_directories(path.parent_path(), error);
      write_output(path.string(), [&](std::ostream& out) { out << known.text; });
    } else if (names.back() == page || names.back() == "orrery-" + page) {  // run is orrery-run
      std::cout << known.text;
      return kDone;
    }
  }
  if (!folder.empty()) return kDone;
  const std::string near = sim::nearest_word(page, names);
  throw sim::UserError(fmt::format("orrery: man: got \"{}\"{}, expected one of {}", page,
                                   near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near),
                                   fmt::join(names, ", ")));
}

}  // namespace

Action declare_man(CommandOptions app) {
  const auto page = std::make_shared<std::string>("orrery"), folder = std::make_shared<std::string>();
  app.add_option("page", *page, "orrery (default), orrery-COMMAND or orrery-scenario").type_name("PAGE");
  app.add_option("--out", *folder, "write every page into man1/ and man5/ of FOLDER").type_name("FOLDER");
  return [page, folder] { return man(*page, *folder); };
}

}  // namespace orrery::tools
