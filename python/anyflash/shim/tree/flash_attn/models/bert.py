"""BERT: encoder, heads for pretraining, and transformers' weights."""

import logging
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import BertConfig
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions
from transformers.models.bert.modeling_bert import BertForPreTrainingOutput

from flash_attn.bert_padding import index_first_axis_residual, pad_input, unpad_input
from flash_attn.losses.cross_entropy import CrossEntropyLoss
from flash_attn.models._states import joined, renamed
from flash_attn.modules.block import Block
from flash_attn.modules.embedding import BertEmbeddings
from flash_attn.modules.mha import MHA
from flash_attn.modules.mlp import FusedMLP, Mlp
from flash_attn.ops.fused_dense import FusedDense
from flash_attn.utils.pretrained import state_dict_from_pretrained

logger = logging.getLogger(__name__)
_TANH = ("gelu_new", "gelu_fast", "gelu_pytorch_tanh")


def _approximate(config):
    if config.hidden_act not in ("gelu", *_TANH):
        raise ValueError(f"hidden_act: {config.hidden_act!r} is not known here")
    return "tanh" if config.hidden_act in _TANH else "none"


def _linear(config):
    return FusedDense if getattr(config, "fused_bias_fc", False) else nn.Linear


def create_mixer_cls(config, cross_attn=False, return_residual=False):
    rotary = {}
    if getattr(config, "position_embedding_type", "absolute") == "rotary":
        rotary = {
            "rotary_emb_dim": getattr(config, "rotary_emb_dim", config.hidden_size),
            "rotary_emb_base": getattr(config, "rotary_emb_base", 10000.0),
            "rotary_emb_scale_base": getattr(config, "rotary_emb_scale_base", None),
            "rotary_emb_interleaved": getattr(config, "rotary_emb_interleaved", False),
        }
    return partial(
        MHA,
        num_heads=config.num_attention_heads,
        cross_attn=cross_attn,
        dropout=config.attention_probs_dropout_prob,
        causal=False,
        fused_bias_fc=getattr(config, "fused_bias_fc", False),
        use_flash_attn=getattr(config, "use_flash_attn", False),
        return_residual=return_residual,
        **rotary,
    )


def create_mlp_cls(config, layer_idx=None, return_residual=False):
    common = {
        "hidden_features": config.intermediate_size,
        "return_residual": return_residual,
    }
    if getattr(config, "fused_mlp", False):
        level = getattr(config, "mlp_checkpoint_lvl", 0)
        level = level[layer_idx] if isinstance(level, Sequence) else level
        return partial(FusedMLP, checkpoint_lvl=level, **common)
    return partial(
        Mlp, activation=partial(F.gelu, approximate=_approximate(config)), **common
    )


def create_block(config, layer_idx=None):
    """A layer; with last_layer_subset the last asks for some rows only, by cross attention."""
    is_subset = getattr(config, "last_layer_subset", False)
    is_cross = is_subset and layer_idx == config.num_hidden_layers - 1
    return Block(
        config.hidden_size,
        create_mixer_cls(config, is_cross, return_residual=not is_cross),
        create_mlp_cls(config, layer_idx, return_residual=not is_cross),
        norm_cls=partial(nn.LayerNorm, eps=config.layer_norm_eps),
        prenorm=False,
        resid_dropout1=config.hidden_dropout_prob,
        resid_dropout2=config.hidden_dropout_prob,
        fused_dropout_add_ln=getattr(config, "fused_dropout_add_ln", False),
        return_residual=not is_cross,
    )


def _init_weights(module, initializer_range=0.02):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=initializer_range)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        with torch.no_grad():
            module.weight[module.padding_idx].zero_()


