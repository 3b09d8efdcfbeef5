"""Token and position embeddings, also split over processes."""

import torch
import torch.nn as nn
from torch import Tensor

from flash_attn.utils.distributed import all_reduce, reduce_scatter


def _positions(input_ids, position_ids):
    if position_ids is not None:
        return position_ids
    return torch.arange(input_ids.shape[1], dtype=torch.long, device=input_ids.device)


class GPT2Embeddings(nn.Module):
    """word_embeddings, in word_embed_proj_dim dimensions and projected where that is given,
    plus position_embeddings where max_position_embeddings > 0."""

    def __init__(
        self,
        embed_dim,
        vocab_size,
        max_position_embeddings,
        padding_idx=None,
        word_embed_proj_dim=None,
        device=None,
        dtype=None,
    ):
        options = {"device": device, "dtype": dtype}
        super().__init__()
        words = embed_dim if word_embed_proj_dim is None else word_embed_proj_dim
        self.word_embeddings = nn.Embedding(
            vocab_size, words, padding_idx=padding_idx, **options
        )
        self.project_in = None
        if word_embed_proj_dim is not None:
            self.project_in = nn.Linear(words, embed_dim, bias=False, **options)
        self.max_position_embeddings = max_position_embeddings
        if max_position_embeddings > 0:
            self.position_embeddings = nn.Embedding(
                max_position_embeddings, embed_dim, **options
            )

    def forward(self, input_ids, position_ids=None):
        """[B, S, E] of input_ids [B, S]."""
        embeddings = self.word_embeddings(input_ids)
        if self.project_in is not None:
            embeddings = self.project_in(embeddings)
        if self.max_position_embeddings > 0:
            places = _positions(input_ids, position_ids)
            embeddings = embeddings + self.position_embeddings(places)
        return embeddings


class BertEmbeddings(nn.Module):
    """Words, and positions and token types where there are any."""

    def __init__(
        self,
        embed_dim,
        vocab_size,
        max_position_embeddings,
        type_vocab_size,
        padding_idx=None,
        device=None,
        dtype=None,
    ):
        options = {"device": device, "dtype": dtype}
        super().__init__()
        self.word_embeddings = nn.Embedding(
            vocab_size, embed_dim, padding_idx=padding_idx, **options
        )
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        if max_position_embeddings > 0:
            self.position_embeddings = nn.Embedding(
                max_position_embeddings, embed_dim, **options
            )
        if type_vocab_size > 0:
            self.token_type_embeddings = nn.Embedding(type_vocab_size, embed_dim, **options)

    def forward(self, input_ids, position_ids=None, token_type_ids=None):
        """[B, S, E] of input_ids [B, S]; token types are 0 unless given."""
        embeddings = self.word_embeddings(input_ids)
        if self.max_position_embeddings > 0:
            places = _positions(input_ids, position_ids)
            embeddings = embeddings + self.position_embeddings(places)
        if self.type_vocab_size > 0:
            if token_type_ids is None:
                token_type_ids = torch.zeros_like(input_ids)
            embeddings = embeddings + self.token_type_embeddings(token_type_ids)
        return embeddings


def _part(total, process_group, what):
    world = torch.distributed.get_world_size(process_group)
    if total % world:
        raise ValueError(f"{what}: {total} does not divide by {world} processes")
    return total // world


class VocabParallelEmbedding(nn.Embedding):
    """Each process has some words, and gives zeros for the others: sum the results."""

    def __init__(self, num_embeddings, *args, process_group=None, padding_idx=None, **kwargs):
        self.process_group = process_group
        if process_group is not None:
            if padding_idx is not None:
                raise RuntimeError("padding_idx: is not for words split over processes")
            num_embeddings = _part(num_embeddings, process_group, "num_embeddings")
        super().__init__(num_embeddings, *args, padding_idx=padding_idx, **kwargs)

    def forward(self, input: Tensor) -> Tensor:
        if self.process_group is None:
            return super().forward(input)
        rank = torch.distributed.get_rank(self.process_group)
        own = input - rank * self.num_embeddings
        others = (own < 0) | (own >= self.num_embeddings)
        return super().forward(own.masked_fill(others, 0)).masked_fill(others[..., None], 0.0)


class ColumnParallelEmbedding(nn.Embedding):
    """Each process has some dimensions."""

    def __init__(self, num_embeddings, embedding_dim, *args, process_group=None, **kwargs):
        self.process_group = process_group
        if process_group is not None:
            embedding_dim = _part(embedding_dim, process_group, "embedding_dim")
        super().__init__(num_embeddings, embedding_dim, *args, **kwargs)


class ParallelGPT2Embeddings(nn.Module):
    """GPT2Embeddings split over processes: words by rows, positions by dimensions."""

    def __init__(
        self,
        embed_dim,
        vocab_size,
        max_position_embeddings,
        process_group,
        padding_idx=None,
        sequence_parallel=True,
        device=None,
        dtype=None,
    ):
        options = {"device": device, "dtype": dtype, "process_group": process_group}
        super().__init__()
        self.process_group = process_group
        self.sequence_parallel = sequence_parallel
        self.word_embeddings = VocabParallelEmbedding(
            vocab_size, embed_dim, padding_idx=padding_idx, **options
        )
        self.max_position_embeddings = max_position_embeddings
        if max_position_embeddings > 0:
            self.position_embeddings = ColumnParallelEmbedding(
                max_position_embeddings, embed_dim, **options
            )

    def forward(self, input_ids, position_ids=None, combine_batch_seqlen_dim=False):
        """[B, S, E], or with combine_batch_seqlen_dim [B * S, E], this process's rows of it
        with sequence_parallel."""
        embeddings = self.word_embeddings(input_ids)
        if self.max_position_embeddings > 0:
            own = self.position_embeddings(_positions(input_ids, position_ids))
            if self.process_group is None:
                embeddings = embeddings + own
            else:
                start = own.shape[-1] * torch.distributed.get_rank(self.process_group)
                rest = embeddings.shape[-1] - start - own.shape[-1]
                embeddings = embeddings + nn.functional.pad(own, (start, rest))
        if combine_batch_seqlen_dim:
            embeddings = embeddings.flatten(0, 1)
        if self.process_group is None:
            return embeddings
        reduce = reduce_scatter if self.sequence_parallel else all_reduce
        return reduce(embeddings, self.process_group)
