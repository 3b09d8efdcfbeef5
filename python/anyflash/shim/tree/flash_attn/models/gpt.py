"""GPT and those like it: one model for the options that a GPT2Config and its additions give."""

import logging
import math
from collections import namedtuple
from collections.abc import Sequence
from functools import partial

import torch.nn as nn
import torch.nn.functional as F
from transformers import GPT2Config

from flash_attn.models import _states
from flash_attn.models._gpt_states import (
    combine_state_dicts_tp,
    remap_state_dict_hf_gpt2,
    remap_state_dict_megatron,
    shard_state_dict_tp,
)
from flash_attn.models.bigcode import remap_state_dict_hf_bigcode
from flash_attn.models.falcon import remap_state_dict_hf_falcon
from flash_attn.models.gpt_neox import remap_state_dict_hf_gpt_neox
from flash_attn.models.gptj import remap_state_dict_hf_gptj
from flash_attn.models.llama import remap_state_dict_hf_llama
from flash_attn.models.opt import remap_state_dict_hf_opt
from flash_attn.modules.block import Block, ParallelBlock
from flash_attn.modules.embedding import GPT2Embeddings, ParallelGPT2Embeddings
from flash_attn.modules.mha import MHA, ParallelMHA
from flash_attn.modules.mlp import (
    FusedMLP,
    GatedMlp,
    Mlp,
    ParallelFusedMLP,
    ParallelGatedMlp,
    ParallelMLP,
)
from flash_attn.ops.activations import sqrelu_fwd
from flash_attn.ops.fused_dense import ColumnParallelLinear
from flash_attn.ops.triton.layer_norm import RMSNorm
from flash_attn.ops.triton.mlp import FusedDenseSqreluDense
from flash_attn.utils.distributed import all_gather, all_gather_raw, sync_shared_params
from flash_attn.utils.generation import GenerationMixin
from flash_attn.utils.pretrained import state_dict_from_pretrained

__all__ = [
    "GPTLMHeadModel",
    "GPTModel",
    "GPTPreTrainedModel",
    "combine_state_dicts_tp",
    "create_block",
    "create_mixer_cls",
    "create_mlp_cls",
    "remap_state_dict_hf_gpt2",
    "remap_state_dict_megatron",
    "shard_state_dict_tp",
]
logger = logging.getLogger(__name__)
_TANH = ("gelu_new", "gelu_fast", "gelu_approx", "gelu_pytorch_tanh")
_GATES = {"glu": F.sigmoid, "swiglu": F.silu, "geglu": F.gelu}
_PLAIN = {
    "gelu": F.gelu,
    "relu": F.relu,
    "sqrelu": sqrelu_fwd,
    **{name: partial(F.gelu, approximate="tanh") for name in _TANH},
}
#: from_pretrained(): whose weights they are, by the beginning of the name.
_FAMILIES = (
    (("gpt2",), remap_state_dict_hf_gpt2),
    (("facebook/opt",), remap_state_dict_hf_opt),
    (("EleutherAI/gpt-j-", "togethercomputer/GPT-JT-"), remap_state_dict_hf_gptj),
    (
        ("EleutherAI/gpt-neox-", "EleutherAI/pythia-", "togethercomputer/RedPajama-INCITE-"),
        remap_state_dict_hf_gpt_neox,
    ),
    (("tiiuae/falcon-",), remap_state_dict_hf_falcon),
    (("meta-llama/Llama-",), remap_state_dict_hf_llama),
    (("bigcode/", "WizardLM/"), remap_state_dict_hf_bigcode),
)


def _parallel(config, process_group):
    if process_group is None:
        return {}
    sequence_parallel = getattr(config, "sequence_parallel", True)
    return {"process_group": process_group, "sequence_parallel": sequence_parallel}


def _scale(config, head_dim, layer_idx):
    scale = getattr(config, "mup_attn_multiplier", 1.0)
    if config.scale_attn_weights:
        by_dim = getattr(config, "mup_scale_qk_dot_by_d", False)
        scale *= head_dim ** (-1.0 if by_dim else -0.5)
    return scale / (layer_idx + 1) if config.scale_attn_by_inverse_layer_idx else scale


