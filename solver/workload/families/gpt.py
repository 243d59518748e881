"""GPT-2 and the older families: LayerNorm with biases, and mostly two-matrix MLPs.

Defaults are those of ``GPT2Config``, ``GPTNeoXConfig``, ``GPTJConfig``, ``OPTConfig``,
``BloomConfig`` and ``FalconConfig`` in Transformers.
"""

from __future__ import annotations

from solver.errors import UnsupportedModel
from solver.workload.architecture import (
    Architecture,
    Attention,
    FeedForward,
    Layer,
    Norm,
    Positions,
)
from solver.workload.families import common
from solver.workload.fields import Fields


def read_gpt2(fields: Fields) -> Architecture:
    """GPT-2 and GPT-3: learned positions, biases, tied; ``n_inner`` null: four times the width.

    ``num_key_value_heads`` is not GPT-2's own field; it is read where given, for the many
    GPT-like models that share keys and values.
    """
    hidden_size = fields.integer("n_embd", "hidden_size")
    layers = common.num_layers(fields, "n_layer", "num_hidden_layers")
    heads, key_value_heads = common.head_counts(fields, "n_head", "num_attention_heads")
    layer = Layer(
        attention=Attention(
            heads=heads,
            key_value_heads=key_value_heads,
            head_dim=common.even_head_dim(fields, hidden_size, heads, "n_head"),
            query_key_value_bias=True,
            output_bias=True,
        ),
        feed_forward=FeedForward(
            hidden=fields.integer("n_inner", default=4 * hidden_size),
            gated=False,
            activation=common.activation(fields, "activation_function", default="gelu_new"),
            bias=True,
        ),
        norm=Norm.LAYER,
        hidden_dropout=fields.fraction("resid_pdrop", 0.1),
        attention_dropout=fields.fraction("attn_pdrop", 0.1),
    )
    return Architecture(
        name=common.name_of(fields),
        hidden_size=hidden_size,
        vocabulary_size=fields.integer("vocab_size"),
        layers=((layer, layers),),
        tied_embeddings=fields.boolean("tie_word_embeddings", True),
        positions=Positions.LEARNED,
        max_positions=fields.integer("n_positions", "max_position_embeddings", default=1024),
        embedding_dropout=fields.fraction("embd_pdrop", 0.1),
    )


def read_gpt_neox(fields: Fields) -> Architecture:
    """GPT-NeoX and Pythia: attention and MLP in parallel (two norms), rotary positions, untied."""
    hidden_size = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    bias = fields.boolean("attention_bias", True)
    layer = Layer(
        attention=Attention(
            heads=heads,
            key_value_heads=heads,
            head_dim=common.even_head_dim(fields, hidden_size, heads, "num_attention_heads"),
            query_key_value_bias=bias,
            output_bias=bias,
        ),
        feed_forward=FeedForward(
            hidden=fields.integer("intermediate_size"),
            gated=False,
            activation=common.activation(fields, "hidden_act", default="gelu"),
            bias=True,
        ),
        norm=Norm.LAYER,
        parallel_residual=fields.boolean("use_parallel_residual", True),
        hidden_dropout=fields.fraction("hidden_dropout", 0.0),
        attention_dropout=fields.fraction("attention_dropout", 0.0),
    )
    return Architecture(
        name=common.name_of(fields),
        hidden_size=hidden_size,
        vocabulary_size=fields.integer("vocab_size"),
        layers=((layer, common.num_layers(fields)),),
        tied_embeddings=fields.boolean("tie_word_embeddings", False),
        max_positions=fields.integer("max_position_embeddings", default=2048),
    )


def read_gptj(fields: Fields) -> Architecture:
    """GPT-J: attention and MLP in parallel behind one norm; a head with a bias; untied."""
    hidden_size = fields.integer("n_embd", "hidden_size")
    heads = fields.integer("n_head", "num_attention_heads")
    layer = Layer(
        attention=Attention(
            heads=heads,
            key_value_heads=heads,
            head_dim=common.even_head_dim(fields, hidden_size, heads, "n_head"),
        ),
        feed_forward=FeedForward(
            hidden=fields.integer("n_inner", default=4 * hidden_size),
            gated=False,
            activation=common.activation(fields, "activation_function", default="gelu_new"),
            bias=True,
        ),
        norm=Norm.LAYER,
        norms=1,
        parallel_residual=True,
        hidden_dropout=fields.fraction("resid_pdrop", 0.0),
        attention_dropout=fields.fraction("attn_pdrop", 0.0),
    )
    return Architecture(
        name=common.name_of(fields),
        hidden_size=hidden_size,
        vocabulary_size=fields.integer("vocab_size"),
        layers=((layer, common.num_layers(fields, "n_layer", "num_hidden_layers")),),
        tied_embeddings=fields.boolean("tie_word_embeddings", False),
        max_positions=fields.integer("n_positions", "max_position_embeddings", default=2048),
        embedding_dropout=fields.fraction("embd_pdrop", 0.0),
        head_bias=True,
    )


