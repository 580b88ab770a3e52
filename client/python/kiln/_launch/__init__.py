"""The parts of kiln.launch. Nothing here imports gRPC, protobuf or a framework."""