def create_mixer_cls(config, layer_idx=None, process_group=None, device=None, dtype=None):
    """MHA (ParallelMHA with a process group) of the configuration, called with the size."""
    head_dim = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    rotary = getattr(config, "rotary_emb_fraction", 0.0)
    options = {"fused_bias_fc": getattr(config, "fused_bias_fc", False)}
    if process_group is not None:
        options = _parallel(config, process_group)
    elif getattr(config, "attn_dwconv", False):
        options["dwconv"] = True
    return partial(
        MHA if process_group is None else ParallelMHA,
        num_heads=config.num_attention_heads,
        num_heads_kv=getattr(config, "n_head_kv", None),
        qkv_proj_bias=getattr(config, "qkv_proj_bias", True),
        out_proj_bias=getattr(config, "out_proj_bias", True),
        dropout=config.attn_pdrop,
        softmax_scale=_scale(config, head_dim, layer_idx),
        causal=True,
        layer_idx=layer_idx,
        rotary_emb_dim=int(rotary * head_dim),
        rotary_emb_base=getattr(config, "rotary_emb_base", 10000.0),
        rotary_emb_scale_base=getattr(config, "rotary_emb_scale_base", None),
        rotary_emb_interleaved=getattr(config, "rotary_emb_interleaved", False),
        use_alibi=getattr(config, "use_alibi", False),
        window_size=getattr(config, "window_size", (-1, -1)),
        use_flash_attn=getattr(config, "use_flash_attn", False),
        device=device,
        dtype=dtype,
        **options,
    )


def _checkpoint_level(config, layer_idx):
    """One for all layers, or one of each."""
    level = getattr(config, "mlp_checkpoint_lvl", 0)
    return level[layer_idx] if isinstance(level, Sequence) else level


def create_mlp_cls(config, layer_idx=None, process_group=None, device=None, dtype=None):
    """The MLP of the configuration, called with the size."""
    name, alone = config.activation_function, process_group is None
    common = {
        "hidden_features": config.n_inner,
        "device": device,
        "dtype": dtype,
        **_parallel(config, process_group),
    }
    if getattr(config, "fused_dense_sqrelu_dense", False):
        level = _checkpoint_level(config, layer_idx)
        return partial(FusedDenseSqreluDense, checkpoint_lvl=level, **common)
    common["bias1"] = getattr(config, "mlp_fc1_bias", True)
    common["bias2"] = getattr(config, "mlp_fc2_bias", True)
    if getattr(config, "fused_mlp", False):
        return partial(
            FusedMLP if alone else ParallelFusedMLP,
            activation="gelu_approx" if name in _TANH else name,
            checkpoint_lvl=_checkpoint_level(config, layer_idx),
            **common,
        )
    if name in _GATES:
        return partial(
            GatedMlp if alone else ParallelGatedMlp,
            activation=_GATES[name],
            multiple_of=getattr(config, "mlp_multiple_of", 128),
            **common,
        )
    if name not in _PLAIN:
        raise ValueError(f"activation_function: {name!r} is not known")
    return partial(Mlp if alone else ParallelMLP, activation=_PLAIN[name], **common)


def _norm(config, **options):
    kind = RMSNorm if getattr(config, "rms_norm", False) else nn.LayerNorm
    return partial(kind, eps=config.layer_norm_epsilon, **options)


def create_block(config, layer_idx=None, process_group=None, device=None, dtype=None):
    """A layer: mixer and MLP one after the other, or beside each other."""
    options = {"device": device, "dtype": dtype}
    is_first = layer_idx == 0
    sequence_parallel = getattr(config, "sequence_parallel", True)
    common = {
        "norm_cls": _norm(config, **options),
        "resid_dropout1": config.embd_pdrop if is_first else config.resid_pdrop,
        "resid_dropout2": config.resid_pdrop,
        "fused_dropout_add_ln": getattr(config, "fused_dropout_add_ln", False),
        "residual_in_fp32": getattr(config, "residual_in_fp32", False),
        "sequence_parallel": sequence_parallel and process_group is not None,
        "mark_shared_params": process_group is not None,
    }
    if getattr(config, "parallel_block", False):
        kind = ParallelBlock
        common["tied_norm"] = getattr(config, "parallel_block_tied_norm", False)
    else:
        kind = Block
        common["prenorm"] = getattr(config, "prenorm", True)
    made = [make(config, layer_idx, process_group, **options) for make in
            (create_mixer_cls, create_mlp_cls)]
    block = kind(config.hidden_size, *made, **common)
    block.layer_idx = layer_idx
    return block


def _init_weights(
    module,
    n_layer,
    initializer_range=0.02,
    mup_width_scale=1.0,
    rescale_prenorm_residual=True,
):
    """As GPT-2: normal, and smaller where a layer adds to the residual."""
    std = initializer_range * math.sqrt(mup_width_scale)
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=std)
        module.weight._optim = {
            **getattr(module.weight, "_optim", {}),
            "lr_multiplier": mup_width_scale,
        }
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=initializer_range)
    if rescale_prenorm_residual:
        for name, parameter in module.named_parameters():
            if name in ("out_proj.weight", "fc2.weight"):
                nn.init.normal_(parameter, std=std / math.sqrt(2 * n_layer))


