"""Kernels of segments: printed by the graph front end, compiled by the daemon, launched by kiln.load."""

import json
import subprocess

import torch

import kiln

KINDS = {"ptx": "ptx", "cuda": "cuda", "triton": "ttir"}


class Kernels:
    """Those of a case by one compiler, in the order of launches. Values between them are in memory of their own. `how`: of run_segments."""

    def __init__(self, program, target, case, compiler, **how):
        self._case, self._target, self._compiler = case, target, compiler
        question = {"segment": case.segment, "symbols": [], "buffers": {}, "architecture": target.partition(":")[2], **how}
        done = subprocess.run([program, compiler], input=json.dumps(question) + "\n", capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        self._kernels, self._sizes = answer["kernels"], answer["sizes"]
        self.text = "\n".join(kernel["text"] for kernel in self._kernels)

    def __len__(self):
        return len(self._kernels)

    def requests(self):
        return [self._request(kernel) for kernel in self._kernels]

    def _request(self, kernel):
        options = {"num_warps": kernel["threads"] // 32} if self._compiler == "triton" else {}
        return kiln.CompileRequest(kernel["text"], self._target, KINDS[self._compiler], kernel["entry"], options)

    def load(self, client):
        """Returns what launches them all, on PyTorch's current stream."""
        tensors = {**self._case.inputs, "y": self._case.output}
        launches = []
        for kernel in self._kernels:
            for name in kernel["buffers"]:
                if name not in tensors:
                    tensors[name] = torch.empty(self._sizes[name], device="cuda", dtype=torch.uint8)
            block = {} if self._compiler == "triton" else {"block": (kernel["threads"], 1, 1)}
            loaded = kiln.load(client.compile(self._request(kernel))).prepare()
            grid = (*kernel["grid"], 1, 1)[:3]
            launches.append((loaded, grid, [tensors[name].data_ptr() for name in kernel["buffers"]], block))

        def launch(_keeps=tensors):
            for loaded, grid, addresses, block in launches:
                loaded.launch(grid, *addresses, **block)

        return launch
