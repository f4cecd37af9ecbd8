"""Read networks and weights from files of PyTorch; no code of a file is ever run, nothing is unpickled without restrictions.

checkpoint   weights by name, as torch.save writes them (.pt, .pth, .bin)
archive      the zip archive that torch.export.save writes (.pt2)
program      its operators, flattened to a list with the shapes of all tensors
aten         PyTorch's operators, sorted by what becomes of them
constants    weights after the operators that the program applies to them
network      the program as a network
"""
