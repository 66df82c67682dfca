"""What the planner finds: a model that does not fit, or that it cannot plan for."""

from poolhouse_common.failure import OPERATOR, PROVIDER, Failure

ENTRIES = (
    Failure(
        "concurrency_does_not_fit",
        PROVIDER,
        "Not so many requests fit at once",
        "The cache for tokens is too small for all wanted requests at their full length.",
        "Serve fewer at once, a shorter context, or use more GPUs.",
    ),
    Failure(
        "context_beyond_model",
        OPERATOR,
        "The context is longer than the model's own",
        "The model was not made for so many tokens, and the engine refuses to start with them.",
        "Choose a context up to the model's own.",
    ),
    Failure(
        "quantization_unsupported",
        OPERATOR,
        "This format of weights is not served",
        "The engine does not serve the format, or not well enough to sell its answers.",
        "Choose another release of the model: 16 bit, FP8, AWQ, GPTQ or compressed-tensors.",
    ),
    Failure(
        "architecture_unknown",
        OPERATOR,
        "No plan can be made for this kind of model",
        "The planner does not know how this family of models uses memory.",
        "Choose another model, or deploy it by hand and read what the engine reports.",
    ),
    Failure(
        "model_config_invalid",
        OPERATOR,
        "The model's config.json cannot be used",
        "The file is not the config.json of a model, or lacks a number that memory depends on.",
        "Take the file from the model's own release, unchanged.",
    ),
    Failure(
        "gpu_unknown",
        PROVIDER,
        "This kind of GPU is not known",
        "The table of GPUs has no entry that is spelled like it.",
        "Write the name as the maker does, such as RTX 4090 or A100 80GB; the operator can add kinds to the table.",
    ),
    Failure(
        "gpus_missing",
        PROVIDER,
        "There are not enough GPUs",
        "The plan names no GPU, or more than there are.",
        "Name the GPUs, such as 2 x RTX 3090, or spread the model over fewer.",
    ),
    Failure(
        "gpus_too_many",
        PROVIDER,
        "Too many GPUs for one plan",
        "A plan is for one machine.",
        "Name the GPUs of one machine.",
    ),
    Failure(
        "model_config_missing",
        PROVIDER,
        "The model's config.json cannot be read",
        "There is no such folder or file, or it may not be read.",
        "Give the folder that holds the model's config.json, or that file.",
    ),
)
