// Which keys of the language the controls move, by the kind of question. `values`: a slider over them, null for a field
// alone; `list`: a menu of what ships; `key`: a menu of the key's own choices; `yes`: a switch; `suffix`: the unit that
// a number is written with. A control is there where the scenario's form has a place for its key.
'use strict';

const kCluster = [
  'Cluster',
  [
    {path: 'cluster.gpus', name: 'GPUs', values: gpu_choices},
    {path: 'cluster.device', name: 'Device', list: 'devices'},
    {path: 'cluster.fabric', name: 'Fabric', list: 'fabrics'},
  ]
];

const kTrainControls = [
  kCluster,
  [
    'Parallelism',
    [
      {path: 'parallelism.tensor', name: 'Tensor', values: () => powers(1, 64)},
      {path: 'parallelism.pipeline', name: 'Pipeline', values: pipeline_choices},
      {path: 'parallelism.virtual_pipeline', name: 'Virtual stages', values: chunk_choices},
      {path: 'parallelism.context', name: 'Context', values: () => powers(1, 64)},
      {
        path: 'parallelism.expert',
        name: 'Expert',
        values: expert_choices,
        when: () => state.layout['model.experts'] > 0
      },
      {path: 'parallelism.data', name: 'Data', shown: true},
      {path: 'parallelism.schedule', name: 'Schedule', list: 'schedules'},
      {path: 'parallelism.sharding', name: 'Sharding', key: true},
      {path: 'parallelism.sequence_parallel', name: 'Sequence parallelism', yes: true},
    ]
  ],
  [
    'Batch',
    [
      {path: 'batch.global', name: 'Global batch', values: () => powers(1, 16384)},
      {path: 'batch.micro', name: 'Micro-batch', values: () => powers(1, 64)},
    ]
  ],
  [
    'Method',
    [
      {path: 'model', name: 'Model', list: 'models'},
      {path: 'model.seq', name: 'Sequence', values: () => powers(512, 131072)},
      {path: 'precision', name: 'Precision', key: true},
      {path: 'recompute', name: 'Recompute', words: ['none', 'selective', 'full']},
      {path: 'software', name: 'Software', list: 'software'},
      {path: 'overlap.tensor', name: 'Overlap tensor', yes: true},
      {path: 'overlap.pipeline', name: 'Overlap pipeline', yes: true},
      {path: 'overlap.gradients', name: 'Overlap gradients', yes: true},
      {path: 'overlap.parameters', name: 'Overlap parameters', yes: true},
    ]
  ],
  [
    'Cost',
    [
      {path: 'cost.price_per_gpu_hour_usd', name: 'GPU price', unit: '$/h', values: null},
      {path: 'training.tokens', name: 'Tokens to train', values: null},
    ]
  ],
];

const model_has_experts = () => state.layout['model.experts'] > 0;

// Of the pool at `list`, as in serving.pools[0].
const pool_controls = (list) =>
    [{path: list + '.replicas', name: 'Replicas', values: () => powers(1, 256)},
     {path: list + '.parallelism.tensor', name: 'Tensor', values: () => powers(1, 64)},
     {path: list + '.parallelism.pipeline', name: 'Pipeline', values: () => powers(1, 16)},
     {path: list + '.parallelism.attention_data', name: 'Attention data', values: () => powers(1, 256)},
     {path: list + '.parallelism.expert', name: 'Expert', values: () => powers(1, 256), when: model_has_experts},
     {path: list + '.max_sequences', name: 'Sequences at most', values: () => powers(1, 4096)},
     {path: list + '.max_batched_tokens', name: 'Tokens at most', values: () => powers(256, 65536)},
     {path: list + '.chunked_prefill', name: 'Chunked prefill', yes: true},
     {path: list + '.prefix_caching', name: 'Prefix caching', yes: true},
];

function pool_title(i) {
  const role = state.layout['serving.pools[' + i + '].role'];
  return role === 'prefill' ? 'Replicas for prompts' : role === 'decode' ? 'Replicas for answers' : 'Replicas';
}