class BertEncoder(nn.Module):
    def __init__(self, config: BertConfig):
        super().__init__()
        self.use_flash_attn = getattr(config, "use_flash_attn", False)
        self.layers = nn.ModuleList(
            [create_block(config, i) for i in range(config.num_hidden_layers)]
        )

    def _padded(self, x, key_padding_mask, subset_mask):
        options = None
        if key_padding_mask is not None:
            options = {"key_padding_mask": key_padding_mask}
        for layer in self.layers:
            x = layer(x, mixer_kwargs=options)
        return x if subset_mask is None else x[subset_mask]

    def forward(self, hidden_states, key_padding_mask=None, subset_mask=None):
        """[B, S, E]; key_padding_mask bool [B, S], True is kept; of subset_mask bool [B, S]
        the rows [n, E]. With use_flash_attn nothing is computed for padding."""
        if key_padding_mask is None or not self.use_flash_attn:
            return self._padded(hidden_states, key_padding_mask, subset_mask)
        batch, rows = hidden_states.shape[:2]
        x, indices, cu_seqlens, longest, _ = unpad_input(hidden_states, key_padding_mask)
        options = {"cu_seqlens": cu_seqlens, "max_seqlen": longest}
        for layer in self.layers[:-1]:
            x = layer(x, mixer_kwargs=options)
        if subset_mask is None:
            x = self.layers[-1](x, mixer_kwargs=options)
            return pad_input(x, indices, batch, rows)
        asked = subset_mask[key_padding_mask].nonzero().flatten()
        lengths = (subset_mask & key_padding_mask).sum(-1)
        asking, x = index_first_axis_residual(x, asked)
        options = {
            "x_kv": x,
            "cu_seqlens": F.pad(lengths.cumsum(0), (1, 0)).to(torch.int32),
            "max_seqlen": longest,
            "cu_seqlens_k": cu_seqlens,
            "max_seqlen_k": longest,
        }
        return self.layers[-1](asking, mixer_kwargs=options)


