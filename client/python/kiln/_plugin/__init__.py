"""The parts of kiln.triton. Nothing here imports gRPC or protobuf before a kernel is asked for."""
