// The keys of transformers' configurations that change no work of a training step, by what they change instead.
#include "tools/import/hf_reasons.h"

namespace orrery::tools {

const std::vector<std::pair<const char*, std::vector<std::string>>>& hf_reasons() {
  static const std::vector<std::pair<const char*, std::vector<std::string>>> kReasons = {
      {"every activation function costs the same here",
       {"hidden_act", "activation_function", "activation", "hidden_activation"}},
      {"dropout's kernels count whatever its probability",
       {"attention_dropout", "hidden_dropout", "activation_dropout", "dropout", "layerdrop", "resid_pdrop",
        "embd_pdrop", "attn_pdrop", "classifier_dropout"}},
      {"of routing, which is taken as balanced",
       {"norm_topk_prob", "n_group", "topk_group", "topk_method", "scoring_func", "routed_scaling_factor",
        "router_aux_loss_coef", "router_jitter_noise", "input_jitter_noise", "output_router_logits", "aux_loss_alpha",
        "seq_aux", "ep_size", "router_z_loss_coef"}},
      {"changes values, not work",
       {"initializer_range",
        "rms_norm_eps",
        "layer_norm_eps",
        "layer_norm_epsilon",
        "rope_theta",
        "rope_scaling",
        "rope_parameters",
        "rotary_emb_base",
        "rotary_pct",
        "partial_rotary_factor",
        "scale_attn_weights",
        "scale_attn_by_inverse_layer_idx",
        "reorder_and_upcast_attn",
        "apply_residual_connection_post_layernorm",
        "max_window_layers",
        "init_std",
        "layer_norm_elementwise_affine",
        "query_pre_attn_scalar",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "rope_local_base_freq",
        "original_max_position_embeddings",
        "norm_eps",
        "prefix",
        "use_mrope",
        "mrope_section",
        "embedding_multiplier",
        "residual_multiplier",
        "attention_multiplier",
        "logits_scaling",
        "logit_scale",
        "qk_norm_type",
        "rotary_dim",
        "mup_enabled",
        "no_rope_layers",
        "use_rope"}},
      {"of generation, checkpoints and files, not of a training step",
       {"_name_or_path", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id", "transformers_version",
        "use_cache", "task_specific_params", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
        "summary_type", "summary_use_proj", "pretraining_tp", "tokenizer_class", "_from_model_config", "layer_types"}},
  };
  return kReasons;
}

}  // namespace orrery::tools