class GPTPreTrainedModel(nn.Module):
    """What the models share: the configuration, and loading weights of others."""

    def __init__(self, config, *inputs, **kwargs):
        super().__init__()
        if not isinstance(config, GPT2Config):
            raise ValueError(f"config: is a {type(config).__name__}, expected a GPT2Config")
        self.config = config

    @classmethod
    def from_pretrained(
        cls,
        model_name,
        config,
        *args,
        strict=True,
        device=None,
        dtype=None,
        world_size=1,
        rank=0,
        **kwargs,
    ):
        """A model with the weights of model_name, a folder or a name of the hub that says
        which family it is; NotImplementedError where it does not."""
        remap = next((f for names, f in _FAMILIES if model_name.startswith(names)), None)
        if remap is None:
            raise NotImplementedError(f"model_name: {model_name!r} is of no known family")
        model = cls(config, *args, device=device, dtype=dtype, **kwargs)
        state = remap(state_dict_from_pretrained(model_name, device="cpu", dtype=dtype), config)
        if world_size > 1:
            state = shard_state_dict_tp(state, config, world_size, rank)
        logger.info(model.load_state_dict(state, strict=strict))
        return model

    def _initialize(self, config):
        self.apply(
            partial(
                _init_weights,
                n_layer=config.num_hidden_layers,
                initializer_range=config.initializer_range,
                mup_width_scale=getattr(config, "mup_width_scale", 1.0),
            )
        )
        self.tie_weights()


class GPTModel(GPTPreTrainedModel):
    """Embeddings, layers and the last norm: tokens [B, S] to states [B, S, E]."""

    def __init__(self, config: GPT2Config, process_group=None, device=None, dtype=None):
        super().__init__(config)
        options = {"device": device, "dtype": dtype}
        self.process_group = process_group
        self.sequence_parallel = getattr(config, "sequence_parallel", True)
        self.embeddings_multiplier = getattr(config, "mup_embeddings_multiplier", 1.0)
        self.residual_in_fp32 = getattr(config, "residual_in_fp32", False)
        self.prenorm = getattr(config, "prenorm", True)
        self.parallel_block = getattr(config, "parallel_block", False)
        self.fused_dropout_add_ln = getattr(config, "fused_dropout_add_ln", False)
        sizes = (
            config.hidden_size,
            _states.padded_size(config, config.vocab_size),
            config.max_position_embeddings,
        )
        if process_group is None:
            projected = getattr(config, "word_embed_proj_dim", None)
            self.embeddings = GPT2Embeddings(*sizes, word_embed_proj_dim=projected, **options)
        else:
            self.embeddings = ParallelGPT2Embeddings(
                *sizes, **_parallel(config, process_group), **options
            )
        self.layers = nn.ModuleList(
            [
                create_block(config, i, process_group, **options)
                for i in range(config.num_hidden_layers)
            ]
        )
        if getattr(config, "rotary_emb_fraction", 0.0) > 0.0:  # one table for all
            for layer in self.layers[1:]:
                layer.mixer.rotary_emb = self.layers[0].mixer.rotary_emb
        if self.prenorm:
            self.drop_f = nn.Dropout(config.resid_pdrop)
            self.ln_f = _norm(config, **options)(config.hidden_size)
            self._mark()
        self._initialize(config)

    def _mark(self):
        for parameter in self.ln_f.parameters() if self.process_group is not None else ():
            parameter._shared_params = True
            if self.sequence_parallel:
                parameter._sequence_parallel = True

    def tie_weights(self):
        if self.process_group is not None:
            sync_shared_params(self, self.process_group)

    def allocate_inference_cache(self, batch_size, max_seqlen, dtype=None, **kwargs):
        return {
            i: layer.allocate_inference_cache(batch_size, max_seqlen, dtype=dtype, **kwargs)
            for i, layer in enumerate(self.layers)
        }

    def forward(self, input_ids, position_ids=None, inference_params=None):
        mixer_kwargs, embedding_kwargs = {}, {}
        if self.process_group is not None and self.sequence_parallel:
            mixer_kwargs["seqlen"] = input_ids.shape[1]
            embedding_kwargs["combine_batch_seqlen_dim"] = True
        if inference_params is not None:
            mixer_kwargs["inference_params"] = inference_params
        x = self.embeddings(input_ids, position_ids=position_ids, **embedding_kwargs)
        if self.embeddings_multiplier != 1.0:
            x = x * self.embeddings_multiplier
        if not self.prenorm:
            for layer in self.layers:
                x = layer(x, mixer_kwargs=mixer_kwargs)
            return x
        parts, residual = [x], None
        if self.parallel_block:
            parts.append(None)
        for layer in self.layers:
            *parts, residual = layer(*parts, residual, mixer_kwargs=mixer_kwargs)
        for part in parts:
            if part is not None:
                dropped = self.drop_f(part)
                residual = dropped if residual is None else residual + dropped
        return self.ln_f(residual.to(self.ln_f.weight.dtype))