def read_opt(fields: Fields) -> Architecture:
    """OPT: learned positions (its table has two rows more), ReLU, tied."""
    hidden_size = fields.integer("hidden_size")
    if fields.integer("word_embed_proj_dim", default=hidden_size) != hidden_size:
        raise UnsupportedModel(
            "An embedding narrower than the hidden size is not known.",
            field=f"{fields.path}.word_embed_proj_dim",
            hint=f"Give {hidden_size}, or another size of OPT than 350m.",
        )
    heads = fields.integer("num_attention_heads")
    bias = fields.boolean("enable_bias", True)
    dropout = fields.fraction("dropout", 0.1)
    layer = Layer(
        attention=Attention(
            heads=heads,
            key_value_heads=heads,
            head_dim=common.even_head_dim(fields, hidden_size, heads, "num_attention_heads"),
            query_key_value_bias=bias,
            output_bias=bias,
        ),
        feed_forward=FeedForward(
            hidden=fields.integer("ffn_dim"),
            gated=False,
            activation=common.activation(fields, "activation_function", default="relu"),
            bias=bias,
        ),
        norm=Norm.LAYER,
        hidden_dropout=dropout,
        attention_dropout=fields.fraction("attention_dropout", 0.0),
    )
    return Architecture(
        name=common.name_of(fields),
        hidden_size=hidden_size,
        vocabulary_size=fields.integer("vocab_size"),
        layers=((layer, common.num_layers(fields)),),
        tied_embeddings=fields.boolean("tie_word_embeddings", True),
        positions=Positions.LEARNED,
        max_positions=fields.integer("max_position_embeddings", default=2048) + 2,
    )


def read_bloom(fields: Fields) -> Architecture:
    """BLOOM: ALiBi positions, a norm behind the embedding, tied."""
    hidden_size = fields.integer("hidden_size", "n_embed")
    heads = fields.integer("n_head", "num_attention_heads")
    layer = Layer(
        attention=Attention(
            heads=heads,
            key_value_heads=heads,
            head_dim=common.even_head_dim(fields, hidden_size, heads, "n_head"),
            query_key_value_bias=True,
            output_bias=True,
        ),
        feed_forward=FeedForward(hidden=4 * hidden_size, gated=False, activation="gelu", bias=True),
        norm=Norm.LAYER,
        hidden_dropout=fields.fraction("hidden_dropout", 0.0),
        attention_dropout=fields.fraction("attention_dropout", 0.0),
    )
    return Architecture(
        name=common.name_of(fields),
        hidden_size=hidden_size,
        vocabulary_size=fields.integer("vocab_size"),
        layers=((layer, common.num_layers(fields, "n_layer", "num_hidden_layers")),),
        tied_embeddings=fields.boolean("tie_word_embeddings", True),
        positions=Positions.ALIBI,
        embedding_norm=True,
    )


def read_falcon(fields: Fields) -> Architecture:
    """Falcon: rotary or ALiBi, one key/value head (7B) or several (40B, 180B), tied.

    The 40B design (``new_decoder_architecture``) has two norms before its parallel halves, the 7B
    design one, the sequential design (``parallel_attn`` false) two.
    """
    hidden_size = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads", "n_head")
    new_design = fields.boolean("new_decoder_architecture", False)
    parallel = fields.boolean("parallel_attn", True)
    if new_design:
        key_value_heads = fields.integer("num_kv_heads", default=heads)
        norms = fields.integer("num_ln_in_parallel_attn", default=2, maximum=2)
    else:
        key_value_heads = 1 if fields.boolean("multi_query", True) else heads
        norms = 1 if parallel else 2
    if heads % key_value_heads:
        raise fields.wrong(
            "num_kv_heads",
            f"{heads} attention heads cannot share {key_value_heads} key/value heads evenly.",
            f"Give a divisor of {heads}.",
        )
    bias = fields.boolean("bias", False)
    layer = Layer(
        attention=Attention(
            heads=heads,
            key_value_heads=key_value_heads,
            head_dim=common.even_head_dim(fields, hidden_size, heads, "num_attention_heads"),
            query_key_value_bias=bias,
            output_bias=bias,
        ),
        feed_forward=FeedForward(
            hidden=fields.integer("ffn_hidden_size", default=4 * hidden_size),
            gated=False,
            activation=common.activation(fields, "activation", default="gelu"),
            bias=bias,
        ),
        norm=Norm.LAYER,
        norms=norms,
        parallel_residual=parallel or new_design,
        hidden_dropout=fields.fraction("hidden_dropout", 0.0),
        attention_dropout=fields.fraction("attention_dropout", 0.0),
    )
    alibi = fields.boolean("alibi", False)
    return Architecture(
        name=common.name_of(fields),
        hidden_size=hidden_size,
        vocabulary_size=fields.integer("vocab_size"),
        layers=((layer, common.num_layers(fields, "num_hidden_layers", "n_layer")),),
        tied_embeddings=fields.boolean("tie_word_embeddings", True),
        positions=Positions.ALIBI if alibi else Positions.ROTARY,
        max_positions=fields.integer("max_position_embeddings", default=2048),
    )
