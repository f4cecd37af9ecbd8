"""Foundations that every package uses: errors with a file and a line, YAML, units, the catalogue, and atomic writes.

errors                      every problem of an input at once, with file, line and fix
strict_model                base class of all schemas
units, expression           quantities with units, arithmetic over named results
number_format, dtype        bits of elements and their scales; the dtype of each operand
index_bits                  bits of an index, as in N:M metadata
array_types                 arrays of NumPy or JAX
formula                     arithmetic over dotted paths and quantities, with dimensions
display_units               units in which people read results: mm^2, TB/s, ms
catalog                     descriptions by name or path
input_file, yaml_document   read files safely, CSV tables included; YAML with line numbers
output_file, checksum       write files atomically, one process at a time; detect damage
name_value                  pairs NAME=VALUE of options and tables
table_format                rows as text, JSON and HTML
import_hook                 act once a package is imported, without importing it
progress, available_memory  progress bars; memory that this process may take
"""
