"""Decoding token by token, greedy or sampled, with the state that modules.mha keeps."""

import time
from dataclasses import dataclass, field
from typing import Optional, Sequence, Union

import torch
from torch import Tensor


@dataclass
class InferenceParams:
    """What the layers keep between steps: how far they are, and each layer's keys and values.

    seqlen_offset: tokens done; lengths_per_sample int32 [B]: the same for each sequence.
    """

    max_seqlen: int
    max_batch_size: int
    seqlen_offset: int = 0
    batch_size_offset: int = 0
    key_value_memory_dict: dict = field(default_factory=dict)
    lengths_per_sample: Optional[Tensor] = None

    def reset(self, max_seqlen, max_batch_size):
        self.max_seqlen, self.max_batch_size = max_seqlen, max_batch_size
        self.seqlen_offset = 0
        if self.lengths_per_sample is not None:
            self.lengths_per_sample.zero_()


#: What decode() returns; mutable as transformers' classes of the same members.
@dataclass
class DecodeOutput:
    sequences: Tensor
    scores: Optional[tuple] = None


def modify_logits_for_top_k_filtering(logits, top_k):
    """All but the top_k of the last dimension become -inf, in place."""
    least = torch.topk(logits, top_k)[0][..., -1, None]
    logits.masked_fill_(logits < least, float("-inf"))


def modify_logits_for_top_p_filtering(logits, top_p):
    """Those after the most probable that make up top_p become -inf, in place."""
    if top_p <= 0.0 or top_p >= 1.0:
        return
    ordered, order = torch.sort(logits, descending=False)
    unlikely = ordered.softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p
    logits.masked_fill_(unlikely.scatter(-1, order, unlikely), float("-inf"))


def sample(logits, top_k=1, top_p=0.0, temperature=1.0):
    """A token for each row of logits [B, V]; top_k=1 is greedy, 0 no limit."""
    if top_p > 1.0:
        raise ValueError(f"top_p: {top_p} is above 1")
    if top_k == 1:
        return logits.argmax(dim=-1)
    logits, kept = logits / temperature, None
    if top_k > 0:
        logits, kept = torch.topk(logits, min(top_k, logits.shape[-1]), dim=-1)
    modify_logits_for_top_p_filtering(logits, top_p)
    chosen = torch.multinomial(torch.softmax(logits, dim=-1), num_samples=1)
    return (chosen if kept is None else kept.gather(-1, chosen)).squeeze(-1)


def _logits(model, tokens, state, vocab_size):
    positions = None
    if state.seqlen_offset > 0:
        positions = torch.full_like(tokens, state.seqlen_offset, dtype=torch.long)
    logits = model(
        tokens, position_ids=positions, inference_params=state, num_last_tokens=1
    ).logits.squeeze(dim=1)
    return logits if vocab_size is None else logits[..., :vocab_size]


@torch.inference_mode()
def decode(
    input_ids,
    model,
    max_length,
    top_k=1,
    top_p=0.0,
    temperature=1.0,
    eos_token_id=None,
    teacher_outputs=None,
    vocab_size=None,
    tensor_parallel=1,
    cg=False,
    enable_timing=False,
):
    """Continues input_ids [B, S] to max_length; all sequences have the same length.

    teacher_outputs [B, S']: tokens to take in place of the model's, as far as they reach.
    cg is taken and makes no difference: no CUDA graph is captured. Returns an object with
    sequences [B, max_length] and scores, a tuple of logits [B, V].
    """
    state = InferenceParams(max_seqlen=max_length, max_batch_size=input_ids.shape[0])
    given = 0 if teacher_outputs is None else teacher_outputs.shape[1]
    sequences, scores, start = [input_ids], [], time.perf_counter()
    while True:
        scores.append(_logits(model, sequences[-1], state, vocab_size))
        state.seqlen_offset += sequences[-1].shape[1]
        if given > state.seqlen_offset:
            token = teacher_outputs[:, state.seqlen_offset]
        else:
            token = sample(scores[-1], top_k, top_p, temperature)
        sequences.append(token.unsqueeze(1))
        if eos_token_id is not None and (token == eos_token_id).all():
            break
        if state.seqlen_offset >= max_length - 1:
            break
    if enable_timing:
        if input_ids.is_cuda:
            torch.cuda.synchronize()
        print(f"prompt and decoding: {(time.perf_counter() - start) * 1e3:.0f} ms")
    return DecodeOutput(torch.cat(sequences, dim=1), tuple(scores))


class GenerationMixin:
    """generate() for a model whose forward takes position_ids, inference_params and
    num_last_tokens, and returns an object with logits."""

    def allocate_inference_cache(self, batch_size, max_seqlen, dtype=None, **kwargs):
        raise NotImplementedError

    def generate(
        self,
        input_ids,
        max_length,
        top_k=1,
        top_p=0.0,
        temperature=1.0,
        return_dict_in_generate=False,
        output_scores=False,
        **kwargs,
    ):
        output = decode(input_ids, self, max_length, top_k, top_p, temperature, **kwargs)
        if not output_scores:
            output.scores = None
        return output if return_dict_in_generate else output.sequences


def allocate_inference_cache(
    max_batch_size,
    max_seqlen,
    nheads,
    headdim,
    layers: Union[int, Sequence],
    device,
    dtype=torch.float16,
):
    """{layer: [max_batch_size, max_seqlen, 2, nheads, headdim]}; layers: count or numbers."""
    shape = (max_batch_size, max_seqlen, 2, nheads, headdim)
    layers = range(layers) if isinstance(layers, int) else layers
    return {layer: torch.empty(shape, device=device, dtype=dtype) for layer in layers}