const kServeControls = [
  kCluster,
  [
    'Model and engine',
    [
      {path: 'model', name: 'Model', list: 'models'},
      {path: 'software', name: 'Engine', list: 'engines'},
      {path: 'precision.weights', name: 'Weights', key: true},
      {path: 'precision.kv_cache', name: 'Cache', key: true},
      {path: 'serving.router', name: 'Router', words: ['round_robin', 'least_loaded', 'prefix_aware']},
    ]
  ],
  [() => pool_title(0), pool_controls('serving.pools[0]')],
  [() => pool_title(1), pool_controls('serving.pools[1]')],
  [
    'Traffic',
    [
      {path: 'traffic', name: 'Requests come', words: ['open loop', 'closed loop']},
      {path: 'traffic.rate', name: 'Rate', unit: '/s', suffix: '/s', values: () => powers(0.25, 1024)},
      {
        path: 'traffic.duration',
        name: 'For',
        unit: 's',
        suffix: ' s',
        values: () => [30, 60, 120, 300, 600, 1800, 3600]
      },
      {path: 'traffic.concurrency', name: 'At a time', values: () => powers(1, 4096)},
      {path: 'traffic.requests', name: 'Requests', values: () => powers(16, 65536)},
      {path: 'traffic.input', name: 'Tokens in', values: () => powers(16, 131072)},
      {path: 'traffic.input.mean', name: 'Tokens in', values: () => powers(16, 131072)},
      {path: 'traffic.output', name: 'Tokens out', values: () => powers(16, 32768)},
      {path: 'traffic.output.mean', name: 'Tokens out', values: () => powers(16, 32768)},
    ]
  ],
  [
    'Promise',
    [
      {path: 'serving.slo.ttft', name: 'First token', unit: 'ms', suffix: ' ms', values: null},
      {path: 'serving.slo.tpot', name: 'Each token', unit: 'ms', suffix: ' ms', values: null},
      {path: 'serving.slo.percentile', name: 'For', unit: '%', values: null},
    ]
  ],
  ['Cost', [{path: 'cost.price_per_gpu_hour_usd', name: 'GPU price', unit: '$/h', values: null}]],
];

const kRlControls = [
  kCluster,
  [
    'Step',
    [
      {path: 'model', name: 'Model', list: 'models'},
      {path: 'rl.algorithm', name: 'Algorithm', key: true},
      {path: 'rl.framework', name: 'Framework', list: 'rl'},
      {path: 'rl.prompts', name: 'Prompts', values: () => powers(16, 8192)},
      {path: 'rl.samples_per_prompt', name: 'Answers each', values: () => powers(1, 128)},
      {path: 'rl.answer', name: 'Answer', unit: 'tokens', values: () => powers(64, 65536)},
      {path: 'rl.answer.mean', name: 'Answer', unit: 'tokens', values: () => powers(64, 65536)},
      {path: 'rl.answer.variation', name: 'Variation', values: null},
      {path: 'rl.answer.max', name: 'Longest', unit: 'tokens', values: () => powers(64, 131072)},
      {path: 'rl.mini_batch', name: 'Mini-batch', values: () => powers(16, 65536)},
      {path: 'rl.epochs', name: 'Epochs', values: () => [1, 2, 3, 4]},
    ]
  ],
  [
    'Who has which GPUs',
    [
      {path: 'rl.placement', name: 'Placement', words: ['colocated', 'separate', 'asynchronous']},
      {path: 'rl.placement.rollout_gpus', name: 'GPUs that write', values: split_choices},
      {path: 'rl.placement.staleness', name: 'Steps off', values: () => [1, 2, 3, 4, 6, 8]},
      {path: 'rl.weight_transfer', name: 'Weights go by', key: true},
    ]
  ],
  [
    'Engine',
    [
      {path: 'rl.rollout.software', name: 'Engine', list: 'engines'},
      {path: 'rl.rollout.precision.weights', name: 'Weights', key: true},
      {path: 'rl.rollout.pools[0].parallelism.tensor', name: 'Tensor', values: () => powers(1, 64)},
      {path: 'rl.rollout.pools[0].parallelism.pipeline', name: 'Pipeline', values: () => powers(1, 16)},
      {
        path: 'rl.rollout.pools[0].parallelism.expert',
        name: 'Expert',
        values: () => powers(1, 256),
        when: model_has_experts
      },
      {path: 'rl.rollout.pools[0].max_sequences', name: 'Sequences at most', values: () => powers(1, 4096)},
    ]
  ],
  [
    'Trainer',
    [
      {path: 'rl.training.software', name: 'Software', list: 'software'},
      {path: 'rl.training.parallelism.tensor', name: 'Tensor', values: () => powers(1, 64)},
      {path: 'rl.training.parallelism.pipeline', name: 'Pipeline', values: () => powers(1, 64)},
      {path: 'rl.training.parallelism.context', name: 'Context', values: () => powers(1, 64)},
      {path: 'rl.training.parallelism.expert', name: 'Expert', values: expert_choices, when: model_has_experts},
      {path: 'rl.training.parallelism.data', name: 'Data', shown: true},
      {path: 'rl.training.parallelism.sharding', name: 'Sharding', key: true},
    ]
  ],
];