_Output = namedtuple("CausalLMOutput", ["logits"])


class GPTLMHeadModel(GPTPreTrainedModel, GenerationMixin):
    """GPTModel with the head that gives logits; generate() of utils.generation."""

    def __init__(self, config: GPT2Config, process_group=None, device=None, dtype=None):
        super().__init__(config)
        options = {"device": device, "dtype": dtype}
        self.process_group = process_group
        self.transformer = GPTModel(config, process_group=process_group, **options)
        self.tie_word_embeddings = getattr(config, "tie_word_embeddings", True)
        self.norm_head = getattr(config, "norm_head", False)
        self.output_scale = getattr(config, "mup_output_multiplier", 1.0) * getattr(
            config, "mup_width_scale", 1.0
        )
        dim, self.project_out = config.n_embd, None
        if getattr(config, "word_embed_proj_dim", None) is not None:
            dim = config.word_embed_proj_dim
            self.project_out = nn.Linear(config.n_embd, dim, bias=False, **options)
        layer = nn.Linear if process_group is None else ColumnParallelLinear
        self.lm_head = layer(
            dim,
            _states.padded_size(config, config.vocab_size),
            bias=getattr(config, "lm_head_bias", False),
            **_parallel(config, process_group),
            **options,
        )
        self._initialize(config)

    def tie_weights(self):
        if self.tie_word_embeddings:
            self.lm_head.weight = self.transformer.embeddings.word_embeddings.weight
        if self.process_group is not None:
            sync_shared_params(self, self.process_group)

    def allocate_inference_cache(self, batch_size, max_seqlen, dtype=None, **kwargs):
        return self.transformer.allocate_inference_cache(
            batch_size, max_seqlen, dtype=dtype, **kwargs
        )

    def _logits(self, x):
        if not self.norm_head:
            return self.lm_head(x)
        if getattr(self.lm_head, "sequence_parallel", False):
            x = all_gather(x, self.process_group)
        return F.linear(x, F.normalize(self.lm_head.weight), self.lm_head.bias)

    def forward(
        self, input_ids, position_ids=None, inference_params=None, num_last_tokens=0
    ):
        """An object with logits [B, S, V], of the last tokens where num_last_tokens > 0."""
        if input_ids.dim() != 2:
            raise ValueError(f"input_ids: has shape {tuple(input_ids.shape)}, expected [B, S]")
        x = self.transformer(
            input_ids, position_ids=position_ids, inference_params=inference_params
        )
        if num_last_tokens > 0:
            x = x[:, -num_last_tokens:]
        if self.project_out is not None:
            x = self.project_out(x)
        if self.output_scale != 1.0:
            x = x * self.output_scale
        logits = self._logits(x)
        if self.process_group is not None and inference_params is not None:
            logits, _ = all_gather_raw(logits, self.process_group)
            logits = logits.unflatten(0, (-1, input_ids.shape[0])).movedim(0, -2).flatten(-2)
        return _Output(logits)

    def load_state_dict(self, state_dict, strict=True):
        """Also of the former order of norms, whose first is called ln_0."""
        if "transformer.ln_0.weight" in state_dict:
            state_dict = _norms_moved(state_dict, len(self.transformer.layers))
        return super().load_state_dict(state_dict, strict=strict)


def _norms_moved(state, layers):
    """Each norm stood after what it now stands before."""
    order = ["transformer.ln_0."]
    for i in range(layers):
        order += [f"transformer.layers.{i}.norm1.", f"transformer.layers.{i}.norm2."]
    after = [*order[1:], "transformer.ln_f."]
    state = dict(state)
    moved = {
        new + kind: state.pop(old + kind)
        for old, new in zip(order, after)
        for kind in ("weight", "bias")
        if old + kind in state
    }
    return {**state, **moved}
