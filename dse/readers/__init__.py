"""Read networks from files: each module reads one format; all return a `ParsedNetwork`.

parsed_network   what a reader returns: layers, weights of each network state, what became of each operator
dtypes           number types of the formats
weight files     smtx, numpy_files, safetensors, pytorch.checkpoint: tensors by name
named_tensors    tensors without a graph as layers
quantized        real weights of tensors that quantisers packed
weight_files     one file or a folder of them as a network, with one state for each subfolder
layer_table      CSV and YAML tables of layers
config_json      configurations of published models
layer_rows       the rows of layers.csv that operators of a graph become
onnx, pytorch    graphs: operators in the order in which they run
layer_matching   weights of one file matched to the layers of another
"""