class BertPooler(nn.Module):
    """tanh(linear()) of the first token, or of what is given (pool=False)."""

    def __init__(self, config):
        super().__init__()
        self.dense = _linear(config)(config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()

    def forward(self, hidden_states, pool=True):
        return self.activation(self.dense(hidden_states[:, 0] if pool else hidden_states))


class BertPredictionHeadTransform(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = _linear(config)(config.hidden_size, config.hidden_size)
        self.transform_act_fn = nn.GELU(approximate=_approximate(config))
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states):
        return self.layer_norm(self.transform_act_fn(self.dense(hidden_states)))


class BertLMPredictionHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = _linear(config)(config.hidden_size, config.vocab_size, bias=True)

    def forward(self, hidden_states):
        return self.decoder(self.transform(hidden_states))


class BertPreTrainingHeads(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.predictions = BertLMPredictionHead(config)
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, sequence_output, pooled_output):
        return self.predictions(sequence_output), self.seq_relationship(pooled_output)


class BertPreTrainedModel(nn.Module):
    def __init__(self, config, *inputs, **kwargs):
        super().__init__()
        if not isinstance(config, BertConfig):
            raise ValueError(f"config: is a {type(config).__name__}, expected a BertConfig")
        self.config = config

    @classmethod
    def from_pretrained(cls, model_name, config, *inputs, **kwargs):
        model = cls(config, *inputs, **kwargs)
        state = remap_state_dict(state_dict_from_pretrained(model_name), config)
        logger.info(model.load_state_dict(state, strict=False))
        return model


class BertModel(BertPreTrainedModel):
    def __init__(self, config: BertConfig, add_pooling_layer=True):
        super().__init__(config)
        multiple = getattr(config, "pad_vocab_size_multiple", 1)
        self.pad_vocab_size_multiple = multiple
        config.vocab_size = -(-config.vocab_size // multiple) * multiple
        self.embeddings = BertEmbeddings(
            config.hidden_size,
            config.vocab_size,
            config.max_position_embeddings,
            config.type_vocab_size,
            padding_idx=config.pad_token_id,
        )
        self.emb_drop = nn.Dropout(config.hidden_dropout_prob)
        self.emb_ln = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.apply(partial(_init_weights, initializer_range=config.initializer_range))

    def forward(
        self,
        input_ids,
        position_ids=None,
        token_type_ids=None,
        attention_mask=None,
        masked_tokens_mask=None,
    ):
        """An object with last_hidden_state [B, S, E] and pooler_output [B, E]. With
        masked_tokens_mask bool [B, S] the last layer is computed for those and the first
        token alone, and last_hidden_state is [n, E]."""
        x = self.embeddings(
            input_ids, position_ids=position_ids, token_type_ids=token_type_ids
        )
        x, subset, first = self.emb_drop(self.emb_ln(x)), None, None
        if masked_tokens_mask is not None:
            first = torch.zeros_like(masked_tokens_mask)
            first[:, 0] = True
            subset = masked_tokens_mask | first
        x = self.encoder(x, key_padding_mask=attention_mask, subset_mask=subset)
        if subset is None:
            pooled = None if self.pooler is None else self.pooler(x)
        else:
            if attention_mask is not None:
                subset = subset & attention_mask
            heads = x[first[subset]]
            x = x[masked_tokens_mask[subset]]
            pooled = None if self.pooler is None else self.pooler(heads, pool=False)
        return BaseModelOutputWithPoolingAndCrossAttentions(
            last_hidden_state=x, pooler_output=pooled
        )


class BertForPreTraining(BertPreTrainedModel):
    """Masked tokens and next sentences. dense_seq_output: the head sees the masked tokens
    only; last_layer_subset: the last layer, too."""

    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.dense_seq_output = getattr(config, "dense_seq_output", False)
        self.last_layer_subset = getattr(config, "last_layer_subset", False)
        if self.last_layer_subset and not self.dense_seq_output:
            raise ValueError("last_layer_subset: needs dense_seq_output")
        loss = nn.CrossEntropyLoss
        if getattr(config, "use_xentropy", False):
            loss = partial(CrossEntropyLoss, inplace_backward=True)
        self.bert = BertModel(config)
        self.cls = BertPreTrainingHeads(config)
        self.mlm_loss, self.nsp_loss = loss(ignore_index=0), loss(ignore_index=-1)
        self.apply(partial(_init_weights, initializer_range=config.initializer_range))
        self.tie_weights()

    def tie_weights(self):
        self.cls.predictions.decoder.weight = self.bert.embeddings.word_embeddings.weight

    def forward(
        self,
        input_ids,
        position_ids=None,
        token_type_ids=None,
        attention_mask=None,
        labels=None,
        next_sentence_label=None,
    ):
        """labels [B, S], 0 where nothing is asked. An object with loss (where both labels
        are given), prediction_logits and seq_relationship_logits [B, 2]."""
        is_dense = self.dense_seq_output and labels is not None
        is_subset = is_dense and self.last_layer_subset
        states = self.bert(
            input_ids,
            position_ids=position_ids,
            token_type_ids=token_type_ids,
            attention_mask=None if attention_mask is None else attention_mask.bool(),
            masked_tokens_mask=labels > 0 if is_subset else None,
        )
        x, asked = states.last_hidden_state, labels
        if is_dense:
            asked = labels[labels > 0]
            x = x if is_subset else x[labels > 0]
        scores, related = self.cls(x, states.pooler_output)
        loss = None
        if labels is not None and next_sentence_label is not None:
            of_tokens = self.mlm_loss(scores.reshape(-1, scores.shape[-1]), asked.reshape(-1))
            of_pairs = self.nsp_loss(related.reshape(-1, 2), next_sentence_label.reshape(-1))
            loss = of_tokens.float() + of_pairs.float()
        return BertForPreTrainingOutput(
            loss=loss, prediction_logits=scores, seq_relationship_logits=related
        )


_LAYER, _THERE = r"bert.encoder.layers.\1.", r"bert\.encoder\.layer\.(\d+)\."
_RULES = (
    (r"bert\.embeddings\.LayerNorm\.", "bert.emb_ln."),
    (_THERE + r"attention\.output\.LayerNorm\.", _LAYER + "norm1."),
    (_THERE + r"output\.LayerNorm\.", _LAYER + "norm2."),
    (_THERE + r"intermediate\.dense\.", _LAYER + "mlp.fc1."),
    (_THERE + r"output\.dense\.", _LAYER + "mlp.fc2."),
    (_THERE + r"attention\.output\.dense\.", _LAYER + "mixer.out_proj."),
    (_THERE + r"attention\.self\.", _LAYER + "mixer."),
    (r"cls\.predictions\.transform\.LayerNorm\.", "cls.predictions.transform.layer_norm."),
    (r"cls\.predictions\.bias$", "cls.predictions.decoder.bias"),
)
_HERE, _BACK_LAYER = r"bert\.encoder\.layers\.(\d+)\.", r"bert.encoder.layer.\1."
_BACK = (
    (r"bert\.emb_ln\.", "bert.embeddings.LayerNorm."),
    (_HERE + r"norm1\.", _BACK_LAYER + "attention.output.LayerNorm."),
    (_HERE + r"norm2\.", _BACK_LAYER + "output.LayerNorm."),
    (_HERE + r"mlp\.fc1\.", _BACK_LAYER + "intermediate.dense."),
    (_HERE + r"mlp\.fc2\.", _BACK_LAYER + "output.dense."),
    (_HERE + r"mixer\.out_proj\.", _BACK_LAYER + "attention.output.dense."),
    (_HERE + r"mixer\.", _BACK_LAYER + "attention.self."),
    (r"cls\.predictions\.transform\.layer_norm\.", "cls.predictions.transform.LayerNorm."),
    (r"cls\.predictions\.decoder\.bias$", "cls.predictions.bias"),
)
#: Tensors that have a row for each word, and what stands in the rows of padding.
_OF_WORDS = {
    "bert.embeddings.word_embeddings.weight": 0.0,
    "cls.predictions.decoder.weight": 0.0,
    "cls.predictions.decoder.bias": -100.0,
}


def _is_cross(name, config):
    """Whether the tensor is in a layer that asks for some rows only."""
    last = f"bert.encoder.layers.{config.num_hidden_layers - 1}."
    return getattr(config, "last_layer_subset", False) and name.startswith(last)


def remap_state_dict(state_dict, config):
    """Of transformers' BERT; gamma and beta are the names that norms had once."""
    state = {
        name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
            "LayerNorm.beta", "LayerNorm.bias"
        ): x
        for name, x in state_dict.items()
    }
    state = renamed(state, _RULES)
    cross = {name: state.pop(name) for name in list(state) if _is_cross(name, config)}
    joined(state, "Wqkv.", ("query.", "key.", "value."))
    joined(cross, "Wkv.", ("key.", "value."))
    state.update({name.replace("mixer.query", "mixer.Wq"): x for name, x in cross.items()})
    if getattr(config, "pad_vocab_size_multiple", 1) > 1:
        for name, value in _OF_WORDS.items():
            if name in state:
                x = state[name]
                size = (0, 0) * (x.dim() - 1) + (0, config.vocab_size - x.shape[0])
                state[name] = F.pad(x, size, value=value)
    return state


def inv_remap_state_dict(state_dict, config):
    """Back to transformers' names (gamma and beta), without the padding of words."""
    state = {}
    for name, x in state_dict.items():
        if getattr(config, "pad_vocab_size_multiple", 1) > 1 and name in _OF_WORDS:
            x = x[: config.orig_vocab_size]
        parts = {"Wqkv": ("query", "key", "value"), "Wkv": ("key", "value"), "Wq": ("query",)}
        for joint, names in parts.items():
            if f"mixer.{joint}." in name:
                for part, chunk in zip(names, x.chunk(len(names))):
                    state[name.replace(joint, part)] = chunk
                break
        else:
            state[name] = x
    return {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): x
        for name, x in renamed(state, _BACK).items()
    }
