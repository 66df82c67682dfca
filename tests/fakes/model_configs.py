"""The config.json of published models, cut down to the fields that memory and speed depend on."""

from typing import Any

_BF16 = {"torch_dtype": "bfloat16"}

LLAMA_3_1_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": False,
    "rope_scaling": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    **_BF16,
}  # fmt: skip

LLAMA_3_1_70B: dict[str, Any] = {
    **LLAMA_3_1_8B, "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
    "intermediate_size": 28672,
}  # fmt: skip

LLAMA_3_1_70B_W8A8: dict[str, Any] = {
    **LLAMA_3_1_70B,
    "quantization_config": {
        "quant_method": "compressed-tensors", "format": "int-quantized", "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True},
                "input_activations": {"num_bits": 8, "type": "int", "dynamic": True},
            }
        },
    },
}  # fmt: skip

QWEN_2_5_14B: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 5120, "num_hidden_layers": 48,
    "num_attention_heads": 40, "num_key_value_heads": 8, "intermediate_size": 13824, "vocab_size": 152064,
    "max_position_embeddings": 131072, "sliding_window": 131072, "use_sliding_window": False,
    "tie_word_embeddings": False, **_BF16,
}  # fmt: skip

QWEN_2_5_1_5B: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 1536, "num_hidden_layers": 28,
    "num_attention_heads": 12, "num_key_value_heads": 2, "intermediate_size": 8960, "vocab_size": 151936,
    "max_position_embeddings": 32768, "sliding_window": 32768, "use_sliding_window": False,
    "tie_word_embeddings": True, **_BF16,
}  # fmt: skip

QWEN_2_5_0_5B: dict[str, Any] = {
    **QWEN_2_5_1_5B, "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
    "intermediate_size": 4864,
}  # fmt: skip

QWEN_2_5_72B_GPTQ: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 8192, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 29696, "vocab_size": 152064,
    "max_position_embeddings": 32768, "use_sliding_window": False, "torch_dtype": "float16",
    "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
}  # fmt: skip

QWEN3_8B: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
    "vocab_size": 151936, "max_position_embeddings": 40960, "sliding_window": None, "use_sliding_window": False,
    "tie_word_embeddings": False, **_BF16,
}  # fmt: skip

QWEN3_0_6B: dict[str, Any] = {
    **QWEN3_8B, "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "intermediate_size": 3072,
    "tie_word_embeddings": True,
}  # fmt: skip

QWEN3_235B_FP8: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 4096,
    "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936, "max_position_embeddings": 40960,
    "tie_word_embeddings": False, **_BF16,
    "quantization_config": {
        "quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128],
    },
}  # fmt: skip

GPT_OSS_120B: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
    "num_local_experts": 128, "num_experts_per_tok": 4, "vocab_size": 201088, "max_position_embeddings": 131072,
    "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 18,
    "tie_word_embeddings": False, "attention_bias": True,
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"],
    },
    "rope_scaling": {"factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn"},
}  # fmt: skip

DEEPSEEK_R1: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "first_k_dense_replace": 3, "moe_layer_freq": 1, "kv_lora_rank": 512, "q_lora_rank": 1536,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 129280,
    "max_position_embeddings": 163840, "tie_word_embeddings": False, **_BF16,
    "rope_scaling": {"factor": 40, "original_max_position_embeddings": 4096, "type": "yarn"},
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}  # fmt: skip

DEEPSEEK_R1_AWQ: dict[str, Any] = {
    **DEEPSEEK_R1, "torch_dtype": "float16",
    "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm", "zero_point": True},
}  # fmt: skip

GEMMA_3_27B: dict[str, Any] = {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62, "num_attention_heads": 32,
        "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21504, "vocab_size": 262208,
        "max_position_embeddings": 131072, "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304,
        "num_attention_heads": 16,
    },
}  # fmt: skip

MISTRAL_7B_V01: dict[str, Any] = {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
    "max_position_embeddings": 32768, "sliding_window": 4096, **_BF16,
}  # fmt: skip

MIXTRAL_8X7B: dict[str, Any] = {
    **MISTRAL_7B_V01, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "sliding_window": None,
    "num_local_experts": 8, "num_experts_per_tok": 2,
}  # fmt: skip

QWEN3_5_27B_FP8_CACHE: dict[str, Any] = {
    "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24,
        "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 17408, "vocab_size": 248320,
        "max_position_embeddings": 262144, "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
        "linear_num_value_heads": 48, "attn_output_gate": True, "tie_word_embeddings": False,
    },
}  # fmt: skip

BGE_BASE: dict[str, Any] = {
    "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12,
    "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512,
    "torch_dtype": "float32",
}  # fmt: skip

GPT_OSS_20B: dict[str, Any] = {
    **GPT_OSS_120B, "num_hidden_layers": 24, "num_local_experts": 32,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
}  # fmt: skip

STARCODER2_3B: dict[str, Any] = {
    "architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "hidden_size": 3072,
    "num_hidden_layers": 30, "num_attention_heads": 24, "num_key_value_heads": 2, "intermediate_size": 12288,
    "vocab_size": 49152, "max_position_embeddings": 16384, "sliding_window": 4096, "use_bias": True,
    "tie_word_embeddings": True, **_BF16,
}  # fmt: skip

# What tests/vllm/make_tiny_model.py makes, and the transcripts were recorded with.
TINY_CHAT: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 512,
    "max_position_embeddings": 1024, "sliding_window": None, "use_sliding_window": False,
    "tie_word_embeddings": True, **_BF16,
}  # fmt: skip
