#!/bin/bash
# GPT-3 6.7B on two nodes, as Megatron-LM's examples launch it.
GPUS_PER_NODE=8
NNODES=2
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 \
  --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 \
  --micro-batch-size 2 --global-batch-size 64 --bf16 --use-flash-attn --use-distributed-optimizer \
  --vocab-size 50257
