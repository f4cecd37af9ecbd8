"""Read published tables of measurements in the columns in which they are passed around, as rows of `Measurement`.

network_names     networks of the catalogue by the names that tables give to them
table             a table: its columns, and the conversion of a row
pruning_papers    products of the papers on N:M, V:N:M and 2:4 kernels, and of dense ones
aiconfigurator    tables of ai-dynamo/aiconfigurator: dense products in the dtypes of serving frameworks
vllm_networks     whole networks in vLLM
read              which table a file is, by its name or its columns; its rows, and the reason of each row left out
"""
